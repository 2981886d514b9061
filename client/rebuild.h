/*
 * rebuild: the thread that copies pages between donors: to a replica that is made anew, or to one that was found
 * corrupt.
 *
 * Theory of operation. A store with replicas has one such thread, with a queue of its own (far_queue_direct). The
 * control thread gives it jobs, one for each join of leases.h:
 *
 *   fill   a JOINING slot gets what the chunk's FULL ones have. First every piece that was published before the slot
 * was there is waited for; from then on all writes go to it as well. Then the chunk's live pages are copied, a window
 * at a time: `far->window` keeps writers out, those that are in already are waited for, the pages are read, each
 * checked like any that is fetched, and written to the one donor, in parts of which several are under way. What was not
 * live then and is written later was written there, too. A page that no replica has as it was written is left out: it
 * cannot be read from any (it is being written anew, or is lost to corruption). drain  waits until nothing published
 * goes by the slots of before, so that a slab can be given back.
 *
   leave  the chunk's pages are copied to the backup like that, and kept there (integrity.h): writes go there by now.
 *
 * and queues tell of pages that one donor sent back changed and another one as they were written (repair): in a window,
 * such a page is read from that donor once more, and if it is still changed written there from another one.
 *
 * The same is done where the scrub (scrub.h) has found something, for which the thread reads what nobody else does when
 * there is nothing else to do. A page that is live, and that no replica has as it was written, is counted and logged.
 *
 * Where there is a backup (backup.h) pages go from donors to it and back: rebuild_backup.h.
 *
 * A fill ends as soon as it cannot go on: its source or target cannot be reached, or the slot is gone. leases.c begins
 * anew. Demand comes first: windows and their parts are short, a wait for writers is given up and begun anew after a
 * moment, and the rate is far_config.rebuild_rate, a quarter of it while requests are in flight on other queues. While
 * a donor wants memory back (`hurry`) it is not limited, for what is not moved in time may be lost; but other threads
 * go first until the deadline is near (`pressing`).
 *
 * All that is rebuild_step(), which never waits and reads no clock; rebuild_thread.c calls it when something has come
 * or is due.
 *
 * Threads. Its own, which blocks all signals and allocates only until it is started; rebuild_fill, rebuild_drain,
 * rebuild_leave and rebuild_collect: the control thread; rebuild_repair: any queue's.
 */
#ifndef CLIENT_REBUILD_H
#define CLIENT_REBUILD_H

#include "client/far_store.h"
#include "client/rebuild_backup.h"
#include "client/scrub.h"

/* How often those who write in a window are looked at, and for how long before they are let in again. */
#define WRITERS_LOOK_NS UINT64_C(20000)
#define WRITERS_PATIENCE_NS UINT64_C(2000000)
/* While what is not moved soon is lost. */
#define WRITERS_PRESSED_NS UINT64_C(100000000)
#define REBUILD_REPAIRS 64u
#define REBUILD_WINDOW 64u /* pages */
/* Of a fill: pages that are copied together, so few that a donor serves others in between; and how many such parts are
   under way at once, that one is read while another is written. Their buffers are a window's. */
#define REBUILD_PART 16u
#define REBUILD_PARTS (REBUILD_WINDOW / REBUILD_PART)
#define REBUILD_JOB_NONE LEASES_JOINS_MAX

enum rebuild_phase {
	REBUILD_IDLE,
	REBUILD_SETTLING, /* waits for what goes by the chunk's slots of before */
	REBUILD_SEEKING,  /* looks for the next window */
	REBUILD_ENTERING, /* it is open; waits for writers */
	REBUILD_RUNNING,  /* nobody writes there: looks for the next run of pages */
	REBUILD_COPYING,  /* parts are under way */
	REBUILD_DOUBTING, /* a repair: has asked the donor in question */
	REBUILD_READING,
	REBUILD_WRITING,
	REBUILD_RESTING,   /* the window is closed, the next is not due yet */
	REBUILD_SCRUBBING, /* a scrub's read is under way */
	/* rebuild_backup.h */
	REBUILD_CATCHING,      /* reads what the backup has missed */
	REBUILD_BACK_ENTERING, /* a window is open; waits for writers */
	REBUILD_BRINGING,      /* reads from the backup, then writes to donors */
};

/* NONE --control thread--> GIVEN --rebuild thread--> DONE, FAILED --control thread--> NONE */
enum rebuild_job_state { REBUILD_NONE, REBUILD_GIVEN, REBUILD_DONE, REBUILD_FAILED };
struct rebuild_job {
	_Atomic int state;
	bool drain;
	uint32_t chunk, epoch;
	unsigned donor; /* FAR_ON_BACKUP: the chunk leaves */
};

/* Part of a window; rebuild_copy.c. */
struct rebuild_part {
	uint64_t page;
	uint32_t run; /* 0: none */
	bool writing; /* else reading */
};

