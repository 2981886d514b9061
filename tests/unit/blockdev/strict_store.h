/*
 * strict_store: a wrapper of another store that counts each breach of the caller's duties in store.h:
 *  - A page is read, written or discarded while it is being written.
 *  - A page is written or discarded while it is being read.
 *  - The memory of a request is outside its buffer, or not aligned to 8 bytes.
 *  - A run is empty, too long, or outside the store.
 *
 * The store also takes few requests at a time, and often none.
 *
 * Threads: like every store.
 */
#ifndef STRICT_STORE_H
#define STRICT_STORE_H
#include "client/store.h"

#include <stdatomic.h>
#include <stdlib.h>

#define STRICT_DEPTH 256u
#define STRICT_WRITING 0x10000u

struct strict_buffer {
	struct store_buffer *inner;
	uint8_t *base;
	size_t length;
};

struct strict_store {
	struct store base;
	struct store *inner;
	unsigned depth; /* most requests of a queue, at most STRICT_DEPTH */
	_Atomic unsigned breaches;
	_Atomic uint64_t submits, refused;
	void (*discarding)(void); /* called during a discard, if not NULL */
	_Atomic uint32_t *pages;  /* for each page, the number of reads in flight, or STRICT_WRITING */
};

struct strict_queue {
	struct store_queue base;
	struct store_queue *inner;
	unsigned busy;
	struct store_io ios[STRICT_DEPTH];
	bool used[STRICT_DEPTH];
};

static int strict_register(struct store *base, void *memory, size_t length, struct store_buffer **ret_buffer)
{
	struct strict_buffer *buffer = calloc(1, sizeof *buffer);

	*buffer = (struct strict_buffer){.base = memory, .length = length};
	*ret_buffer = (struct store_buffer *)buffer;
	return store_register(((struct strict_store *)base)->inner, memory, length, &buffer->inner);
}

static void strict_deregister(struct store *base, struct store_buffer *registered)
{
	store_deregister(((struct strict_store *)base)->inner, ((struct strict_buffer *)registered)->inner);
	free(registered);
}

static int strict_queue_open(struct store *base, struct store_queue **ret_queue)
{
	struct strict_queue *queue = calloc(1, sizeof *queue);

	queue->base.store = base;
	*ret_queue = &queue->base;
	return store_queue_open(((struct strict_store *)base)->inner, &queue->inner);
}

static void strict_queue_close(struct store_queue *base)
{
	struct strict_queue *queue = (struct strict_queue *)base;

	store_queue_close(queue->inner);
	free(queue);
}

static bool strict_io_is_good(const struct strict_store *strict, const struct store_io *io)
{
	const struct strict_buffer *buffer = (const struct strict_buffer *)io->buffer;
	const uint8_t *data = io->data;

	return io->count && io->count <= STORE_RUN_MAX && io->page < strict->base.pages &&
	       io->count <= strict->base.pages - io->page && data >= buffer->base &&
	       data + (size_t)io->count * STORE_PAGE <= buffer->base + buffer->length && (uintptr_t)data % 8 == 0;
}

static void strict_begin(struct strict_store *strict, const struct store_io *io)
{
	for (uint32_t i = 0; i < io->count; i++) {
		uint32_t by = io->op == STORE_READ ? 1 : STRICT_WRITING;
		uint32_t before = atomic_fetch_add(&strict->pages[io->page + i], by);

		strict->breaches += io->op == STORE_READ ? before >= STRICT_WRITING : before != 0;
	}
}

static void strict_end(struct strict_store *strict, const struct store_io *io)
{
	for (uint32_t i = 0; i < io->count; i++)
		atomic_fetch_sub(&strict->pages[io->page + i], io->op == STORE_READ ? 1 : STRICT_WRITING);
}

static bool strict_submit_one(struct strict_queue *queue, const struct store_io *io)
{
	struct strict_store *strict = (struct strict_store *)queue->base.store;
	struct store_io inner = *io;
	unsigned index = 0;

	if (!strict_io_is_good(strict, io)) {
		strict->breaches++;
		abort();
	}
	while (queue->used[index])
		index++;
	inner.cookie = index;
	inner.buffer = ((const struct strict_buffer *)io->buffer)->inner;
	queue->ios[index] = *io;
	strict_begin(strict, io);
	if (store_submit(queue->inner, &inner, 1) != 1) {
		strict_end(strict, io);
		return false;
	}
	queue->used[index] = true;
	queue->busy++;
	return true;
}

static int strict_submit(struct store_queue *base, const struct store_io *ios, unsigned count)
{
	struct strict_queue *queue = (struct strict_queue *)base;
	struct strict_store *strict = (struct strict_store *)base->store;
	unsigned taken = 0;

	while (taken < count && queue->busy < strict->depth && strict_submit_one(queue, &ios[taken]))
		taken++;
	strict->submits++;
	strict->refused += taken < count;
	return (int)taken;
}

static int strict_poll(struct store_queue *base, struct store_done *dones, unsigned max)
{
	struct strict_queue *queue = (struct strict_queue *)base;
	int count = store_poll(queue->inner, dones, max);

	for (int i = 0; i < count; i++) {
		unsigned index = (unsigned)dones[i].cookie;

		strict_end((struct strict_store *)base->store, &queue->ios[index]);
		dones[i].cookie = queue->ios[index].cookie;
		queue->used[index] = false;
		queue->busy--;
	}
	return count;
}

static int strict_queue_fd(const struct store_queue *base)
{
	return store_queue_fd(((const struct strict_queue *)base)->inner);
}

static int strict_arm(struct store_queue *base)
{
	return store_arm(((struct strict_queue *)base)->inner);
}

static void strict_discard(struct store *base, uint64_t page, uint64_t count)
{
	struct strict_store *strict = (struct strict_store *)base;

	for (uint64_t i = 0; i < count; i++)
		strict->breaches += atomic_fetch_add(&strict->pages[page + i], STRICT_WRITING) != 0;
	if (strict->discarding)
		strict->discarding();
	store_discard(strict->inner, page, count);
	for (uint64_t i = 0; i < count; i++)
		atomic_fetch_sub(&strict->pages[page + i], STRICT_WRITING);
}

static bool strict_same(const struct store *base, uint64_t page, const void *data)
{
	return store_same(((const struct strict_store *)base)->inner, page, data);
}

static void strict_stats(const struct store *base, struct store_stats *ret_stats)
{
	store_stats(((const struct strict_store *)base)->inner, ret_stats);
}

static void strict_close(struct store *base)
{
	free((void *)((struct strict_store *)base)->pages);
	free(base);
}

__attribute__((unused)) static struct store *strict_store_open(struct store *inner, unsigned depth)
{
	static const struct store_ops ops = {
	    .register_buffer = strict_register,
	    .deregister_buffer = strict_deregister,
	    .queue_open = strict_queue_open,
	    .queue_close = strict_queue_close,
	    .submit = strict_submit,
	    .poll = strict_poll,
	    .queue_fd = strict_queue_fd,
	    .arm = strict_arm,
	    .discard = strict_discard,
	    .same = strict_same,
	    .stats = strict_stats,
	    .close = strict_close,
	};
	struct strict_store *strict = calloc(1, sizeof *strict);

	strict->base = (struct store){.ops = &ops, .pages = inner->pages};
	strict->inner = inner;
	strict->depth = depth;
	strict->pages = calloc(inner->pages, sizeof *strict->pages);
	return &strict->base;
}

__attribute__((unused)) static unsigned strict_breaches(const struct store *store)
{
	return ((const struct strict_store *)store)->breaches;
}
#endif
