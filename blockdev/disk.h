/*
 * disk: performs a block device's requests on a store's pages. All front ends use it.
 *
 * Theory of operation. A request names bytes. The store (client/store.h) takes runs of whole pages. The store
 * forbids reading, writing or discarding a page while that page is being written. So a request is cut into runs of at
 * most STORE_RUN_MAX pages, which go straight between the front end's registered memory and the store. If a request
 * begins or ends within a page, a page of the queue takes the whole page: it is read, changed and written.
 *
 * Each run locks its pages (page_locks.h: shared to read, exclusive otherwise) until the store has answered. A request
 * whose next run finds a page locked waits. Later requests go on unless they concern the same pages. A Bloom filter
 * decides this, so it sometimes holds back other requests too. So later requests of its own queue do not overtake a
 * request for long. Each page has the data of one request, never of two. If two requests overlap, some pages may have
 * the data of the first and some of the second, as the block layer permits.
 *
 * Discarding and zeroing whole pages releases their memory (store_discard()). The queue's thread does this itself, a
 * limited number of pages per disk_poll(), and discards take turns. So other requests go on while a TiB is discarded.
 * disk_arm() then returns 1. DISK_ZERO zeroes parts of pages in place. DISK_DISCARD leaves parts of pages unchanged,
 * because the block layer expects nothing of later reads. After both, whole pages read as zeroes.
 *
 * A write is complete when every replica has it. So DISK_FLUSH and FUA need not wait. A flush concerns only writes that
 * were complete before its submission, as the block layer defines. The next disk_poll() completes it.
 *
 * A run that fails makes its request fail with the store's status, after the request's other runs have been answered.
 * No further runs of the request are started. Each of its pages then has either its old or its new contents. Other
 * requests go on.
 *
 * Threads. A disk is shared. A queue belongs to the thread that opened it, and so does its store queue. The path of a
 * request does not allocate, log, block or take a mutex. All memory is touched when a queue is opened.
 */
#ifndef BLOCKDEV_DISK_H
#define BLOCKDEV_DISK_H

#include "client/store.h"
#include "common/histogram.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define DISK_SECTOR 512u /* offsets and lengths are multiples of this */

enum disk_op { DISK_READ, DISK_WRITE, DISK_DISCARD, DISK_ZERO, DISK_FLUSH, DISK_OPS };
const char *disk_op_name(enum disk_op op); /* "read" */

struct disk_request {
	/* The front end sets these fields, and does not change them until the request is done. */
	enum disk_op op;
	uint64_t offset, length; /* bytes, multiples of DISK_SECTOR, inside the disk, not 0; ignored for DISK_FLUSH */
	void *data;              /* DISK_READ, DISK_WRITE: @length bytes in @buffer; 8-byte aligned */
	struct store_buffer *buffer;
	/* The result: 0; -EINVAL if outside the disk, empty, or not whole sectors; or the store's status. */
	int status;
	/* Used by the disk from disk_submit() until done. */
	struct {
		uint64_t next, end; /* bytes still to be started */
		uint32_t runs;      /* runs in progress */
		bool listed;        /* in the list `pending`, because it waits or is new */
		bool waited;        /* the request found a page locked */
		uint64_t submitted; /* clock_now(); set if the disk measures times */
		STAILQ_ENTRY(disk_request) link;
	} own;
};

struct disk;
struct disk_queue;

/*
 * Opens a disk of @bytes, a multiple of STORE_PAGE, on @store. @store must be at least as large and must outlive the
 * disk. Returns 0, -EINVAL or -ENOMEM.
 */
int disk_open(struct store *store, uint64_t bytes, struct disk **ret_disk);
/* Closes the disk. All its queues are closed already. Accepts NULL. */
void disk_close(struct disk *disk);
uint64_t disk_bytes(const struct disk *disk);
struct store *disk_store(const struct disk *disk);

/*
 * Opens a queue for up to @depth requests at a time. May block on the network like store_queue_open(). Returns 0,
 * -ENOMEM, -EBUSY if there are 64 queues already, or an error of the store.
 */
int disk_queue_open(struct disk *disk, unsigned depth, struct disk_queue **ret_queue);
/* Closes a queue without requests in progress. Accepts NULL. */
void disk_queue_close(struct disk_queue *queue);

/*
 * Submits a request. Its memory still belongs to the caller. Never fails: an invalid request gets a status. The caller
 * keeps at most `depth` requests in progress.
 */
void disk_submit(struct disk_queue *queue, struct disk_request *request);
/*
 * Starts submitted requests and returns up to @max finished ones, in the order in which they finished. Never waits.
 * Call it after every batch of submissions, so that all share one doorbell, and whenever one of the descriptors is
 * readable. The disk does not touch a returned request any more.
 */
unsigned disk_poll(struct disk_queue *queue, struct disk_request *ret_done[], unsigned max);
/* Returns the number of requests that are submitted and not yet returned. */
unsigned disk_queue_busy(const struct disk_queue *queue);

/*
 * Writes the two descriptors to sleep on after disk_arm() has returned 0. The first is the store's. The second becomes
 * readable when another queue unlocks pages while a request of this queue waits for a page. disk_poll() resets it.
 */
void disk_queue_fds(const struct disk_queue *queue, int ret_fds[2]);
/*
 * Prepares to sleep on the descriptors. May start waiting requests. Returns 0 if the caller may sleep, or 1 if it must
 * call disk_poll() at once.
 */
int disk_arm(struct disk_queue *queue);

/* Totals of all queues since disk_open(). */
struct disk_stats {
	uint64_t requests[DISK_OPS], errors[DISK_OPS];
	uint64_t bytes[DISK_OPS];
	uint64_t waited; /* requests that found a page locked */
};
/* Writes the totals. Any thread may call it. */
void disk_get_stats(const struct disk *disk, struct disk_stats *ret_stats);

/*
 * Makes the disk measure the time of each read and write, from disk_submit() until it is done. Call it before queues are
 * opened. Returns 0 or -ENOMEM.
 */
int disk_measure_times(struct disk *disk);
/* Adds the times in ns of successful reads or writes (@op) since disk_open(). Adds none if the disk does not measure.
   Any thread may call it. */
void disk_add_times(const struct disk *disk, enum disk_op op, struct histogram *histogram);

/* For tests: returns true if no page is locked. */
bool disk_locks_are_free(const struct disk *disk);

#endif
