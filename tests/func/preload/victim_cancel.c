/*
 * Threads with a pending cancellation call functions that are no cancellation points: memory calls and fork. The calls
 * return, and the rest of the program continues.
 */
#include "tests/func/preload/victim.h"

#include <pthread.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#define SHARE (1 * MB)
#define TRIES 8

static char *memory;
static size_t size;
static _Atomic bool stop;
static uint64_t rounds; /* how often press() has filled the memory */
static volatile bool returned;

static void pageout(void)
{
	madvise(memory, SHARE, MADV_PAGEOUT);
}

static void discard(void)
{
	char *mine = map_memory(4 * SHARE);

	fill(mine, 4 * SHARE, 7);
	madvise(mine, 2 * SHARE, MADV_DONTNEED);
	munmap(mine, 4 * SHARE);
}

static void move(void)
{
	char *mine = map_memory(SHARE);

	fill(mine, SHARE, 8);
	char *moved = mremap(mine, SHARE, 3 * SHARE, MREMAP_MAYMOVE);
	munmap(moved, 3 * SHARE);
}

static void fork_once(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit(7);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	bool right = waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	if (!right)
		printf("# the child's status is %#x\n", (unsigned)status);
	returned = right;
}

static _Atomic unsigned ends;

static void *cancelled_thread(void *call)
{
	pthread_cancel(pthread_self());
	returned = true;
	((void (*)(void))call)();
	ends++;
	pthread_testcancel();
	return NULL;
}

/* Fills most of the memory again and again, so that pages go out and come in all the time. */
static void *press(void *unused)
{
	(void)unused;
	for (; !stop; rounds++)
		fill(memory + SHARE, size - SHARE, rounds);
	return NULL;
}

static void call_returns_before_cancellation(const char *name, void (*call)(void))
{
	unsigned returns = 0, cancels = 0, right = 0;

	for (unsigned i = 0; i < TRIES; i++) {
		pthread_t thread;
		void *result;

		ends = 0;
		pthread_create(&thread, NULL, cancelled_thread, (void *)call);
		pthread_join(thread, &result);
		returns += ends == 1;
		cancels += result == PTHREAD_CANCELED;
		right += returned;
	}
	ok(returns == TRIES && right == TRIES, "%s returns with a cancellation pending (%u of %u)", name, returns,
	   TRIES);
	ok(cancels == TRIES, "the cancellation takes effect after %s (%u of %u)", name, cancels, TRIES);
}

int main(void)
{
	pthread_t presser;

	alarm(100); /* ends a test that hangs */
	size = victim_size();
	memory = map_memory(size);
	fill(memory, SHARE, 1);
	pthread_create(&presser, NULL, press, NULL);
	call_returns_before_cancellation("madvise(MADV_PAGEOUT)", pageout);
	call_returns_before_cancellation("madvise(MADV_DONTNEED) and munmap", discard);
	call_returns_before_cancellation("mremap", move);
	call_returns_before_cancellation("fork", fork_once);
	stop = true;
	pthread_join(presser, NULL);
	ok(rounds && wrong(memory + SHARE, size - SHARE, rounds - 1, 0) == 0,
	   "memory that a thread wrote until its end is right when the thread is joined");
	ok(wrong(memory, SHARE, 1, 0) == 0, "pages that madvise(MADV_PAGEOUT) sent out keep their contents");
	return tap_done();
}
