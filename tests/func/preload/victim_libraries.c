/* Opens a library with RTLD_DEEPBIND, as PHP does its extensions, and passes blocks of memory to and fro. */
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
	/* Most of the heap is far by then. */
	size_t size = victim_size();
	char *much = malloc(size);
	fill(much, size, 7);
	/* It is searched for where this program says, which is not where farpage's own library is. */
	void *library = dlopen("opened_library.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	ok(library, "a library in the program's own DT_RUNPATH is found: %s", library ? "yes" : dlerror());
	if (!library)
		return tap_done();
	copy = (char *(*)(const char *))dlsym(library, "library_copy");
	give_back = (void (*)(char *))dlsym(library, "library_free");
	if (!ok(copy && give_back, "its functions are found"))
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
	ok(!wrong_copies, "blocks of the library's and the program's are right, and freed by the other");
	ok(wrong(much, size, 7, 0) == 0, "the program's memory is right");
	free(much);
	ok(dlclose(library) == 0, "the library is closed");
	return tap_done();
}
