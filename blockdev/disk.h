/*
 * disk: performs a block device's requests on a store's pages. All front ends use it.
 *
 * Theory of operation. A request is for bytes, but the store (client/store.h) reads and writes runs of whole pages.
 * So the disk cuts a request into runs of at most STORE_RUN_MAX pages. The store transfers the runs directly from or to
 * the front end's registered memory. If a request begins or ends within a page, the disk reads this page into a buffer
 * of the queue (an *edge*). A read request then gets its part of the page from the edge. For a write request, the disk
 * changes the part in the edge and writes the page.
 *
 * While the store writes a page, nobody else may access the page. So each run locks its pages (page_locks.h) until the
 * store has answered: shared to read, exclusive otherwise. If a page is already locked, the request waits. Later
 * requests of the queue continue, except requests for pages that an earlier request waits for. A Bloom filter finds the
 * exceptions, so it sometimes delays other requests, too. If two requests overlap, some pages may have the data of one
 * request and some that of the other, but no page has both. The block layer permits that.
 *
 * A discard of whole pages releases their memory (store_discard()). The queue's thread discards a limited number of
 * pages per disk_poll(), so that other requests continue even while a TiB is discarded. Until the discard is done,
 * disk_arm() returns 1. DISK_ZERO also zeroes parts of pages. DISK_DISCARD leaves them unchanged, which the block
 * layer permits. After either operation, whole pages read as zeroes.
 *
 * A write is complete when every replica has the data. So DISK_FLUSH and FUA have nothing to wait for. The next
 * disk_poll() returns a DISK_FLUSH as done.
 *
 * If a run fails, its request fails with the store's status. The request starts no more runs, and ends when the store
 * has answered all its runs. Each page of the request then has either its old or its new contents.
 *
 * Threads. A disk is shared. A queue belongs to the thread that opened it. To serve a request, a queue does not
 * allocate, log, block or take a mutex. All its memory is touched when the queue is opened.
 */
#ifndef BLOCKDEV_DISK_H
#define BLOCKDEV_DISK_H

#include "client/store.h"
#include "common/histogram.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define DISK_SECTOR 512u /* unit of offsets and lengths */

enum disk_op { DISK_READ, DISK_WRITE, DISK_DISCARD, DISK_ZERO, DISK_FLUSH, DISK_OPS };
const char *disk_op_name(enum disk_op op);

struct disk_request {
	/* Set by the front end before disk_submit(), and unchanged until the request is done. */
	enum disk_op op;
	uint64_t offset, length; /* bytes; whole sectors inside the disk, not 0; ignored for DISK_FLUSH */
	void *data;              /* DISK_READ, DISK_WRITE: @length bytes in @buffer, 8-byte aligned */
	struct store_buffer *buffer;
	/* The result: 0, -EINVAL for a wrong offset or length, or the store's status. */
	int status;
	/* For the disk, from disk_submit() until the request is done. */
	struct {
		uint64_t next, end; /* range for which no run was started yet */
		uint32_t runs;      /* number of runs in progress */
		bool listed;        /* in the list `pending`, because it has bytes to start */
		bool waited;        /* has at some time found a page locked */
		uint64_t submitted; /* clock_now(), if the disk measures times */
		STAILQ_ENTRY(disk_request) link;
	} own;
};

struct disk;
struct disk_queue;

/* Opens a disk of @bytes, a multiple of STORE_PAGE, on @store. The store must be at least as large, and outlive the
   disk. Returns 0, -EINVAL or -ENOMEM. */
int disk_open(struct store *store, uint64_t bytes, struct disk **ret_disk);
/* Closes the disk. All its queues must be closed. Accepts NULL. */
void disk_close(struct disk *disk);
uint64_t disk_bytes(const struct disk *disk);
struct store *disk_store(const struct disk *disk);

/* Opens a queue for up to @depth requests at a time. Like store_queue_open(), this may wait for the network. Returns 0,
   -ENOMEM, -EBUSY if there are 64 queues already, or an error of the store. */
int disk_queue_open(struct disk *disk, unsigned depth, struct disk_queue **ret_queue);
/* Closes a queue that has no requests in progress. Accepts NULL. */
void disk_queue_close(struct disk_queue *queue);

/* Submits a request, whose memory still belongs to the caller. disk_poll() returns an invalid request with status
   -EINVAL. At most `depth` requests may be in progress. */
void disk_submit(struct disk_queue *queue, struct disk_request *request);
/* The caller calls this after each batch of submissions, and when a descriptor is readable. Starts submitted requests,
   a whole batch with one doorbell of the network device. Returns up to @max finished requests in the order of their
   end. Never waits. The disk does not access a returned request any more. */
unsigned disk_poll(struct disk_queue *queue, struct disk_request *ret_done[], unsigned max);
/* Returns the number of requests that were submitted and not yet returned. */
unsigned disk_queue_busy(const struct disk_queue *queue);

/* Writes the two descriptors to sleep on after disk_arm() has returned 0. The first descriptor is the store's. The
   second becomes readable if another queue unlocks pages while a request of this queue waits for a page. disk_poll()
   resets the second descriptor. */
void disk_queue_fds(const struct disk_queue *queue, int ret_fds[2]);
/* Prepares to sleep. May start waiting requests. Returns 0 if the caller may sleep on the descriptors, or 1 if it
   must call disk_poll() at once. */
int disk_arm(struct disk_queue *queue);

/* Totals of all queues since disk_open(). */
struct disk_stats {
	uint64_t requests[DISK_OPS], errors[DISK_OPS];
	uint64_t bytes[DISK_OPS];
	uint64_t waited; /* requests that found a page locked */
};
/* Writes the totals. Any thread. */
void disk_get_stats(const struct disk *disk, struct disk_stats *ret_stats);

/* Makes the disk measure the time of each read and write, from disk_submit() to its end. Must be called before
   queues are opened. Returns 0 or -ENOMEM. */
int disk_measure_times(struct disk *disk);
/* Adds to @histogram the times, in ns, of all successful reads or writes (@op). Adds none if the disk does not
   measure. Any thread. */
void disk_add_times(const struct disk *disk, enum disk_op op, struct histogram *histogram);

/* For tests: returns true if no page is locked. */
bool disk_locks_are_free(const struct disk *disk);

#endif
