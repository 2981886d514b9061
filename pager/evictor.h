/*
 * evictor: the thread that makes room.
 *
 * Theory of operation. The evictor sleeps until fewer than `low` pages are free. Then it evicts the oldest residents in
 * batches until `high` pages are free. It takes a batch out of the program's reach (take.h), and judges each page by
 * its contents alone:
 * - A page of zeroes is forgotten.
 * - A page that equals its donors' contents is clean, and is not written.
 * - Any other page is dirty, and is written.
 *
 * Clean and dirty pages go through a frame of the victim buffer and stay readable there for a while.
 *
 * A write that fails is repeated for `timeout_ms`, but for at most 5 s if all donors are full. Another donor may accept
 * it meanwhile. After that time the program is stopped by SIGBUS, because its memory can neither stay nor leave. If no
 * donor is left, it is stopped at once.
 *
 * Pages that cannot leave (TAKE_HELD in take.h) are set aside and retried a batch at a time. If all resident pages are
 * held and there is no room, the program exceeds its budget, and one log line says so. Otherwise it would wait forever.
 *
 * Requests of other threads (evictor_send_out()) are served between two rounds of making room.
 */
#ifndef PAGER_EVICTOR_H
#define PAGER_EVICTOR_H

#include "pager/core.h"
#include "pager/take.h"
#include <pthread.h>

struct evictor {
	struct core *core;
	struct store_queue *queue;
	struct take take;
	unsigned batch; /* pages, at most TAKE_MAX */
	int epoll;
	pthread_t thread;
	bool running;
	uint64_t overhead;      /* fixed bytes of the pager, part of the budget */
	uint64_t local;         /* the local budget in bytes, from the options */
	unsigned since_account; /* batches since the last account() */
	int64_t beyond;         /* pages by which the budget is exceeded, because too many are held */
	bool told_beyond;
	/* Time of the last failed write, and how long writes have failed. Both are 0 while writes succeed. */
	uint64_t failed_at, failing_ns;
	int cpu;             /* the processor on which the evictor was put, or -1 for any */
	int64_t handed_over; /* pages of this batch whose room forked children took over */
	/* Writes of this batch. They are submitted together, so that one system call sends them. */
	struct store_io staged[TAKE_MAX];
	unsigned staged_count;

	pthread_mutex_t request_lock; /* one request at a time; guards the fields below */
	pthread_cond_t request_done;
	bool request_busy;
	_Atomic bool request_posted;
	uint64_t request_page, request_count;
};

/* Allocates the evictor's memory. Does not start the thread. @landing and @copies are those of take_open(). Returns 0
   or -errno. */
int evictor_open(struct evictor *evictor, struct core *core, void *landing, unsigned batch, bool copies);
int evictor_start(struct evictor *evictor);
/* Ends the thread and frees the evictor's memory. The caller has set core->stop. Accepts a partly opened evictor. */
void evictor_close(struct evictor *evictor);

/* Evicts a range of pages and returns when their donors have them. Any thread except the pager's own. */
void evictor_send_out(struct evictor *evictor, uint64_t page, uint64_t count);

#endif
