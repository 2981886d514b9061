/* thread: see thread.h. */
#include "common/thread.h"

#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

/* The arguments of a new thread. They are on the stack of thread_start(), which does not return before the new thread
   has copied them. */
struct call {
	void *(*run)(void *);
	void *argument;
	sem_t taken;
};

static _Atomic unsigned count;

static void *run_counted(void *data)
{
	struct call *call = data;
	void *(*run)(void *) = call->run;
	void *argument = call->argument, *result;

	sem_post(&call->taken); /* from here on, `call` may not exist any more */
	result = run(argument);
	atomic_fetch_sub(&count, 1);
	return result;
}

unsigned thread_count(void)
{
	return atomic_load(&count);
}

void thread_count_forget(void)
{
	atomic_store(&count, 0);
}

int thread_start(pthread_t *ret_thread, const char *name, size_t stack_bytes, void *(*run)(void *), void *argument)
{
	struct call call = {.run = run, .argument = argument};
	pthread_attr_t attributes;
	sigset_t all, before;
	int error = pthread_attr_init(&attributes);

	if (error)
		return -error;
	sem_init(&call.taken, 0, 0);
	atomic_fetch_add(&count, 1);
	error = pthread_attr_setstacksize(&attributes, stack_bytes);
	if (error == 0) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(ret_thread, &attributes, run_counted, &call);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	pthread_attr_destroy(&attributes);
	if (error)
		atomic_fetch_sub(&count, 1);
	while (error == 0 && sem_wait(&call.taken) < 0)
		; /* interrupted by a signal */
	sem_destroy(&call.taken);
	if (error == 0 && name)
		pthread_setname_np(*ret_thread, name);
	return -error;
}
