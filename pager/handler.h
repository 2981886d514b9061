/*
 * handler: the thread that answers page faults.
 *
 * Theory of operation. One thread reads the faults of all the program's threads and keeps several in flight: an
 * untouched page is filled with zeroes, a buffered one copied back, a far one read into a frame and copied in when it
 * has arrived and its checksum is right. While reads are in flight it polls, for as long as spin.h finds worth it, and
 * then sleeps; with nothing in flight it sleeps at once: the program needs the processor more.
 *
 * It runs on the processor of the thread that faulted, because waking a thread on another processor costs several
 * times the fault itself, and there the faulting thread only waits. follow.h finds that processor out.
 *
 * Reading ahead (streams.h) goes behind the demanded page, only into room that is really free.
 *
 * A fault that cannot be answered yet (no room; the page is in the evictor's or a discarding thread's hands) is
 * parked and tried again when that has moved on.
 */
#ifndef PAGER_HANDLER_H
#define PAGER_HANDLER_H

#include "common/spin.h"
#include "pager/core.h"
#include "pager/follow.h"
#include "pager/streams.h"
#include <pthread.h>

#define HANDLER_DEMANDS 64u   /* single pages in flight */
#define HANDLER_RUNS 4u       /* read-aheads in flight */
#define HANDLER_RUN_PAGES 64u /* longest read-ahead */
#define HANDLER_PARKED 1024u
#define HANDLER_FETCHES (HANDLER_DEMANDS + HANDLER_RUNS * HANDLER_RUN_PAGES)
#define HANDLER_POLL 32u /* answers taken of the store at once */

struct child;

/* One read in flight: @count pages into frames from @frame on. */
struct fetch {
	uint64_t page, started;
	struct child *child; /* NULL: for the program itself */
	unsigned born;       /* the child's: by now another may have its entry */
	pid_t thread;
	uint32_t frame;
	uint16_t count;
	uint8_t group; /* read-ahead group + 1; 0: a demanded page */
};

struct parked {
	uint64_t page, started;
	struct child *child;
	unsigned born;
	pid_t thread;
};

/* A range to bring in without anyone waiting (farpage_advise). */
struct wanted {
	uint64_t page, end;
};

struct handler {
	struct core *core;
	void (*drain)(struct handler *); /* reads what is waiting to be read of the descriptors, and answers it */
	struct store_queue *queue;
	struct store_buffer *buffer;
	struct store_done answers[HANDLER_FETCHES + HANDLER_POLL]; /* of the store, not dealt with yet */
	unsigned answer_count;
	bool keeps_back; /* a fork is to be noted: until then no page of the program may come in */
	char *frames;    /* HANDLER_DEMANDS single ones, then HANDLER_RUNS groups of HANDLER_RUN_PAGES */
	uint32_t frame_count;
	unsigned ahead;     /* longest read-ahead, pages */
	const char *zeroes; /* HANDLER_RUN_PAGES of them */
	struct fetch fetches[HANDLER_FETCHES];
	uint16_t free_demands[HANDLER_DEMANDS];
	unsigned free_demand_count;
	uint16_t group_pending[HANDLER_RUNS]; /* pages of the group still in flight */
	unsigned in_flight;                   /* reads */
	struct parked parked[HANDLER_PARKED];
	unsigned parked_count;
	/* The last fault on a lost page, and how often it has come: see faults.c. */
	uint64_t lost_page;
	pid_t lost_thread;
	unsigned lost_times;
	struct streams far_streams, new_streams;
	struct spin spin;
	uint64_t unanswered_since; /* it slept over what is in flight since then; 0: it did not */
	struct follow follow;
	int epoll;
	pthread_t thread;
	bool running;
	uint64_t settlements; /* core->settlements when the parked faults were last tried */

	pthread_mutex_t wanted_lock;
	struct wanted wanted;
	_Atomic bool has_wanted;
};

int handler_open(struct handler *handler, struct core *core, unsigned ahead);
int handler_start(struct handler *handler);
void handler_close(struct handler *handler);
uint64_t handler_memory(const struct handler *handler);
/* Brings pages in when there is room; a later call replaces an earlier one that is not done. Any thread. */
void handler_will_need(struct handler *handler, uint64_t page, uint64_t count);

#endif
