/*
 * disk: a block device's requests, in bytes, on a store's pages: the core under every front end.
 *
 * Theory of operation. A request names bytes; the store (include/farpage/store.h) takes runs of whole pages and forbids
 * that a page be read, written or discarded while it is being written. So a request is cut into runs of at most
 * STORE_RUN_MAX pages, which go straight from and into the front end's own registered memory. The ends of a request
 * that cover a part of a page only go through a page of the queue's own: read, changed, written. Each run takes the
 * locks of its pages (page_locks.h: shared to read, exclusive otherwise) and holds them until the store has answered. A
 * request whose next run finds a page locked waits; those after it go on, except where they are about the same pages
 * (roughly: the filter may take others for them), so it is overtaken by none of its own queue for long. What one page
 * holds is thus always what some request left there, whole; requests of several runs that overlap may mix page by page,
 * as the block layer lets them.
 *
 * Discarding and zeroing whole pages gives their memory back (store_discard). It is done by the thread itself in
 * pieces, so many pages a disk_poll(), and discards take turns: other requests go on while a TiB is discarded, and
 * disk_arm() says that there is more to do. Parts of pages are zeroed in place by DISK_ZERO, and left as they are by
 * DISK_DISCARD, which promises nothing of what is read afterwards; whole pages read as zeroes after both.
 *
 * A write is done when the store has it, on every replica. So DISK_FLUSH and FUA have nothing to wait for: flush is
 * about the writes that were done before it was submitted (the block layer says so, and holds it back for no others),
 * and is itself done with the next disk_poll().
 *
 * A run that fails fails its request, with the store's status, after its other runs have been answered; no more of it
 * is asked for then. What its pages hold is as in the store: the old contents or the new, page by page. Other requests
 * go on.
 *
 * Threads: a disk is shared; a queue belongs to the thread that opened it, as its store queue does. Nothing on the path
 * of a request allocates, logs, blocks or takes a mutex; all memory is touched when a queue is opened.
 */
#ifndef BLOCKDEV_DISK_H
#define BLOCKDEV_DISK_H

#include "farpage/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define DISK_SECTOR 512u /* what offsets and lengths are multiples of */

enum disk_op { DISK_READ, DISK_WRITE, DISK_DISCARD, DISK_ZERO, DISK_FLUSH, DISK_OPS };
const char *disk_op_name(enum disk_op op); /* "read" */

struct disk_request {
	/* The front end's; left alone until the request is done. */
	enum disk_op op;
	uint64_t offset, length; /* bytes, multiples of DISK_SECTOR, inside the disk, not 0; ignored for DISK_FLUSH */
	void *data;              /* DISK_READ, DISK_WRITE: @length bytes in @buffer; 8-byte aligned */
	struct store_buffer *buffer;
	/* The answer: 0; -EINVAL: outside the disk, empty, or not whole sectors; or the store's. */
	int status;
	/* The disk's own, from disk_submit() until done. */
	struct {
		uint64_t next, end; /* bytes of it that are still to be asked for */
		uint32_t runs;      /* under way */
		bool listed;        /* it waits, or was not looked at yet */
		bool waited;        /* it found a page locked */
		STAILQ_ENTRY(disk_request) link;
	} own;
};

struct disk;
struct disk_queue;

/* @store outlives it and has at least @bytes, a multiple of STORE_PAGE. -EINVAL, -ENOMEM. */
int disk_open(struct store *store, uint64_t bytes, struct disk **ret_disk);
/* All queues are closed. Takes NULL. */
void disk_close(struct disk *disk);
uint64_t disk_bytes(const struct disk *disk);
struct store *disk_store(const struct disk *disk);

/* For up to @depth requests at a time; may block on the network as store_queue_open() does. -ENOMEM; -EBUSY: there are
   64 queues already; the store's. */
int disk_queue_open(struct disk *disk, unsigned depth, struct disk_queue **ret_queue);
/* Nothing is under way. Takes NULL. */
void disk_queue_close(struct disk_queue *queue);

/* Takes a request, which stays the caller's memory. Never fails: what is wrong with it is its status. No more than
   `depth` are under way. */
void disk_submit(struct disk_queue *queue, struct disk_request *request);
/* Sends what was submitted on its way and gives back those that are done, up to @max, in the order in which they were;
   never waits. To be called after every batch of submissions (one doorbell for all of it), and again when one of the
   descriptors is readable. A request that was given back is not touched any more. */
unsigned disk_poll(struct disk_queue *queue, struct disk_request *ret_done[], unsigned max);
/* How many are under way: submitted and not given back. */
unsigned disk_queue_busy(const struct disk_queue *queue);

/* To sleep: both are waited for, after disk_arm() has returned 0; 1: poll at once. The first is the store's, the second
   is written when pages are unlocked in another queue while a request of this one waits for some. disk_poll() takes
   what was written. disk_arm() may send what waited on its way. */
void disk_queue_fds(const struct disk_queue *queue, int ret_fds[2]);
int disk_arm(struct disk_queue *queue);

/* Since disk_open(), all queues together; any thread. */
struct disk_stats {
	uint64_t requests[DISK_OPS], errors[DISK_OPS];
	uint64_t bytes[DISK_OPS];
	uint64_t waited; /* requests that found a page locked */
};
void disk_get_stats(const struct disk *disk, struct disk_stats *ret_stats);

/* For tests: no page is locked. */
bool disk_locks_are_free(const struct disk *disk);

#endif
