#include "pager/thread.h"

#include <semaphore.h>
#include <signal.h>

struct start {
	int (*prepare)(void *);
	void *(*run)(void *);
	void *argument;
	int result;
	sem_t prepared;
};

static void *run_prepared(void *argument)
{
	struct start *start = argument;
	void *(*run)(void *) = start->run;
	void *run_argument = start->argument;
	int result = start->prepare(run_argument);
	start->result = result;
	sem_post(&start->prepared); /* from here on `start` may be gone */
	return result ? NULL : run(run_argument);
}

int pager_thread_start(pthread_t *thread, const char *name, int (*prepare)(void *), void *(*run)(void *),
		       void *argument)
{
	struct start start = {.prepare = prepare, .run = run, .argument = argument};
	pthread_attr_t attributes;
	sigset_t all, before;
	sem_init(&start.prepared, 0, 0);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, PAGER_STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(thread, &attributes, run_prepared, &start);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (error == 0) {
		pthread_setname_np(*thread, name);
		while (sem_wait(&start.prepared))
			; /* interrupted by a signal of the program */
		error = -start.result;
		if (error)
			pthread_join(*thread, NULL);
	}
	sem_destroy(&start.prepared);
	return -error;
}
