/*
 * A process empties memory and forks. A child never sees contents that its parent discarded before the fork. An earlier
 * child is alive, so the discarded contents are still kept for that child. Threads of the parent touch the emptied
 * pages and empty them again all the time, so that forks happen between the two.
 */
#include "tests/func/preload/victim.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

enum { THREADS = 4, FORKS = 200, FORKS_AFTER_EXIT = 10 };
#define SHARE ((size_t)512 * 1024) /* bytes per thread */
#define STRIDE 37u                 /* pages between two touches, so that no read-ahead begins */

static char *memory;
static atomic_bool stop;

static void *touch(void *argument)
{
	char *share = argument;
	size_t seen = 0, pages = SHARE / PAGE;

	for (size_t i = 0; !stop; i++) {
		volatile char *page = share + i * STRIDE % pages * PAGE;

		seen += *page != 0;
		madvise((void *)(uintptr_t)page, PAGE, MADV_DONTNEED);
	}
	return (void *)seen;
}

static pid_t fork_earlier_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return child;
}

/* Forks @forks children. Counts the children that saw other contents than zeroes. */
static unsigned count_wrong_children(unsigned forks)
{
	unsigned count = 0;

	for (unsigned i = 0; i < forks; i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			alarm(60);
			_exit(not_zero(memory, THREADS * SHARE) != 0);
		}
		count += waitpid(child, &status, 0) != child || status != 0;
	}
	return count;
}

int main(void)
{
	pthread_t threads[THREADS];
	size_t seen = 0, size = victim_size();

	memory = map_memory(THREADS * SHARE);
	fill(memory, THREADS * SHARE, 1);
	char *filler = map_memory(size);
	fill(filler, size, 2); /* sends `memory` away */
	pid_t earlier = fork_earlier_child();
	madvise(memory, THREADS * SHARE, MADV_DONTNEED);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, touch, memory + i * SHARE);
	unsigned bad = count_wrong_children(FORKS);
	ok(!bad, "no child sees what its parent discarded before the fork (%u of %u do)", bad, FORKS);
	kill(earlier, SIGKILL);
	waitpid(earlier, NULL, 0);
	bad = count_wrong_children(FORKS_AFTER_EXIT);
	ok(!bad, "no child sees discarded memory after an earlier child has ended (%u of %u do)", bad,
	   FORKS_AFTER_EXIT);
	stop = true;
	for (size_t i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		seen += (size_t)result;
	}
	ok(!seen, "the parent reads zeroes from discarded memory (%zu reads return other contents)", seen);
	ok(!wrong(filler, size, 2, 0), "memory that was not discarded keeps its contents");
	return tap_done();
}
