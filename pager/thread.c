#include "pager/thread.h"

#include "common/thread.h"

#include <semaphore.h>
#include <sys/resource.h>

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
	sem_post(&start->prepared); /* the caller may now return, which ends `start` */
	return result ? NULL : run(run_argument);
}

int pager_thread_start(pthread_t *thread, const char *name, int (*prepare)(void *), void *(*run)(void *),
		       void *argument)
{
	struct start start = {.prepare = prepare, .run = run, .argument = argument};

	sem_init(&start.prepared, 0, 0);
	int error = thread_start(thread, name, PAGER_STACK_BYTES, run_prepared, &start);
	if (error == 0) {
		while (sem_wait(&start.prepared))
			; /* interrupted by a signal of the program */
		error = start.result;
		if (error)
			pthread_join(*thread, NULL);
	}
	sem_destroy(&start.prepared);
	return error;
}

void pager_thread_time(uint64_t *counter)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		return;
	uint64_t ns = (uint64_t)usage.ru_utime.tv_sec * 1000000000 + (uint64_t)usage.ru_utime.tv_usec * 1000;
	__atomic_store_n(counter, ns, __ATOMIC_RELAXED);
}
