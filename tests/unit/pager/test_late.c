/* late: after its last read, the handler still polls its store until the queue is quiet. Until then, answers that
   no request needs may come. */
#include "pager_over.h"
#include "tests/lib/tap.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define WAIT_S 30 /* a semaphore that is not posted within this time counts as never posted */

/* After the next read that is polled, one more answer is still to come. Until that answer is polled, the queue is not
   quiet. */
enum late_state { QUIET, AWAITED, LATE, ARMED, NEWS };

static struct {
	const struct store_ops *ops; /* the store's own operations */
	_Atomic int state;           /* state of the handler's queue; only the handler reads */
	_Atomic bool at_once;
	sem_t armed, polled;
	const struct store_queue *_Atomic queue; /* the handler's queue */
} late;

static _Thread_local unsigned reads; /* reads that this thread has submitted */

static bool is_late(const struct store_queue *queue)
{
	return atomic_load(&late.state) >= LATE && queue == atomic_load(&late.queue);
}

static int late_submit(struct store_queue *queue, const struct store_io *ios, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		reads += ios[i].op == STORE_READ;
	return late.ops->submit(queue, ios, count);
}

static int late_poll(struct store_queue *queue, struct store_done *dones, unsigned max)
{
	int count = late.ops->poll(queue, dones, max);
	eventfd_t value;

	if (count && reads && atomic_load(&late.state) == AWAITED) {
		atomic_store(&late.queue, queue);
		atomic_store(&late.state, LATE);
	} else if (atomic_load(&late.state) == NEWS && queue == atomic_load(&late.queue)) {
		eventfd_read(store_queue_fd(queue), &value);
		atomic_store(&late.state, QUIET);
		sem_post(&late.polled);
	}
	return count;
}

static int late_arm(struct store_queue *queue)
{
	if (late.ops->arm(queue))
		return 1;
	if (!is_late(queue))
		return 0;
	if (atomic_load(&late.state) == LATE) {
		atomic_store(&late.state, atomic_load(&late.at_once) ? NEWS : ARMED);
		sem_post(&late.armed);
	}
	return atomic_load(&late.state) == NEWS;
}

static bool late_quiet(const struct store_queue *queue)
{
	return !is_late(queue);
}

static bool comes(sem_t *semaphore)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	return sem_timedwait(semaphore, &until) == 0;
}

/* Sends all pages out and brings them back. One read has a late answer. */
static void pages_come_back(struct over *over, volatile char *memory)
{
	farpage_advise(over->farpage, (char *)(uintptr_t)memory, MIB, FARPAGE_PAGEOUT);
	atomic_store(&late.state, AWAITED);
	for (size_t i = 0; i < MIB; i += STORE_PAGE)
		if (memory[i] != 1)
			abort();
}

int main(void)
{
	struct store_ops ops;
	struct over over;
	char *memory;

	sem_init(&late.armed, 0, 0);
	sem_init(&late.polled, 0, 0);
	if (over_store(&over, 16 * MIB, NULL))
		abort();
	late.ops = over.inner->ops;
	ops = *late.ops;
	ops.submit = late_submit;
	ops.poll = late_poll;
	ops.arm = late_arm;
	ops.quiet = late_quiet;
	over.inner->ops = &ops;
	ok(over_start(&over, 8 * MIB, 16 * MIB) == 0, "a pager opens over a store with late answers");
	memory = over_map(&over, MIB);
	for (size_t i = 0; i < MIB; i += STORE_PAGE)
		memory[i] = 1;

	pages_come_back(&over, memory);
	if (ok(comes(&late.armed), "a handler without reads in flight arms a store that is not quiet")) {
		atomic_store(&late.state, NEWS);
		eventfd_write(store_queue_fd(late.queue), 1);
		ok(comes(&late.polled),
		   "a handler without reads in flight polls its store when the descriptor is readable");
	}
	atomic_store(&late.at_once, true);
	pages_come_back(&over, memory);
	ok(comes(&late.armed), "a handler arms its store again after another late answer");
	ok(comes(&late.polled), "a handler polls its store at once if arming asks for a poll");
	over_close(&over);
	sem_destroy(&late.armed);
	sem_destroy(&late.polled);
	return tap_done();
}
