/*
 * rebuild: the thread that copies pages between donors: to a new replica, or over a copy that was found corrupt.
 *
 * Theory of operation. A store has one such thread if it has several donors, a scrub rate or a backup. The thread has a
 * queue of its own (far_queue_direct). The control thread gives it jobs, one for each join of leases.h:
 *
 *   fill   Copies what the chunk's FULL slots hold into a JOINING slot. First the thread waits for every piece that
 *          was published before the slot existed. From then on all writes go to the JOINING slot as well. Then the
 *          thread copies the chunk's live pages, one window at a time:
 *            1. `far->window` keeps new writers out. The thread waits for the writes that are already under way.
 *            2. The pages are read, checked like any fetched page, and written to the JOINING slot's donor. This is
 *               done in parts, and several parts are under way at once.
 *          Pages that are not live then need no copy: a later write of them goes to the JOINING slot too.
 *          A page that no replica has intact is left out. No replica could serve it anyway.
 *   drain  Waits until no published piece goes by the chunk's earlier slots, so that a slab can be given back.
 *   leave  Copies the chunk's live pages to the backup in the same way. They are then KEPT there (integrity.h). New
 *          writes go to the backup already.
 *
 * Queues ask for a repair when one donor sends pages back changed and another has them intact. The thread opens a
 * window, and reads each such page from the suspect donor again. If the page is still changed, the thread reads it from
 * another donor and writes it to the suspect donor. Pages that the scrub (scrub.h) found changed are repaired in the
 * same way. The thread scrubs when it has nothing else to do. A live page that no replica has intact is counted and
 * logged.
 *
 * If there is a backup (backup.h), the thread also moves pages between donors and the backup: see rebuild_backup.h.
 *
 * A fill ends as soon as it cannot go on: its source or target cannot be reached, or the slot is gone. leases.c then
 * starts again.
 *
 * Requests of the program come first. Windows and their parts are short. If writers do not leave a window in time, the
 * window is closed and tried again later. The rate is far_config.rebuild_rate, and a quarter of it while other queues
 * have requests in flight. While a donor wants memory back (`hurry`), the rate is not limited, because pages that are
 * not moved in time may be lost. But other threads still run first until the deadline is near (`pressing`).
 *
 * All of this is rebuild_step(), which never waits and reads no clock. rebuild_thread.c calls it when an event has
 * arrived or a time has come.
 *
 * Threads. The rebuild thread blocks all signals, and allocates only until it is started. The control thread calls
 * rebuild_fill, rebuild_drain, rebuild_leave and rebuild_collect.
 */
#ifndef CLIENT_REBUILD_H
#define CLIENT_REBUILD_H

#include "client/far_store.h"
#include "client/rebuild/rebuild_backup.h"
#include "client/rebuild/scrub.h"

/* How often the thread looks whether writers have left a window, and how long it waits for them before it closes the
   window again. */
#define WRITERS_LOOK_NS UINT64_C(20000)
#define WRITERS_PATIENCE_NS UINT64_C(2000000)
/* The same wait when slabs will soon be lost. */
#define WRITERS_PRESSED_NS UINT64_C(100000000)
#define REBUILD_WINDOW 64u /* pages */
/* Pages of one part of a fill. Parts are small so that the donor can serve other requests between them. Several parts
   are under way at once, so that one is read while another is written. Their buffers together are one window's. */
#define REBUILD_PART 16u
#define REBUILD_PARTS (REBUILD_WINDOW / REBUILD_PART)
#define REBUILD_JOB_NONE LEASES_JOINS_MAX

enum rebuild_phase {
	REBUILD_IDLE,
	REBUILD_SETTLING, /* waits for pieces that go by the chunk's earlier slots */
	REBUILD_SEEKING,  /* looks for the next live page, and opens a window there */
	REBUILD_ENTERING, /* the window is open: waits for writers to leave */
	REBUILD_RUNNING,  /* no writer is left in the window: looks for the next run of pages */
	REBUILD_COPYING,  /* parts are under way */
	REBUILD_DOUBTING, /* a repair: reads the page from the suspect donor */
	REBUILD_READING,
	REBUILD_WRITING,
	REBUILD_RESTING,   /* the window is closed, and the next is not due yet */
	REBUILD_SCRUBBING, /* the scrub reads */
	/* see rebuild_backup.h */
	REBUILD_CATCHING,      /* reads pages that the backup has missed */
	REBUILD_BACK_ENTERING, /* the window is open: waits for writers to leave */
	REBUILD_BRINGING,      /* reads pages from the backup, then writes them to donors */
};

/* NONE --control thread--> GIVEN --rebuild thread--> DONE, FAILED --control thread--> NONE */
enum rebuild_job_state { REBUILD_NONE, REBUILD_GIVEN, REBUILD_DONE, REBUILD_FAILED };
struct rebuild_job {
	_Atomic int state;
	bool drain;
	uint32_t chunk, epoch;
	unsigned donor; /* target, or FAR_ON_BACKUP if the chunk leaves */
};

/* A part of a window. See rebuild_copy.c. */
struct rebuild_part {
	uint64_t page;
	uint32_t run; /* pages, or 0 if the part is free */
	bool writing; /* being written to the target, otherwise being read */
};

