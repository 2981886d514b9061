/* store_faulty: see store_faulty.h. */
#include "tests/lib/store_faulty.h"

#include "common/random.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define FAULTY_DEPTH 256u /* a power of two */
#define FAULTY_BATCH 32u

struct faulty_store {
	struct store base;
	struct store *inner;
	struct store_faults faults;
	_Atomic uint64_t queues, checksum_errors;
};

struct faulty_slot {
	struct store_done done;
	uint64_t due;
	uint8_t *data;
	size_t length;
	bool corrupt, delay;
};

/* A first-in, first-out list of slots. It has room for all slots, so it cannot overflow. */
struct faulty_ring {
	unsigned head, tail;
	uint16_t slots[FAULTY_DEPTH];
};

struct faulty_queue {
	struct store_queue base;
	struct store_queue *inner;
	struct random_state random;
	uint64_t polls;
	struct faulty_ring idle, ready, delayed;
	struct faulty_slot slots[FAULTY_DEPTH];
};

static void ring_put(struct faulty_ring *ring, uint16_t slot)
{
	ring->slots[ring->tail++ % FAULTY_DEPTH] = slot;
}

static uint16_t ring_take(struct faulty_ring *ring)
{
	return ring->slots[ring->head++ % FAULTY_DEPTH];
}

static bool ring_empty(const struct faulty_ring *ring)
{
	return ring->head == ring->tail;
}

static bool faulty_chance(struct faulty_queue *queue, uint16_t chance)
{
	return chance && random_below(&queue->random, 65536) < chance;
}

static int faulty_register(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer)
{
	return store_register(((struct faulty_store *)store)->inner, base, length, ret_buffer);
}

static void faulty_deregister(struct store *store, struct store_buffer *buffer)
{
	store_deregister(((struct faulty_store *)store)->inner, buffer);
}

static int faulty_queue_open(struct store *store, struct store_queue **ret_queue)
{
	struct faulty_store *faulty = (struct faulty_store *)store;
	struct faulty_queue *queue = calloc(1, sizeof *queue);
	int error;

	if (!queue)
		return -ENOMEM;
	queue->base.store = store;
	error = store_queue_open(faulty->inner, &queue->inner);
	if (error < 0) {
		free(queue);
		return error;
	}
	random_seed(&queue->random, faulty->faults.seed + atomic_fetch_add(&faulty->queues, 1));
	for (unsigned i = 0; i < FAULTY_DEPTH; i++)
		ring_put(&queue->idle, (uint16_t)i);
	*ret_queue = &queue->base;
	return 0;
}

static void faulty_queue_close(struct store_queue *base)
{
	struct faulty_queue *queue = (struct faulty_queue *)base;

	store_queue_close(queue->inner);
	free(queue);
}

/* The inner store has finished the request. Makes its completion available now, or some polls later. */
static void faulty_finish(struct faulty_queue *queue, uint16_t index, int status)
{
	const struct faulty_store *faulty = (const struct faulty_store *)queue->base.store;
	struct faulty_slot *slot = &queue->slots[index];

	slot->done.status = status;
	slot->due = queue->polls + faulty->faults.delay_polls;
	ring_put(slot->delay ? &queue->delayed : &queue->ready, index);
}

/* Returns 1 if the request was accepted, or 0 if the inner store is full. */
static int faulty_submit_one(struct faulty_queue *queue, const struct store_io *io)
{
	const struct faulty_store *faulty = (const struct faulty_store *)queue->base.store;
	uint16_t index = ring_take(&queue->idle);
	struct faulty_slot *slot = &queue->slots[index];
	struct store_io inner = *io;

	slot->done = (struct store_done){.cookie = io->cookie};
	slot->data = io->data;
	slot->length = (size_t)io->count * STORE_PAGE;
	slot->delay = faulty_chance(queue, faulty->faults.delay);
	slot->corrupt = io->op == STORE_READ && faulty_chance(queue, faulty->faults.corrupt);
	if (faulty_chance(queue, io->op == STORE_READ ? faulty->faults.read_error : faulty->faults.write_error)) {
		faulty_finish(queue, index, -EIO);
		return 1;
	}
	inner.cookie = index;
	if (store_submit(queue->inner, &inner, 1) == 1)
		return 1;
	ring_put(&queue->idle, index);
	return 0;
}

