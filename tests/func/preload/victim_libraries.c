/* Opens a library with RTLD_DEEPBIND, as PHP opens its extensions. Program and library free blocks of each other. */
#include "tests/func/preload/victim.h"

#include <dlfcn.h>
#include <string.h>

#define COPIES 1000

int main(void)
{
	char *(*copy)(const char *);
	void (*give_back)(char *);
	char *copies[COPIES];
	unsigned wrong_copies = 0;
	/* Evicts most of the heap. */
	size_t size = victim_size();
	char *much = malloc(size);

	fill(much, size, 7);
	/* dlopen must search the program's DT_RUNPATH. farpage's own library lies elsewhere. */
	void *library = dlopen("opened_library.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	ok(library, "dlopen finds a library in the program's own DT_RUNPATH: %s", library ? "yes" : dlerror());
	if (!library)
		return tap_done();
	copy = (char *(*)(const char *))dlsym(library, "library_copy");
	give_back = (void (*)(char *))dlsym(library, "library_free");
	if (!ok(copy && give_back, "dlsym finds the functions of the library"))
		return tap_done();
	for (unsigned i = 0; i < COPIES; i++)
		copies[i] = copy("what the library has copied");
	for (unsigned i = 0; i < COPIES; i++) {
		wrong_copies += strcmp(copies[i], "what the library has copied") != 0;
		if (i % 2)
			give_back(copies[i]);
		else
			free(copies[i]);
		give_back(malloc(100));
	}
	ok(!wrong_copies, "program and library free each other's blocks, which keep their contents");
	ok(wrong(much, size, 7, 0) == 0, "the program's heap block keeps its contents");
	free(much);
	ok(dlclose(library) == 0, "dlclose closes the library");
	return tap_done();
}
