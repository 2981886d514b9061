#include "blockdev/disk_queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *disk_op_name(enum disk_op op)
{
	static const char *const names[] = {"read", "write", "discard", "zero", "flush"};

	_Static_assert(sizeof names / sizeof *names == DISK_OPS, "a name for each");
	return op < DISK_OPS ? names[op] : "unknown";
}

int disk_open(struct store *store, uint64_t bytes, struct disk **ret_disk)
{
	struct disk *disk;
	int error;

	if (!bytes || bytes % STORE_PAGE || bytes / STORE_PAGE > store->pages)
		return -EINVAL;
	disk = calloc(1, sizeof *disk);
	if (!disk)
		return -ENOMEM;
	disk->store = store;
	disk->bytes = bytes;
	error = page_locks_open(&disk->locks);
	if (error < 0) {
		free(disk);
		return error;
	}
	pthread_mutex_init(&disk->lock, NULL);
	LIST_INIT(&disk->queues);
	*ret_disk = disk;
	return 0;
}

void disk_close(struct disk *disk)
{
	if (!disk)
		return;
	assert(LIST_EMPTY(&disk->queues));
	page_locks_close(disk->locks);
	pthread_mutex_destroy(&disk->lock);
	free(disk->closed_times);
	free(disk);
}

uint64_t disk_bytes(const struct disk *disk)
{
	return disk->bytes;
}

struct store *disk_store(const struct disk *disk)
{
	return disk->store;
}

/* Allocates memory of a queue and touches it, so that serving requests causes no page faults. */
static void *memory_touched(size_t alignment, size_t size)
{
	void *memory;

	if (posix_memalign(&memory, alignment, size) != 0)
		return NULL;
	return memset(memory, 0, size);
}

static void queue_free(struct disk_queue *queue)
{
	free(queue->times);
	free(queue->edges);
	free(queue);
}

static struct disk_queue *queue_allocate(struct disk *disk, unsigned depth)
{
	struct disk_queue *queue = memory_touched(DISK_ALIGN, sizeof *queue);

	if (!queue)
		return NULL;
	queue->edges = memory_touched(STORE_PAGE, DISK_EDGES * sizeof *queue->edges);
	if (disk->closed_times)
		queue->times = memory_touched(DISK_ALIGN, sizeof *queue->times);
	if (!queue->edges || (disk->closed_times && !queue->times)) {
		queue_free(queue);
		return NULL;
	}
	queue->disk = disk;
	queue->locks = disk->locks;
	queue->depth = depth;
	STAILQ_INIT(&queue->pending);
	STAILQ_INIT(&queue->done);
	/* The first entries are on top of the stacks, so that a queue with little work uses few cache lines. */
	while (queue->idle_run_count < DISK_RUNS) {
		queue->idle_runs[queue->idle_run_count] = (uint16_t)(DISK_RUNS - 1 - queue->idle_run_count);
		queue->idle_run_count++;
	}
	while (queue->idle_edge_count < DISK_EDGES) {
		queue->idle_edges[queue->idle_edge_count] = (uint16_t)queue->idle_edge_count;
		queue->idle_edge_count++;
	}
	return queue;
}

int disk_queue_open(struct disk *disk, unsigned depth, struct disk_queue **ret_queue)
{
	struct disk_queue *queue = queue_allocate(disk, depth);
	int error;

	if (!queue)
		return -ENOMEM;
	error = page_locks_join(disk->locks, &queue->slot);
	if (error < 0)
		goto free_queue;
	error = store_register(disk->store, queue->edges, DISK_EDGES * sizeof *queue->edges, &queue->edge_buffer);
	if (error < 0)
		goto leave;
	error = store_queue_open(disk->store, &queue->inner);
	if (error < 0)
		goto deregister;
	pthread_mutex_lock(&disk->lock);
	LIST_INSERT_HEAD(&disk->queues, queue, link);
	pthread_mutex_unlock(&disk->lock);
	*ret_queue = queue;
	return 0;

deregister:
	store_deregister(disk->store, queue->edge_buffer);
leave:
	page_locks_leave(disk->locks, queue->slot);
free_queue:
	queue_free(queue);
	return error;
}

static void stats_add(struct disk_stats *stats, const struct disk_counters *counters)
{
	for (unsigned op = 0; op < DISK_OPS; op++) {
		stats->requests[op] += atomic_load_explicit(&counters->requests[op], memory_order_relaxed);
		stats->errors[op] += atomic_load_explicit(&counters->errors[op], memory_order_relaxed);
		stats->bytes[op] += atomic_load_explicit(&counters->bytes[op], memory_order_relaxed);
	}
	stats->waited += atomic_load_explicit(&counters->waited, memory_order_relaxed);
}

void disk_queue_close(struct disk_queue *queue)
{
	struct disk *disk;

	if (!queue)
		return;
	assert(!queue->busy);
	disk = queue->disk;
	pthread_mutex_lock(&disk->lock);
	LIST_REMOVE(queue, link);
	stats_add(&disk->closed, &queue->counters);
	for (unsigned op = 0; queue->times && op <= DISK_WRITE; op++)
		histogram_add(&disk->closed_times->of[op], &queue->times->of[op]);
	pthread_mutex_unlock(&disk->lock);
	store_queue_close(queue->inner);
	store_deregister(disk->store, queue->edge_buffer);
	page_locks_leave(disk->locks, queue->slot);
	queue_free(queue);
}

void disk_get_stats(const struct disk *disk, struct disk_stats *ret_stats)
{
	struct disk *locked = (struct disk *)disk; /* only to take the lock */
	struct disk_queue *queue;
	struct disk_stats stats;

	pthread_mutex_lock(&locked->lock);
	stats = disk->closed;
	LIST_FOREACH(queue, &locked->queues, link)
		stats_add(&stats, &queue->counters);
	pthread_mutex_unlock(&locked->lock);
	*ret_stats = stats;
}

int disk_measure_times(struct disk *disk)
{
	assert(LIST_EMPTY(&disk->queues));
	disk->closed_times = calloc(1, sizeof *disk->closed_times);
	return disk->closed_times ? 0 : -ENOMEM;
}

void disk_add_times(const struct disk *disk, enum disk_op op, struct histogram *histogram)
{
	struct disk *locked = (struct disk *)disk; /* only to take the lock */
	struct disk_queue *queue;

	assert(op <= DISK_WRITE);
	if (!disk->closed_times)
		return;
	pthread_mutex_lock(&locked->lock);
	histogram_add(histogram, &disk->closed_times->of[op]);
	LIST_FOREACH(queue, &locked->queues, link)
		histogram_add(histogram, &queue->times->of[op]);
	pthread_mutex_unlock(&locked->lock);
}

bool disk_locks_are_free(const struct disk *disk)
{
	return page_locks_are_free(disk->locks);
}
