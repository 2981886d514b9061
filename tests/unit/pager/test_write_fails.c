/* write_fails: one write fails after its page has come back. A forked child still sees the contents that were being
   written. Other writes fail because the donors are full: while this process pauses, and many at once. */
#include "pager_over.h"
#include "tests/lib/tap.h"
#include "tests/lib/wait.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define TIMEOUT_MS 1000u
#define MANY 60u
#define CLEAR_MS 5500u

/* Takes one write of the store, keeps it, and fails it when the test says so. */
static struct {
	const struct store_ops *ops;         /* the store's own operations */
	_Atomic(struct store_queue *) queue; /* the queue of the kept write */
	_Atomic uint64_t cookie;
	_Atomic bool takes, fails;
	_Atomic bool clearing; /* the donors clear slabs */
	_Atomic unsigned full; /* number of further writes that fail with -ENOSPC, the last one after a pause */
	/* So many further writes fail with -ENOSPC. Only the evictor's thread uses `refused`. */
	_Atomic unsigned many;
	uint64_t refused[MANY]; /* cookies of failed writes that were not polled yet */
	unsigned refused_count;
} failing;

static int refuse(const struct store_io *ios, unsigned count)
{
	unsigned taken = 0;

	for (; taken < count && atomic_load(&failing.many); taken++) {
		atomic_fetch_sub(&failing.many, 1);
		failing.refused[failing.refused_count++] = ios[taken].cookie;
	}
	return (int)taken;
}

static int failing_submit(struct store_queue *queue, const struct store_io *ios, unsigned count)
{
	if (count && ios[0].op == STORE_WRITE && atomic_load(&failing.many))
		return refuse(ios, count);
	if (!count || ios[0].op != STORE_WRITE ||
	    (!atomic_exchange(&failing.takes, false) && !atomic_load(&failing.full)))
		return failing.ops->submit(queue, ios, count);
	atomic_store(&failing.cookie, ios[0].cookie);
	atomic_store(&failing.queue, queue);
	return 1;
}

static int failing_poll(struct store_queue *queue, struct store_done *dones, unsigned max)
{
	int status = 0;

	if (max && failing.refused_count) {
		unsigned count = 0;

		while (count < max && failing.refused_count)
			dones[count++] =
			    (struct store_done){.cookie = failing.refused[--failing.refused_count], .status = -ENOSPC};
		return (int)count;
	}
	if (max && atomic_load(&failing.queue) == queue) {
		if (atomic_load(&failing.full)) {
			if (atomic_fetch_sub(&failing.full, 1) == 1)
				sleep_ms(TIMEOUT_MS + 300);
			status = -ENOSPC;
		} else if (atomic_load(&failing.fails)) {
			status = -EIO;
		}
	}
	if (!status)
		return failing.ops->poll(queue, dones, max);
	atomic_store(&failing.queue, NULL);
	dones[0] = (struct store_done){.cookie = atomic_load(&failing.cookie), .status = status};
	return 1;
}

static void failing_stats(const struct store *store, struct store_stats *ret_stats)
{
	failing.ops->stats(store, ret_stats);
	ret_stats->donors_clear = failing.clearing;
}

struct sender {
	struct farpage *farpage;
	char *memory;
};

static void *send_out(void *argument)
{
	struct sender *sender = argument;

	farpage_advise(sender->farpage, sender->memory, STORE_PAGE, FARPAGE_PAGEOUT);
	return NULL;
}

/* Forks a child that waits for a byte on @ret_go and then exits with the first byte of @memory. Returns the child. */
static pid_t fork_reader(const volatile char *memory, int *ret_go)
{
	int pipe_ends[2];
	char byte;

	if (pipe(pipe_ends))
		return -1;
	pid_t child = fork();
	if (child == 0)
		_exit(read(pipe_ends[0], &byte, 1) == 1 ? *memory : 99);
	close(pipe_ends[0]);
	*ret_go = pipe_ends[1];
	return child;
}