struct rebuild {
	struct far *far;
	struct rebuild_job jobs[LEASES_JOINS_MAX];
	_Atomic uint64_t repairs[REBUILD_REPAIRS]; /* page << 18 | donor << 10 | pages << 1 | 1; 0: none */
	int wake;                                  /* eventfd */
	uint32_t window;                           /* pages of one, and of one request, at most */
	uint8_t *bytes;                            /* one window */
	_Atomic bool stop;
	bool started;
	pthread_t thread;
	sem_t opened; /* posted once `error` is known */
	int error;
	/* The thread's own. */
	struct store_queue *queue;
	struct store_buffer *buffer;
	enum rebuild_phase phase;
	unsigned job;        /* being done; REBUILD_JOB_NONE: a repair */
	unsigned donor;      /* to be written */
	uint32_t epoch;      /* of a page that is held */
	uint64_t page, end;  /* where the task has come to, and ends */
	uint64_t window_end; /* and the window */
	uint64_t singles;    /* up to here pages are copied one by one: a part had one that could not be read */
	uint32_t run;        /* pages under way */
	struct rebuild_part parts[REBUILD_PARTS];
	uint64_t unread;    /* the first page of such a part, of this window; UINT64_MAX: there is none */
	bool unwritten;     /* a part could not be written */
	uint64_t copied;    /* in this window */
	uint64_t patience;  /* until when writers are waited for */
	uint64_t due;       /* the next window */
	unsigned in_flight; /* requests */
	int status;         /* of the last one */
	bool found;         /* a repair: by a queue, which has counted it; else by the scrub */
	struct scrub scrub;
	struct rebuild_backup backup;
};

/* -ENOMEM. Before the control thread, which may have jobs at once. */
int rebuild_open(struct far *far, struct rebuild **ret_rebuild);
/* Takes NULL. */
void rebuild_close(struct rebuild *rebuild);
/* Starts the thread of far->rebuild, if there is one, and waits until it has its connections. Errors are logged. */
int rebuild_start(struct far *far);
/* Ends it, whatever it does. Takes one that was not started. */
void rebuild_stop(struct far *far);

/* What its thread does: opens its queue, -errno, logged; does what there is to do, and returns when to be called again
   (UINT64_MAX: when something comes); closes the queue, when nothing is in flight. */
int rebuild_begin(struct rebuild *rebuild);
uint64_t rebuild_step(struct rebuild *rebuild, uint64_t now);
void rebuild_end(struct rebuild *rebuild);

/* rebuild_copy.c, on the thread. Begins the window's next parts, and tells whether any is under way; the answer to a
   part's request. */
bool rebuild_copy_go_on(struct rebuild *rebuild);
void rebuild_copy_answered(struct rebuild *rebuild, unsigned part, int status);

/* These pages were copied to where they are to be. */
void rebuild_copied(struct rebuild *rebuild, uint64_t page, uint32_t run);

/* For scrub.c and rebuild_backup.c, on the thread. The pages rebuild->page, run from, or to, the buffer; for one donor,
   or (-1) whichever. rebuild->status is the answer. */
void rebuild_submit(struct rebuild *rebuild, enum store_op op, int donor, enum rebuild_phase phase);
/* The next task: the donor may have these pages changed. @found: a queue has read them, and counted it. */
void rebuild_doubt(struct rebuild *rebuild, uint64_t page, uint64_t count, unsigned donor, bool found);
/* Keeps writers out of these pages; one window at a time. Those that are in have left when rebuild_is_written() says
   no. */
void rebuild_window_open(struct far *far, uint64_t page, uint32_t count);
void rebuild_window_close(struct far *far);
bool rebuild_is_written(struct far *far, uint64_t page, uint64_t count);
/* When to go on, by the rate, after @pages that were due at @due. */
uint64_t rebuild_pace(const struct rebuild *rebuild, uint64_t due, uint64_t pages, uint64_t now);
/* One page less is held. */
void rebuild_let_go(struct far *far, uint64_t chunk, uint32_t epoch);
/* The part of @rate that is left while requests are in flight on other queues; all of it when there are none. */
uint64_t rebuild_rate_now(struct far *far, uint64_t rate);
/* What the thread counts. */
struct far_counters *rebuild_counters(const struct rebuild *rebuild);

/* Jobs; there is one at most for each @join. */
void rebuild_fill(struct rebuild *rebuild, unsigned join, uint32_t chunk, uint32_t epoch, unsigned donor);
void rebuild_drain(struct rebuild *rebuild, unsigned join, uint32_t chunk);
void rebuild_leave(struct rebuild *rebuild, unsigned join, uint32_t chunk, uint32_t epoch);
/* Tells far->leases of those that are over. */
void rebuild_collect(struct far *far, uint64_t now);
/* Each of @donors (a bit each) may have changed these pages. Forgotten when there are too many to remember. */
void rebuild_repair(struct far *far, uint64_t page, uint32_t count, uint64_t donors);

#endif
