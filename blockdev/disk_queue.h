/*
 * disk_queue: the structures of a disk and its queues. disk.c opens and closes them; disk_requests.c performs
 * requests.
 *
 * Threads. A queue belongs to its thread, but any thread may read its counters. The disk's lock guards the fields that
 * change when queues are opened and closed.
 */
#ifndef BLOCKDEV_DISK_QUEUE_H
#define BLOCKDEV_DISK_QUEUE_H

#include "blockdev/disk.h"
#include "blockdev/page_locks.h"

#include <pthread.h>
#include <stdatomic.h>

#define DISK_RUNS 256u /* most runs in progress, per queue */
#define DISK_EDGES 16u /* buffers per queue, for pages that a request covers only in part */
#define DISK_ALIGN 64u /* a cache line */

enum run_step { RUN_WHOLE, EDGE_READ, EDGE_FETCH, EDGE_STORE };

struct disk_run {
	struct disk_request *request;
	uint64_t page;
	uint8_t *data;          /* for an edge: the request's bytes, or NULL for zeroes */
	uint16_t first, length; /* for an edge: the bytes' place in the page */
	uint16_t count;         /* pages */
	uint16_t edge;
	enum run_step step;
	bool exclusive;
};

struct disk_counters {
	_Atomic uint64_t requests[DISK_OPS], errors[DISK_OPS], bytes[DISK_OPS];
	_Atomic uint64_t waited;
};

/* For DISK_READ and DISK_WRITE. */
struct disk_times {
	struct histogram of[DISK_WRITE + 1];
};

STAILQ_HEAD(disk_request_list, disk_request);

struct disk_queue {
	struct disk *disk;
	struct store_queue *inner;
	struct page_locks *locks;
	unsigned slot; /* the queue's slot in @locks */
	unsigned depth, busy;
	struct disk_request_list pending, done;
	/* Bloom filter of the pages that requests in `pending` wait for. A pass over `pending` sets this and the
	   next three fields. */
	uint64_t shade;
	unsigned waiters;   /* requests that found a page locked */
	bool more;          /* a request has more pages to discard than one poll may discard */
	bool fresh;         /* `pending` has a request that no pass has tried yet */
	bool unlocked;      /* pages were unlocked, and waiting queues were not woken yet */
	uint32_t allowance; /* pages that this poll may still discard */
	unsigned io_count;
	struct store_io ios[DISK_RUNS]; /* requests that the store has not accepted yet */
	unsigned idle_run_count, idle_edge_count;
	uint16_t idle_runs[DISK_RUNS], idle_edges[DISK_EDGES];
	struct disk_run runs[DISK_RUNS];
	struct store_buffer *edge_buffer;
	uint8_t (*edges)[STORE_PAGE];
	struct disk_times *times; /* NULL if the disk does not measure */
	LIST_ENTRY(disk_queue) link;
	_Alignas(DISK_ALIGN) struct disk_counters counters;
};

struct disk {
	struct store *store;
	uint64_t bytes;
	struct page_locks *locks;
	pthread_mutex_t lock; /* guards the fields below */
	LIST_HEAD(, disk_queue) queues;
	struct disk_stats closed;        /* sum over closed queues */
	struct disk_times *closed_times; /* sum over closed queues, or NULL if the disk does not measure */
};

#endif
