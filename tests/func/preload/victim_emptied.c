/*
 * Forks of a process that empties memory: a child never sees what its parent had thrown away before the fork. An
 * earlier child lives, so what the parent threw away is still kept for that child. Threads of the parent touch the
 * emptied pages and empty them again all the time, so that forks fall in the middle of it.
 */
#include "tests/func/preload/victim.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

enum { THREADS = 4, FORKS = 200, FORKS_AFTER_EXIT = 10 };
#define SHARE ((size_t)512 * 1024) /* of each thread, bytes */
#define STRIDE 37u                 /* pages between two touches: no order to read ahead in */

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

/* Children that saw what was thrown away. */
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
	ok(!bad, "children do not see what was thrown away before the fork (%u of %u did)", bad, FORKS);
	kill(earlier, SIGKILL);
	waitpid(earlier, NULL, 0);
	bad = count_wrong_children(FORKS_AFTER_EXIT);
	ok(!bad, "children do not see it when the earlier child is gone (%u of %u did)", bad, FORKS_AFTER_EXIT);
	stop = true;
	for (size_t i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		seen += (size_t)result;
	}
	ok(!seen, "the parent itself reads zeroes (%zu times it did not)", seen);
	ok(!wrong(filler, size, 2, 0), "other memory is what it was");
	return tap_done();
}
