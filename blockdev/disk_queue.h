/*
 * disk_queue: the structures of a disk and its queues, for disk.c (opening, closing, statistics) and disk_requests.c
 * (the path of a request).
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

#define DISK_RUNS 256u /* runs in progress per queue */
#define DISK_EDGES 16u /* pages of a queue for parts of pages */
#define DISK_ALIGN 64u /* a cache line */

enum run_step { RUN_WHOLE, EDGE_READ, EDGE_FETCH, EDGE_STORE };

struct disk_run {
	struct disk_request *request;
	uint64_t page;
	uint8_t *data;          /* edge: the request's bytes, or NULL for zeroes */
	uint16_t first, length; /* edge: where its bytes are in the page */
	uint16_t count;         /* pages */
	uint16_t edge;
	enum run_step step;
	bool exclusive;
};

struct disk_counters {
	_Atomic uint64_t requests[DISK_OPS], errors[DISK_OPS], bytes[DISK_OPS];
	_Atomic uint64_t waited;
};

/* Of DISK_READ and DISK_WRITE. */
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
	/* Results of the last pass through `pending`. */
	uint64_t shade;
	unsigned waiters;   /* requests that found a page locked in the last pass */
	bool more;          /* some request has more to discard */
	bool fresh;         /* `pending` has a request that no pass has seen yet */
	bool unlocked;      /* pages were unlocked since other queues were last woken */
	uint32_t allowance; /* pages that this poll may still discard */
	unsigned io_count;
	struct store_io ios[DISK_RUNS]; /* requests that the store has not taken yet */
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
	struct disk_stats closed;        /* counters of closed queues */
	struct disk_times *closed_times; /* of closed queues; NULL if the disk does not measure */
};

#endif
