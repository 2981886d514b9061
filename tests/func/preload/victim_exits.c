/*
 * When a thread ends, the kernel writes to the thread's memory, and handles no fault there. The test makes robust
 * mutexes before and after the pager starts, and ends their owners. It also has threads on stacks that the program has
 * made.
 */
#include "tests/func/preload/victim.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#define MUTEXES 8
#define STACK ((size_t)256 * 1024)

static pthread_mutex_t *early[MUTEXES], *late[MUTEXES];
static char *filler;
static size_t size;
static sem_t locked, unneeded;

static pthread_mutex_t *make_mutex(void)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t *mutex = (pthread_mutex_t *)(void *)map_memory(64 * PAGE);

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return mutex;
}

/* Evicts all pages that may leave. */
static void send_away(void)
{
	for (unsigned i = 0; i < 3; i++)
		fill(filler, size, i);
}

static void *own(void *unused)
{
	for (unsigned i = 0; i < MUTEXES; i++) {
		pthread_mutex_lock(early[i]);
		pthread_mutex_lock(late[i]);
	}
	sem_post(&locked);
	sem_wait(&unneeded);
	return unused;
}

static void *wait_for_owner(void *mutex)
{
	int error = pthread_mutex_lock(mutex);

	if (error == EOWNERDEAD)
		pthread_mutex_consistent(mutex);
	pthread_mutex_unlock(mutex);
	return (void *)(intptr_t)error;
}

/* Counts the mutexes from index @from on that do not report the end of their owner within 2 s. */
static unsigned count_silent(pthread_mutex_t **mutexes, unsigned from)
{
	unsigned silent = 0;

	for (unsigned i = from; i < MUTEXES; i++) {
		struct timespec end;

		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_sec += 2;
		silent += pthread_mutex_timedlock(mutexes[i], &end) != EOWNERDEAD;
	}
	return silent;
}

static void robust_mutexes_report_the_end_of_their_owner(void)
{
	pthread_t owner, waiter;
	void *answer;

	sem_init(&locked, 0, 0);
	sem_init(&unneeded, 0, 0);
	for (unsigned i = 0; i < MUTEXES; i++)
		late[i] = make_mutex();
	send_away();
	pthread_create(&owner, NULL, own, NULL);
	sem_wait(&locked);
	pthread_create(&waiter, NULL, wait_for_owner, late[0]);
	send_away();
	sem_post(&unneeded);
	pthread_join(owner, NULL);
	unsigned silent = count_silent(early, 0);
	ok(!silent, "robust mutexes made before the pager starts report their owner's end (%u of %u do not)", silent,
	   MUTEXES);
	silent = count_silent(late, 1);
	ok(!silent, "robust mutexes made after the pager has started report their owner's end (%u of %u do not)",
	   silent, MUTEXES - 1);
	if (silent) {
		ok(false, "a thread that waits for a robust mutex gets it when the owner ends");
		return;
	}
	pthread_join(waiter, &answer);
	ok((intptr_t)answer == EOWNERDEAD, "a thread that waits for a robust mutex gets it when the owner ends");
}

static void *live_on(void *ret_self)
{
	*(char **)ret_self = (char *)(uintptr_t)pthread_self();
	sem_post(&locked);
	sem_wait(&unneeded);
	return NULL;
}

static void thread_with_stack_in_far_memory_is_joined(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	unsigned char here = 0;
	char *stack = map_memory(STACK), *self = NULL;

	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, STACK);
	pthread_create(&thread, &attributes, live_on, &self);
	pthread_attr_destroy(&attributes);
	sem_wait(&locked);
	send_away();
	/* At the thread's end the kernel clears a word for pthread_join(), a few hundred bytes after `self`. */
	char *page = (char *)((uintptr_t)(self + 720) & ~(PAGE - 1));
	ok(self > stack && self < stack + STACK && mincore(page, PAGE, &here) == 0 && here & 1,
	   "the page with a thread's exit word stays resident when its stack is in far memory");
	sem_post(&unneeded);
	ok(pthread_join(thread, NULL) == 0, "a thread with its stack in far memory is joined");
	munmap(stack, STACK);
}

int main(void)
{
	for (unsigned i = 0; i < MUTEXES; i++)
		early[i] = make_mutex();
	size = victim_size();
	filler = map_memory(size);
	robust_mutexes_report_the_end_of_their_owner();
	thread_with_stack_in_far_memory_is_joined();
	return tap_done();
}
