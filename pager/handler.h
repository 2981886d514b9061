/*
 * handler: the thread that answers page faults.
 *
 * Theory of operation. One thread reads the faults of all the program's threads and keeps several in flight. It fills
 * an untouched page with zeroes, and copies a buffered page back. It reads a far page into a frame, and copies it in
 * when it has arrived and its checksum is right. While reads are in flight, the handler polls for as long as spin.h
 * says, and then sleeps. With no read in flight, it sleeps at once, because the program needs the processor more.
 *
 * The handler runs on the processor of the faulting thread (follow.h).
 *
 * Read-ahead (streams.h) begins behind the demanded page, and uses only room that is really free.
 *
 * A fault cannot be answered yet if there is no room, or if the evictor or a discarding thread works on the page. Such
 * a fault is parked, and tried again after the next core_settled().
 */
#ifndef PAGER_HANDLER_H
#define PAGER_HANDLER_H

#include "common/spin.h"
#include "pager/core.h"
#include "pager/follow.h"
#include "pager/streams.h"
#include <pthread.h>

#define HANDLER_DEMANDS 64u   /* most single pages in flight */
#define HANDLER_RUNS 4u       /* read-aheads in flight */
#define HANDLER_RUN_PAGES 64u /* longest read-ahead */
#define HANDLER_PARKED 1024u
#define HANDLER_FETCHES (HANDLER_DEMANDS + HANDLER_RUNS * HANDLER_RUN_PAGES)
#define HANDLER_POLL 32u /* answers taken from the store at once */

struct child;

/* A read in flight: @count pages into the frames from @frame on. */
struct fetch {
	uint64_t page, started;
	struct child *child; /* NULL for the program itself */
	unsigned born;       /* serial number of the child: its entry may be reused by now */
	pid_t thread;
	uint32_t frame;
	uint16_t count;
	uint8_t group; /* read-ahead group + 1, or 0 for a demanded page */
};

struct parked {
	uint64_t page, started;
	struct child *child;
	unsigned born;
	pid_t thread;
};

/* A range to bring in although no thread waits for it (farpage_advise). */
struct wanted {
	uint64_t page, end;
};

struct handler {
	struct core *core;
	void (*drain)(struct handler *); /* reads and answers all waiting messages */
	struct store_queue *queue;
	struct store_buffer *buffer;
	struct store_done answers[HANDLER_FETCHES + HANDLER_POLL]; /* taken from the store, and not processed yet */
	unsigned answer_count;
	bool keeps_back; /* a fork is being recorded, and no page of the program may come in */
	char *frames;    /* `demands` single frames, then HANDLER_RUNS groups of `ahead` frames */
	uint32_t frame_count;
	unsigned demands;   /* single pages in flight, at most HANDLER_DEMANDS */
	unsigned ahead;     /* longest read-ahead, pages, at most HANDLER_RUN_PAGES */
	const char *zeroes; /* HANDLER_RUN_PAGES pages */
	struct fetch fetches[HANDLER_FETCHES];
	uint16_t free_demands[HANDLER_DEMANDS];
	unsigned free_demand_count;
	uint16_t group_pending[HANDLER_RUNS]; /* pages of each group that are still in flight */
	unsigned in_flight;                   /* reads */
	struct parked parked[HANDLER_PARKED];
	unsigned parked_count;
	/* The last fault on a lost page, and how often it has come (faults.c). */
	uint64_t lost_page;
	pid_t lost_thread;
	unsigned lost_times;
	struct streams far_streams, new_streams;
	struct spin spin;
	/* If the handler slept while reads were in flight: when the polling before that sleep began. Otherwise 0. */
	uint64_t unanswered_since;
	struct follow follow;
	int epoll;
	pthread_t thread;
	bool running;
	uint64_t settlements; /* core->settlements when the parked faults were last tried */

	pthread_mutex_t wanted_lock;
	struct wanted wanted;
	_Atomic bool has_wanted;
};

/* @budget is the local budget in pages. The handler's frames take at most a fiftieth of it. @ahead is the longest
   wanted read-ahead in pages. Returns 0 or -errno; the caller then calls handler_close(). */
int handler_open(struct handler *handler, struct core *core, uint64_t budget, unsigned ahead);
int handler_start(struct handler *handler);
void handler_close(struct handler *handler);
uint64_t handler_memory(const struct handler *handler);
/* Brings pages in when there is room. A later call replaces an unfinished earlier one. Any thread. */
void handler_will_need(struct handler *handler, uint64_t page, uint64_t count);

#endif