static void a_child_sees_the_contents_of_a_failed_write(struct over *over)
{
	if (!CAN_FORK) {
		tap_skip("a child that was forked during a write ends", CANNOT_FORK);
		return;
	}
	pthread_t thread;
	int go = -1, status = -1;
	volatile char *memory = over_map(over, STORE_PAGE);
	struct sender sender = {over->farpage, (char *)(uintptr_t)memory};
	*memory = 1;
	send_out(&sender);
	*memory = 2;
	atomic_store(&failing.takes, true);
	pthread_create(&thread, NULL, send_out, &sender);
	while (!atomic_load(&failing.queue))
		sched_yield();
	pid_t child = fork_reader(memory, &go);
	*memory = 3; /* the page comes back from the buffer whose write is in flight */
	atomic_store(&failing.fails, true);
	pthread_join(thread, NULL);
	ok(write(go, "", 1) == 1 && waitpid(child, &status, 0) == child, "a child that was forked during a write ends");
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 2,
	   "a child forked during a write that fails sees the written contents (status %x)", (unsigned)status);
	ok(*memory == 3, "a parent sees what it wrote after a fork during a write that fails");
	close(go);
}

static void a_pause_between_refused_writes_is_survived(struct over *over)
{
	char *memory = over_map(over, STORE_PAGE);
	struct sender sender = {over->farpage, memory};

	*memory = 1;
	atomic_store(&failing.full, 2);
	send_out(&sender);
	ok(atomic_load(&failing.full) == 0 && *(volatile char *)memory == 1,
	   "a program survives a pause between two writes that full donors refuse");
}

/* The pages are not adjacent, so that each has a write of its own. */
static void many_writes_that_full_donors_refuse_are_repeated_together(struct over *over)
{
	char *memory = over_map(over, 2 * MANY * STORE_PAGE);
	bool right = true;

	for (unsigned i = 0; i < MANY; i++)
		memory[2 * i * STORE_PAGE] = (char)(i % 100 + 1);
	atomic_store(&failing.many, MANY);
	farpage_advise(over->farpage, memory, 2 * MANY * STORE_PAGE, FARPAGE_PAGEOUT);
	for (unsigned i = 0; i < MANY; i++)
		right &= ((volatile char *)memory)[2 * i * STORE_PAGE] == (char)(i % 100 + 1);
	ok(right && !atomic_load(&failing.many), "a program survives that full donors refuse many writes in flight");
}

/* Full donors have CLEAR_MS, which is longer than they have if they clear no slab. */
static void a_write_waits_for_donors_that_clear_slabs(struct over *over)
{
	char *memory = over_map(over, STORE_PAGE);
	struct sender sender = {over->farpage, memory};
	pthread_t thread;

	*memory = 1;
	atomic_store(&failing.clearing, true);
	atomic_store(&failing.many, UINT_MAX);
	pthread_create(&thread, NULL, send_out, &sender);
	sleep_ms(CLEAR_MS);
	atomic_store(&failing.many, 0);
	pthread_join(thread, NULL);
	ok(*(volatile char *)memory == 1,
	   "a program survives that donors refuse writes for %u ms while they clear slabs", CLEAR_MS);
}

/* Opens a pager over a store that fails writes. */
static int failing_open(struct over *over, unsigned timeout_ms)
{
	static struct store_ops ops;

	if (over_store(over, 16 * MIB, NULL))
		abort();
	over->timeout_ms = timeout_ms;
	failing.ops = over->inner->ops;
	ops = *over->inner->ops;
	ops.submit = failing_submit;
	ops.poll = failing_poll;
	ops.stats = failing_stats;
	over->inner->ops = &ops;
	return over_start(over, 8 * MIB, 16 * MIB);
}

int main(void)
{
	struct over over;
	int result = failing_open(&over, TIMEOUT_MS);

	if (userfaultfd_is_denied(result))
		return tap_skip_all("no right to userfaultfd");
	if (ok(result == 0, "a pager opens over a store that fails writes")) {
		a_child_sees_the_contents_of_a_failed_write(&over);
		a_pause_between_refused_writes_is_survived(&over);
		many_writes_that_full_donors_refuse_are_repeated_together(&over);
		over_close(&over);
		if (failing_open(&over, 10 * CLEAR_MS) == 0)
			a_write_waits_for_donors_that_clear_slabs(&over);
	}
	over_close(&over);
	return tap_done();
}