struct rebuild {
	struct far *far;
	struct rebuild_job jobs[LEASES_JOINS_MAX];
	uint32_t window; /* most pages of a window, and of a request */
	uint8_t *bytes;  /* one window's pages */
	_Atomic bool stop;
	bool started;
	pthread_t thread;
	sem_t opened; /* posted once `error` is known */
	int error;
	/* The rest belongs to the rebuild thread. */
	struct store_queue *queue;
	struct store_buffer *buffer;
	enum rebuild_phase phase;
	unsigned job;        /* current job, or REBUILD_JOB_NONE for a repair */
	unsigned donor;      /* target, or a repair's suspect */
	uint32_t epoch;      /* in which a repair holds its page */
	uint64_t page, end;  /* next page of the task, and the task's end */
	uint64_t window_end; /* end of the window */
	uint64_t singles;    /* end of an unreadable part: pages below are copied one by one */
	uint32_t run;        /* pages of the request under way */
	struct rebuild_part parts[REBUILD_PARTS];
	uint64_t unread;    /* first page of the first unreadable part of this window, or UINT64_MAX for none */
	bool unwritten;     /* some part could not be written */
	uint64_t copied;    /* pages copied in this window */
	uint64_t patience;  /* when waiting for writers ends */
	uint64_t due;       /* when the next window may open */
	unsigned in_flight; /* requests under way */
	int status;         /* of the last request answered */
	bool found;         /* a repair: reported (and counted) by a queue, not by the scrub */
	struct scrub scrub;
	struct rebuild_backup backup;
};

/* Allocates the rebuild thread's state. Must be called before the control thread starts, which may give jobs at once.
   Returns -ENOMEM on failure. */
int rebuild_open(struct far *far, struct rebuild **ret_rebuild);
/* Frees @rebuild. NULL is allowed. */
void rebuild_close(struct rebuild *rebuild);
/* Starts the thread of far->rebuild, if there is one, and waits until it has its connections. Returns 0 or -errno,
   which is logged. */
int rebuild_start(struct far *far);
/* Ends the thread, after the requests under way are answered. Does nothing if the thread was not started. */
void rebuild_stop(struct far *far);

/* Opens the thread's queue. Called first on the thread. Returns 0 or -errno. */
int rebuild_begin(struct rebuild *rebuild);
/* Does what can be done now. Returns when to call it again, or UINT64_MAX if only an event makes that necessary. */
uint64_t rebuild_step(struct rebuild *rebuild, uint64_t now);
/* Closes the queue. No request may be in flight. */
void rebuild_end(struct rebuild *rebuild);

/* The next two functions are in rebuild_copy.c, on the rebuild thread. This one starts the window's next parts. Returns
   true if any part is under way. */
bool rebuild_copy_go_on(struct rebuild *rebuild);
/* Handles the answer to the request of @part. */
void rebuild_copy_answered(struct rebuild *rebuild, unsigned part, int status);

/* Notes that these pages have been copied to their target: counts them, and in a leave marks them KEPT. */
void rebuild_copied(struct rebuild *rebuild, uint64_t page, uint32_t run);

/* Submits a request for the pages from rebuild->page, rebuild->run of them. The data is in the thread's buffer. @donor
   is the one to use, or -1 for any. The answer will be in rebuild->status. Also for scrub.c and rebuild_backup.c, on
   the rebuild thread. */
void rebuild_submit(struct rebuild *rebuild, enum store_op op, int donor, enum rebuild_phase phase);
/* Makes a repair the next task: @donor may have these pages changed. @found means that a queue has found this, and has
   counted it. */
void rebuild_doubt(struct rebuild *rebuild, uint64_t page, uint64_t count, unsigned donor, bool found);
/* Keeps new writers out of these pages. Only one window can be open at a time. Earlier writers have left when
   rebuild_is_written() returns false. */
void rebuild_window_open(struct far *far, uint64_t page, uint32_t count);
void rebuild_window_close(struct far *far);
/* Returns true if a write of any of these pages is under way. Final only while a window keeps new writers out of
   them. */
bool rebuild_is_written(struct far *far, uint64_t page, uint64_t count);
/* Returns when to go on after copying @pages that were due at @due. The distance follows from the rate, and is zero
   while `hurry` is set. */
uint64_t rebuild_pace(const struct rebuild *rebuild, uint64_t due, uint64_t pages, uint64_t now);
/* Gives back the hold on one page of the chunk. */
void rebuild_let_go(struct far *far, uint64_t chunk, uint32_t epoch);
/* Returns the part of @rate that may be used now: a quarter while other queues have requests in flight, else all. */
uint64_t rebuild_rate_now(struct far *far, uint64_t rate);
/* Returns the counters of the thread's queue. */
struct far_counters *rebuild_counters(const struct rebuild *rebuild);

/* Give the thread a job. At most one job for each @join may exist at a time. */
void rebuild_fill(struct rebuild *rebuild, unsigned join, uint32_t chunk, uint32_t epoch, unsigned donor);
void rebuild_drain(struct rebuild *rebuild, unsigned join, uint32_t chunk);
void rebuild_leave(struct rebuild *rebuild, unsigned join, uint32_t chunk, uint32_t epoch);
/* Reports finished jobs to far->leases. */
void rebuild_collect(struct far *far, uint64_t now);

#endif
