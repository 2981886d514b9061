#include "pager/thread.h"

#include <signal.h>

int pager_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, PAGER_STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(thread, &attributes, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (error == 0)
		pthread_setname_np(*thread, name);
	return -error;
}
