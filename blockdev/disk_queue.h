/*
 * disk_queue: what a disk and its queues are made of, for disk.c (opening, closing, figures) and disk_requests.c (the
 * path of a request).
 *
 * Threads. A queue is its thread's own, but for its counters, which any may read. A disk's lock is of what comes and
 * goes with queues.
 */
#ifndef BLOCKDEV_DISK_QUEUE_H
#define BLOCKDEV_DISK_QUEUE_H

#include "blockdev/disk.h"
#include "blockdev/page_locks.h"

#include <pthread.h>
#include <stdatomic.h>

#define DISK_RUNS 256u /* of a queue, under way */
#define DISK_EDGES 16u /* pages of a queue's own */
#define DISK_ALIGN 64u /* a cache line */

enum run_step { RUN_WHOLE, EDGE_READ, EDGE_FETCH, EDGE_STORE };

struct disk_run {
	struct disk_request *request;
	uint64_t page;
	uint8_t *data;          /* of an edge: the request's bytes; NULL: zeroes */
	uint16_t first, length; /* of an edge: which bytes of the page */
	uint16_t count;         /* pages */
	uint16_t edge;
	enum run_step step;
	bool exclusive;
};

struct disk_counters {
	_Atomic uint64_t requests[DISK_OPS], errors[DISK_OPS], bytes[DISK_OPS];
	_Atomic uint64_t waited;
};

STAILQ_HEAD(disk_request_list, disk_request);

struct disk_queue {
	struct disk *disk;
	struct store_queue *inner;
	struct page_locks *locks;
	unsigned slot; /* in @locks */
	unsigned depth, busy;
	struct disk_request_list pending, done;
	/* The last look through `pending`. */
	uint64_t shade;
	unsigned waiters;   /* that found a page locked */
	bool more;          /* one has more to discard */
	bool fresh;         /* there is one that was not looked at */
	bool unlocked;      /* pages, since others were woken */
	uint32_t allowance; /* pages that may still be discarded by this poll */
	unsigned io_count;
	struct store_io ios[DISK_RUNS]; /* for the store to take */
	unsigned idle_run_count, idle_edge_count;
	uint16_t idle_runs[DISK_RUNS], idle_edges[DISK_EDGES];
	struct disk_run runs[DISK_RUNS];
	struct store_buffer *edge_buffer;
	uint8_t (*edges)[STORE_PAGE];
	LIST_ENTRY(disk_queue) link;
	_Alignas(DISK_ALIGN) struct disk_counters counters;
};

struct disk {
	struct store *store;
	uint64_t bytes;
	struct page_locks *locks;
	pthread_mutex_t lock; /* of what follows */
	LIST_HEAD(, disk_queue) queues;
	struct disk_stats closed; /* queues' counters */
};

#endif
