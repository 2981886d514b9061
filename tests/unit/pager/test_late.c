/* late: a handler with nothing in flight still polls its store while the store's queue is not quiet. Answers that no
   request waits for are still to come. */
#include "pager_over.h"
#include "tests/lib/tap.h"
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define WAIT_S 30 /* a semaphore that is not posted for so long counts as never posted */

/*
 * A wrapper of another store. After the next read that is polled, one more answer is still to come. Until that answer
 * is polled, the queue is not quiet.
 */
enum late_state { QUIET, AWAITED, LATE, ARMED, NEWS };

struct late_store {
	struct store base;
	struct store *inner;
	_Atomic int state; /* of the handler's queue; an evictor does not read */
	_Atomic bool at_once;
	sem_t armed, polled;
	int fd;
};

struct late_queue {
	struct store_queue base;
	struct store_queue *inner;
	unsigned reads;
	int fd;
};

static struct late_store *late_of(const struct store_queue *queue)
{
	return (struct late_store *)queue->store;
}

static struct store_queue *inner_of(const struct store_queue *queue)
{
	return ((const struct late_queue *)queue)->inner;
}

static int late_register(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer)
{
	return store_register(((struct late_store *)store)->inner, base, length, ret_buffer);
}

static void late_deregister(struct store *store, struct store_buffer *buffer)
{
	store_deregister(((struct late_store *)store)->inner, buffer);
}

static int late_queue_open(struct store *store, struct store_queue **ret_queue)
{
	struct late_queue *queue = calloc(1, sizeof *queue);
	queue->base.store = store;
	queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*ret_queue = &queue->base;
	return store_queue_open(((struct late_store *)store)->inner, &queue->inner);
}

static void late_queue_close(struct store_queue *queue)
{
	store_queue_close(inner_of(queue));
	close(((struct late_queue *)queue)->fd);
	free(queue);
}

static int late_submit(struct store_queue *queue, const struct store_io *ios, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		((struct late_queue *)queue)->reads += ios[i].op == STORE_READ;
	return store_submit(inner_of(queue), ios, count);
}

static int late_poll(struct store_queue *queue, struct store_done *dones, unsigned max)
{
	struct late_store *late = late_of(queue);
	int count = store_poll(inner_of(queue), dones, max);
	eventfd_t value;

	if (count && ((struct late_queue *)queue)->reads && atomic_load(&late->state) == AWAITED) {
		late->fd = ((struct late_queue *)queue)->fd;
		atomic_store(&late->state, LATE);
	} else if (atomic_load(&late->state) == NEWS && ((struct late_queue *)queue)->fd == late->fd) {
		eventfd_read(late->fd, &value);
		atomic_store(&late->state, QUIET);
		sem_post(&late->polled);
	}
	return count;
}

/* Only the queue's own thread makes completions of the inner store, so no thread sleeps on the inner descriptor. */
static int late_queue_fd(const struct store_queue *queue)
{
	return ((const struct late_queue *)queue)->fd;
}

static int late_arm(struct store_queue *queue)
{
	struct late_store *late = late_of(queue);

	if (store_arm(inner_of(queue)))
		return 1;
	if (atomic_load(&late->state) < LATE || ((struct late_queue *)queue)->fd != late->fd)
		return 0;
	if (atomic_load(&late->state) == LATE) {
		atomic_store(&late->state, atomic_load(&late->at_once) ? NEWS : ARMED);
		sem_post(&late->armed);
	}
	return atomic_load(&late->state) == NEWS;
}

static bool late_quiet(const struct store_queue *queue)
{
	const struct late_store *late = late_of(queue);

	return atomic_load(&late->state) < LATE || ((const struct late_queue *)queue)->fd != late->fd;
}

static void late_discard(struct store *store, uint64_t page, uint64_t count)
{
	store_discard(((struct late_store *)store)->inner, page, count);
}

static bool late_same(const struct store *store, uint64_t page, const void *data)
{
	return store_same(((const struct late_store *)store)->inner, page, data);
}

static void late_stats(const struct store *store, struct store_stats *ret_stats)
{
	store_stats(((const struct late_store *)store)->inner, ret_stats);
}

static void late_close(struct store *store)
{
	(void)store;
}

static const struct store_ops late_ops = {
    .register_buffer = late_register,
    .deregister_buffer = late_deregister,
    .queue_open = late_queue_open,
    .queue_close = late_queue_close,
    .submit = late_submit,
    .poll = late_poll,
    .queue_fd = late_queue_fd,
    .arm = late_arm,
    .quiet = late_quiet,
    .discard = late_discard,
    .same = late_same,
    .stats = late_stats,
    .close = late_close,
};

static bool comes(sem_t *semaphore)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	return sem_timedwait(semaphore, &until) == 0;
}

/* Sends all pages out and brings them back. One read has a late answer. */
static void pages_come_back(struct over *over, struct late_store *late, volatile char *memory)
{
	farpage_advise(over->farpage, (char *)(uintptr_t)memory, MIB, FARPAGE_PAGEOUT);
	atomic_store(&late->state, AWAITED);
	for (size_t i = 0; i < MIB; i += STORE_PAGE)
		if (memory[i] != 1)
			abort();
}

int main(void)
{
	struct farpage_options options = {.local = 8 * MIB, .timeout_ms = 1000};
	struct late_store late = {.fd = -1};
	struct over over = {0};
	char *memory;

	sem_init(&late.armed, 0, 0);
	sem_init(&late.polled, 0, 0);
	store_open_memory(16 * MIB / STORE_PAGE, &over.inner);
	late.inner = over.inner;
	late.base = (struct store){.ops = &late_ops, .pages = over.inner->pages};
	over.store = &late.base;
	window_reserve(&over.window, 16 * MIB);
	ok(pager_open_store(&options, over.store, &over.window, NULL, &over.farpage) == 0,
	   "a pager opens over a store with late answers");
	memory = over_map(&over, MIB);
	for (size_t i = 0; i < MIB; i += STORE_PAGE)
		memory[i] = 1;

	pages_come_back(&over, &late, memory);
	if (ok(comes(&late.armed), "a handler without reads in flight arms a store that is not quiet")) {
		atomic_store(&late.state, NEWS);
		eventfd_write(late.fd, 1);
		ok(comes(&late.polled),
		   "a handler without reads in flight polls its store when the descriptor is readable");
	}
	atomic_store(&late.at_once, true);
	pages_come_back(&over, &late, memory);
	ok(comes(&late.armed), "a handler arms its store again after another late answer");
	ok(comes(&late.polled), "a handler polls its store at once if arming asks for a poll");
	over_close(&over);
	sem_destroy(&late.armed);
	sem_destroy(&late.polled);
	return tap_done();
}
