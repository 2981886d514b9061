/*
 * library: opens libraries while the program runs, without RTLD_DEEPBIND.
 *
 * With that flag, a library's calls would reach the C library's malloc and free before farpage's. The library could
 * then pass a block of one heap to the other heap's free(). PHP opens its extensions with the flag, so this file
 * removes the flag. Other malloc libraries and the sanitizers demand that programs do not use this flag.
 */
#include "pager/preload/preload.h"

#include <dlfcn.h>

/* dlopen(3) searches the directories that its caller names (DT_RUNPATH), and finds the caller by the return address.
   So this function must end in a jump, not in a call. Every optimising compiler does that; the test
   preload_libraries checks it. */
PRELOAD_EXPORT void *dlopen(const char *path, int flags)
{
	static void *(*open)(const char *, int);

	if (!open)
		open = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	return open(path, preload.far_heap ? flags & ~RTLD_DEEPBIND : flags);
}