static int faulty_submit(struct store_queue *base, const struct store_io *ios, unsigned count)
{
	struct faulty_queue *queue = (struct faulty_queue *)base;
	unsigned taken = 0;

	while (taken < count && !ring_empty(&queue->idle) && faulty_submit_one(queue, &ios[taken]))
		taken++;
	return (int)taken;
}

static void faulty_poll_inner(struct faulty_queue *queue)
{
	struct faulty_store *faulty = (struct faulty_store *)queue->base.store;
	struct store_done dones[FAULTY_BATCH];
	int count = store_poll(queue->inner, dones, FAULTY_BATCH);

	for (int i = 0; i < count; i++) {
		struct faulty_slot *slot = &queue->slots[dones[i].cookie];

		if (slot->corrupt && !dones[i].status) {
			slot->data[random_below(&queue->random, slot->length)] ^= 0xff;
			dones[i].status = -EBADMSG;
			faulty->checksum_errors++;
		}
		faulty_finish(queue, (uint16_t)dones[i].cookie, dones[i].status);
	}
}

static int faulty_poll(struct store_queue *base, struct store_done *dones, unsigned max)
{
	struct faulty_queue *queue = (struct faulty_queue *)base;
	unsigned count = 0;

	faulty_poll_inner(queue);
	queue->polls++;
	while (!ring_empty(&queue->delayed)) {
		uint16_t index = queue->delayed.slots[queue->delayed.head % FAULTY_DEPTH];

		if (queue->slots[index].due >= queue->polls)
			break;
		ring_put(&queue->ready, ring_take(&queue->delayed));
	}
	while (count < max && !ring_empty(&queue->ready)) {
		uint16_t index = ring_take(&queue->ready);

		dones[count++] = queue->slots[index].done;
		ring_put(&queue->idle, index);
	}
	return (int)count;
}

static int faulty_queue_fd(const struct store_queue *base)
{
	return store_queue_fd(((const struct faulty_queue *)base)->inner);
}

static int faulty_arm(struct store_queue *base)
{
	struct faulty_queue *queue = (struct faulty_queue *)base;

	/* Delayed completions come only by polling, so the caller must not sleep until they come. */
	if (!ring_empty(&queue->ready) || !ring_empty(&queue->delayed))
		return 1;
	return store_arm(queue->inner);
}

static bool faulty_quiet(const struct store_queue *base)
{
	return store_quiet(((const struct faulty_queue *)base)->inner);
}

static void faulty_discard(struct store *base, uint64_t page, uint64_t count)
{
	store_discard(((struct faulty_store *)base)->inner, page, count);
}

static bool faulty_same(const struct store *base, uint64_t page, const void *data)
{
	return store_same(((const struct faulty_store *)base)->inner, page, data);
}

static void faulty_stats(const struct store *base, struct store_stats *ret_stats)
{
	const struct faulty_store *faulty = (const struct faulty_store *)base;

	store_stats(faulty->inner, ret_stats);
	ret_stats->checksum_errors += faulty->checksum_errors;
}

static uint64_t faulty_memory(const struct store *base)
{
	return store_memory(((const struct faulty_store *)base)->inner);
}

static void faulty_close(struct store *base)
{
	free(base);
}

static const struct store_ops faulty_ops = {
    .register_buffer = faulty_register,
    .deregister_buffer = faulty_deregister,
    .queue_open = faulty_queue_open,
    .queue_close = faulty_queue_close,
    .submit = faulty_submit,
    .poll = faulty_poll,
    .queue_fd = faulty_queue_fd,
    .arm = faulty_arm,
    .quiet = faulty_quiet,
    .discard = faulty_discard,
    .same = faulty_same,
    .stats = faulty_stats,
    .memory = faulty_memory,
    .close = faulty_close,
};

int store_open_faulty(struct store *inner, const struct store_faults *faults, struct store **ret_store)
{
	struct faulty_store *faulty = calloc(1, sizeof *faulty);

	if (!faulty)
		return -ENOMEM;
	faulty->base = (struct store){.ops = &faulty_ops, .pages = inner->pages};
	faulty->inner = inner;
	faulty->faults = *faults;
	*ret_store = &faulty->base;
	return 0;
}
