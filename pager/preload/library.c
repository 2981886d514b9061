/*
 * library: opens libraries while the program runs.
 *
 * RTLD_DEEPBIND binds a library's calls to the C library first, past farpage's functions. Such a library would free
 * blocks of one heap with the other. PHP opens its extensions in this way. So the flag is dropped, as the sanitizers
 * and other mallocs demand of programs.
 */
#include "pager/preload/preload.h"
#include <dlfcn.h>

/*
 * dlopen(3) searches the directories that its caller names (DT_RUNPATH). dlopen(3) recognises the caller by its return
 * address. So this function must end in a jump to dlopen(3). Every optimising compiler makes a jump of such a call, and
 * the test preload_libraries checks this.
 */
PRELOAD_EXPORT void *dlopen(const char *path, int flags)
{
	static void *(*open)(const char *, int);
	if (!open)
		open = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	return open(path, preload.far_heap ? flags & ~RTLD_DEEPBIND : flags);
}
