/* Unit tests of common/thread. */
#include "common/thread.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

struct seen {
	sem_t look;
	char name[16];
	size_t stack_bytes;
	bool blocked;
};

static void *look(void *argument)
{
	struct seen *seen = argument;
	pthread_attr_t attributes;
	sigset_t mask;

	sem_wait(&seen->look);
	pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstacksize(&attributes, &seen->stack_bytes);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	seen->blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGBUS) == 1;
	return NULL;
}

static bool started(const char *name, struct seen *seen)
{
	pthread_t thread;
	int status;

	sem_init(&seen->look, 0, 0);
	status = thread_start(&thread, name, 256u << 10, look, seen);
	sem_post(&seen->look); /* the thread has its name by now */
	if (status == 0)
		pthread_join(thread, NULL);
	sem_destroy(&seen->look);
	return status == 0;
}

int main(void)
{
	struct seen named = {0}, unnamed = {0};
	pthread_t thread;
	char own[16];
	sigset_t mask;

	pthread_getname_np(pthread_self(), own, sizeof own);
	ok(started("farpage-test", &named) && !strcmp(named.name, "farpage-test"),
	   "a thread has the name that it was started with");
	ok(named.blocked, "a started thread has its signals blocked");
	ok(named.stack_bytes == 256u << 10, "a started thread has a stack of the requested size");
	ok(started(NULL, &unnamed) && !strcmp(unnamed.name, own),
	   "a thread started without a name has its creator's name");
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	ok(sigismember(&mask, SIGTERM) == 0, "the creator of a thread keeps its own signal mask");
	ok(thread_start(&thread, NULL, 1, look, &named) == -EINVAL,
	   "a stack that is too small is refused with -EINVAL");
	return tap_done();
}
