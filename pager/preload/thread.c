/*
 * thread: threads that farpage makes are near, from their first instruction to their last. Besides, they keep to the
 * C locale, because a locale that the program has set lives in the program's heap.
 */
#include "pager/preload/preload.h"
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>

struct near_thread {
	void *(*run)(void *);
	void *argument;
};

static void *near_thread_run(void *data)
{
	struct near_thread thread = *(struct near_thread *)data;
	preload_near = 1;
	free(data);
	uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
	return thread.run(thread.argument);
}

PRELOAD_EXPORT int pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes, void *(*run)(void *),
				  void *argument)
{
	static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	if (!create)
		create = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
		    RTLD_NEXT, "pthread_create");
	if (!preload_near)
		return create(ret_thread, attributes, run, argument);
	struct near_thread *thread = malloc(sizeof *thread);
	if (!thread)
		return EAGAIN;
	*thread = (struct near_thread){run, argument};
	int error = create(ret_thread, attributes, near_thread_run, thread);
	if (error)
		free(thread);
	return error;
}
