/*
 * writer: the evictor's store queue, through which pages in the victim buffer (victims.h) reach their donors.
 *
 * Theory of operation. The evictor stages the frames that must be written. Adjacent frames with adjacent pages become
 * one write of at most 16 pages. writer_flush() submits all staged writes in one call, to save system calls.
 *
 * Failed writes. The writer repeats a failed write, because a donor may return or another donor may accept the page.
 * It gives up after `timeout_ms`. If all donors are full, and none of them is clearing slabs, it gives up after at most
 * 5 s. Then SIGBUS stops the program, because its memory can be neither stored nor kept. If no donor is left, SIGBUS
 * stops the program at the first failure.
 *
 * Threads: the evictor's only. It also opens the queue, because the kernel completes a queue's requests in the thread
 * that opened the queue. A thread of the program could wait in a fault for requests that only it can complete.
 */
#ifndef PAGER_WRITER_H
#define PAGER_WRITER_H

#include "pager/core.h"
#include "pager/take.h"

#define WRITER_READS 32u /* most pages of one writer_read() */

struct writer {
	struct core *core;
	struct store_queue *queue;
	int epoll; /* wakes the evictor: has the queue's descriptor and the evictor's kick */
	/* When the last write failed, for how long writes have failed, and for how long the donors have been full
	   without clearing slabs. All are 0 while writes succeed. */
	uint64_t failed_at, failing_ns, full_ns;
	uint32_t run_frame, run_count; /* the frames of the write that is being built */
	struct store_io staged[TAKE_MAX];
	unsigned staged_count;
	unsigned reading; /* reads in flight (writer_read()) */
	int *read_status; /* where writer_read() wants their results */
};

/* Creates the epoll. Returns 0 or -errno; writer_close() is due in either case. */
int writer_open(struct writer *writer, struct core *core);
/* Opens the queue. Returns 0 or -errno. */
int writer_start(struct writer *writer);
/* The caller has waited until no write is in flight. */
void writer_close(struct writer *writer);

/* Returns a free frame of the victim buffer. Submits and waits for writes if there is none. */
uint32_t writer_frame(struct writer *writer);
/* Queues @frame for writing, and marks the frame and its page as being written. */
void writer_stage(struct writer *writer, uint32_t frame);
/* Submits what has been staged. */
void writer_flush(struct writer *writer);
/* Processes completed writes, and repeats failed writes. With @wait, first sleeps until a write completes, but at most
   100 ms. */
void writer_poll(struct writer *writer, bool wait);
/* Sleeps until a write completes or the evictor's kick rings, or for @timeout_ms (-1: no limit). */
void writer_sleep(struct writer *writer, int timeout_ms);
/* Waits until no write is in flight. All that was staged has been submitted. */
void writer_drain(struct writer *writer);
/* Reads the donors' contents of @count pages, at most WRITER_READS, into frames of the victim buffer. No write of these
   pages is in flight. Waits, and processes completed writes meanwhile. Sets ret_status[] to 0 or -errno
   for each page. */
void writer_read(struct writer *writer, const uint64_t *pages, const uint32_t *frames, int *ret_status, unsigned count);

#endif
