/*
 * evictor: the thread that makes room.
 *
 * Theory of operation. It sleeps until less than `low` pages are free, then evicts the oldest residents in batches
 * until `high` are: take the batch out of the program's reach (take.h), and for each page decide by its contents
 * alone: all zero, so it is forgotten; the same as what its donors have, so it is far already; else it is written.
 * Clean and dirty pages go through a frame of the victim buffer and stay readable there for a while.
 *
 * A write that fails is tried again for `timeout_ms`, or 5 s where all donors are full (another one may take it); then
 * the program is stopped by SIGBUS, for its memory can neither stay nor go.
 *
 * Pages that cannot leave (take.h, TAKE_HELD) are put aside, and tried again a batch at a time. When nothing else is
 * here and a fault finds no room, the program goes beyond its budget, and one line says so: waiting would be for ever.
 *
 * Requests of other threads (send this range out now) are served between batches.
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
	uint64_t overhead;      /* fixed bytes of the pager, for the budget */
	uint64_t local;         /* bytes, of the options */
	unsigned since_account; /* batches since the budget was last reckoned */
	int64_t beyond;         /* pages the budget was exceeded by, because too many are held */
	bool told_beyond;
	uint64_t failed_at, failing_ns; /* when a write failed last, and for how long writes have; 0: they go through */
	int cpu;                        /* where it was put; -1: anywhere */
	int64_t handed_over;            /* pages of this batch whose room a forked child has taken over */

	pthread_mutex_t request_lock; /* one request at a time; guards the fields below */
	pthread_cond_t request_done;
	bool request_busy;
	_Atomic bool request_posted;
	uint64_t request_page, request_count;
};

/* Reserves what it needs; starts no thread. @landing and @copies as for take_open. */
int evictor_open(struct evictor *evictor, struct core *core, void *landing, unsigned batch, bool copies);
int evictor_start(struct evictor *evictor);
/* Ends the thread (core->stop is set) and frees all; takes a half-built one. */
void evictor_close(struct evictor *evictor);

/* Sends pages out and returns when their donors have them. Any thread but the pager's own. */
void evictor_send_out(struct evictor *evictor, uint64_t page, uint64_t count);

#endif
