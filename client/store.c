/*
 * store: the calls of client/store.h, which go to the store's own table of operations. The asserts catch wrong
 * calls, for all stores alike.
 */
#include "client/store.h"

#include <assert.h>
#include <string.h>

int store_register(struct store *store, void *base, size_t length, struct store_buffer **ret_buffer)
{
	return store->ops->register_buffer(store, base, length, ret_buffer);
}

void store_deregister(struct store *store, struct store_buffer *buffer)
{
	if (buffer)
		store->ops->deregister_buffer(store, buffer);
}

int store_queue_open(struct store *store, struct store_queue **ret_queue)
{
	return store->ops->queue_open(store, ret_queue);
}

void store_queue_close(struct store_queue *queue)
{
	if (queue)
		queue->store->ops->queue_close(queue);
}

int store_submit(struct store_queue *queue, const struct store_io *ios, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		assert(ios[i].count >= 1 && ios[i].count <= STORE_RUN_MAX);
		assert(ios[i].page < queue->store->pages && ios[i].count <= queue->store->pages - ios[i].page);
	}
	return queue->store->ops->submit(queue, ios, count);
}

int store_submit_staged(struct store_queue *queue, struct store_io *ios, unsigned *count)
{
	int taken = *count ? store_submit(queue, ios, *count) : 0;

	if (taken <= 0)
		return taken;
	assert((unsigned)taken <= *count);
	*count -= (unsigned)taken;
	memmove(ios, ios + taken, *count * sizeof *ios);
	return taken;
}

int store_poll(struct store_queue *queue, struct store_done *dones, unsigned max)
{
	return queue->store->ops->poll(queue, dones, max);
}

int store_queue_fd(const struct store_queue *queue)
{
	return queue->store->ops->queue_fd(queue);
}

int store_arm(struct store_queue *queue)
{
	return queue->store->ops->arm(queue);
}

bool store_quiet(const struct store_queue *queue)
{
	return !queue->store->ops->quiet || queue->store->ops->quiet(queue);
}

void store_discard(struct store *store, uint64_t page, uint64_t count)
{
	assert(page <= store->pages && count <= store->pages - page);
	if (count)
		store->ops->discard(store, page, count);
}

bool store_same(const struct store *store, uint64_t page, const void *data)
{
	assert(page < store->pages);
	return store->ops->same(store, page, data);
}

uint64_t store_memory(const struct store *store)
{
	return store->ops->memory(store);
}

void store_stats(const struct store *store, struct store_stats *ret_stats)
{
	store->ops->stats(store, ret_stats);
	ret_stats->memory = store_memory(store);
}

void store_close(struct store *store)
{
	if (store)
		store->ops->close(store);
}
