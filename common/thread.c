/* thread: see thread.h. */
#include "common/thread.h"

#include <signal.h>

int thread_start(pthread_t *ret_thread, const char *name, size_t stack_bytes, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int error = pthread_attr_init(&attributes);

	if (error)
		return -error;
	error = pthread_attr_setstacksize(&attributes, stack_bytes);
	if (error == 0) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(ret_thread, &attributes, run, argument);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	pthread_attr_destroy(&attributes);
	if (error == 0 && name)
		pthread_setname_np(*ret_thread, name);
	return -error;
}
