/*
 * handler: the thread that answers page faults.
 *
 * Theory of operation. The kernel queues the faults of all threads of the program on one userfaultfd (uffd.h). The
 * handler reads them and answers each by the page's state:
 * - An untouched page is filled with zeroes.
 * - A buffered page is copied back from the victim buffer.
 * - A far page is read from its donors into a frame. When the read has completed and the checksum is right, the page
 *   is copied from the frame to the program. Many reads can be in flight.
 * - A fault is parked if there is no local memory for the page, or if another thread works on the page. The handler
 *   retries parked faults after each core_settled().
 *
 * While reads are in flight, the handler polls for as long as spin.h says, because waking up costs more than a short
 * wait. Then the handler sleeps. If no read is in flight, the handler sleeps at once and leaves the processor to the
 * program.
 *
 * If faults come in order (streams.h), the handler also reads the far pages after the faulting page. Read-ahead
 * uses only memory that is free beyond what demanded pages need. The handler runs on the processor of the faulting
 * thread (follow.h).
 */
#ifndef PAGER_HANDLER_H
#define PAGER_HANDLER_H

#include "common/spin.h"
#include "pager/core.h"
#include "pager/follow.h"
#include "pager/streams.h"

#include <pthread.h>

#define HANDLER_DEMANDS 64u   /* most demanded pages in flight */
#define HANDLER_RUNS 4u       /* most read-aheads in flight */
#define HANDLER_RUN_PAGES 64u /* longest read-ahead */
#define HANDLER_PARKED 1024u
#define HANDLER_FETCHES (HANDLER_DEMANDS + HANDLER_RUNS * HANDLER_RUN_PAGES)
#define HANDLER_POLL 32u /* most answers taken from the store in one call */

struct child;

/* A thread waits for a page. */
struct fault {
	uint64_t page, started; /* clock_now(); 0 if no thread waits (farewell.h) */
	struct child *child;    /* NULL for the program itself */
	unsigned born;          /* serial number of the child; if it differs, the entry belongs to another child */
	pid_t thread;
	bool write; /* the thread writes to the page */
};

/* A read in flight: @count pages, into the frames from @frame on. */
struct fetch {
	struct fault fault; /* of a read-ahead: only the first page and the child */
	uint64_t home;      /* the first page in the store; differs from fault.page only for children (children.h) */
	uint32_t frame;
	uint16_t count;
	uint8_t group; /* the read-ahead group, counted from 1; 0 for a demanded page */
};

/* A range to read although no thread waits for it (farpage_advise() with WILLNEED). */
struct wanted {
	uint64_t page, end;
};

struct handler {
	struct core *core;
	void (*drain)(struct handler *); /* reads and answers all messages of the userfaultfd */
	struct store_queue *queue;
	struct store_buffer *buffer;
	struct store_done answers[HANDLER_FETCHES + HANDLER_POLL]; /* taken from the store, but not processed yet */
	unsigned answer_count;
	bool keeps_back; /* while a fork is recorded, pages for the program are not placed */
	char *frames;    /* `demands` frames for demanded pages, then HANDLER_RUNS groups of `ahead` frames */
	uint32_t frame_count;
	unsigned demands;   /* most demanded pages in flight, at most HANDLER_DEMANDS */
	unsigned ahead;     /* longest read-ahead in pages, at most HANDLER_RUN_PAGES */
	const char *zeroes; /* HANDLER_RUN_PAGES pages of zeroes */
	struct fetch fetches[HANDLER_FETCHES];
	uint16_t free_demands[HANDLER_DEMANDS];
	unsigned free_demand_count;
	unsigned demands_used, groups_used;      /* how many have memory: as many as have been in use at once */
	uint16_t group_pending[HANDLER_RUNS];    /* pages of each group that are still in flight */
	unsigned in_flight;                      /* number of reads, sent or staged */
	struct store_io staged[HANDLER_FETCHES]; /* reads to send together (fetch_send()) */
	unsigned staged_count;
	unsigned since_time; /* answers since pager_thread_time() (fetch.c) */
	struct fault parked[HANDLER_PARKED];
	unsigned parked_count;
	/* The last fault on a lost page, and how many times in a row it has occurred (faults.c). */
	uint64_t lost_page;
	pid_t lost_thread;
	unsigned lost_times;
	struct streams far_streams, new_streams, child_streams, child_new_streams;
	struct spin spin;
	/* If polling ended without an answer and the handler went to sleep: when that polling began. Otherwise 0. */
	uint64_t unanswered_since;
	struct follow follow;
	int epoll;
	pthread_t thread;
	bool running;
	uint64_t settlements;       /* value of core->settlements when the parked faults were last retried */
	uint64_t reaped;            /* clock_now() of the last children_reap() */
	uint64_t farewell_progress; /* clock_now() of farewell.h's last progress; 0 before the first */
	bool farewell_waits;        /* farewell.h waits for an event */

	pthread_mutex_t wanted_lock;
	struct wanted wanted;
	_Atomic bool has_wanted;
};

/* @budget is the local budget in pages; the handler's frames use at most a fiftieth of it. @ahead is the longest
   read-ahead wanted, in pages. Returns 0 or -errno. After an error the caller calls handler_close(). */
int handler_open(struct handler *handler, struct core *core, uint64_t budget, unsigned ahead);
int handler_start(struct handler *handler);
void handler_close(struct handler *handler);
/* Asks the handler to read far pages of the range as long as memory is free. A new call replaces the range of the
   earlier call. Returns at once. Any thread. */
void handler_will_need(struct handler *handler, uint64_t page, uint64_t count);

#endif
