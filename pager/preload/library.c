/*
 * library: libraries that a program opens as it runs.
 *
 * RTLD_DEEPBIND binds a library's calls to the C library first, past the functions that farpage puts in front of it:
 * such a library frees with one heap what the other has given it (PHP opens its extensions so). So the flag is dropped,
 * as the sanitizers and other mallocs demand of programs.
 */
#include "pager/preload/preload.h"
#include <dlfcn.h>

/* dlopen(3) searches the folders that its caller names (DT_RUNPATH), and knows the caller by its return address. So
   this must end in a jump to it, which every optimising compiler makes of such a call; preload_libraries looks. */
PRELOAD_EXPORT void *dlopen(const char *path, int flags)
{
	static void *(*open)(const char *, int);
	if (!open)
		open = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	return open(path, preload.far_heap ? flags & ~RTLD_DEEPBIND : flags);
}
