/*
 * rebuild: the thread that copies pages between donors, and between donors and the backup.
 *
 * Theory of operation. A store has this thread if it has several donors, a scrub rate or a backup. The thread has
 * five chores, and the copier (copier.h) carries out one at a time. When the copier is idle, rebuild_step() asks
 * the chores for work in this order:
 *
 *   fill        copies a chunk to a new replica, or to the backup (fill.h)
 *   repair      rewrites a page that one donor has changed (repair.h)
 *   catch up    copies to the backup the pages that it has missed (rebuild_backup.h)
 *   bring back  copies pages from the backup to donors (rebuild_backup.h)
 *   scrub       reads pages to find those that a donor has changed (scrub.h)
 *
 * rebuild_step() never waits and reads no clock. It returns the time of its next call. The thread calls it at that
 * time, or earlier after an event. Before each call the thread lets other threads run, unless slabs will soon be
 * lost (`pressing`).
 *
 * Threads. The rebuild thread blocks all signals, and allocates memory only until it has started. The control
 * thread calls fill_give() and rebuild_collect().
 */
#ifndef CLIENT_REBUILD_H
#define CLIENT_REBUILD_H

#include "client/rebuild/copier.h"
#include "client/rebuild/fill.h"
#include "client/rebuild/rebuild_backup.h"
#include "client/rebuild/repair.h"
#include "client/rebuild/scrub.h"

struct rebuild {
	struct far *far;
	_Atomic bool stop;
	bool started;
	pthread_t thread;
	sem_t opened; /* posted once `error` is known */
	int error;
	struct copier copier;
	struct fill fill;
	struct repair repair;
	struct catch_up catch_up;
	struct bring_back bring_back;
	struct scrub scrub;
};

/* Allocates the rebuild thread's state. Must be called before the control thread starts, because that thread may
   give a job at once. Returns 0 or -ENOMEM. */
int rebuild_open(struct far *far, struct rebuild **ret_rebuild);
/* Frees @rebuild. NULL is allowed. */
void rebuild_close(struct rebuild *rebuild);
/* Starts the thread of far->rebuild and waits until its queue is connected. Does nothing if far->rebuild is NULL.
   Returns 0 or -errno, which is logged. */
int rebuild_start(struct far *far);
/* Stops the thread, and waits until all its requests are answered. Does nothing if the thread was not started. */
void rebuild_stop(struct far *far);
/* Reports finished jobs to far->leases, and wakes the scrub if there are pages to read. The control thread calls
   this whenever it is awake. */
void rebuild_collect(struct far *far, uint64_t now);

/* Opens the thread's queue. Called first on the thread. Returns 0 or -errno. */
int rebuild_begin(struct rebuild *rebuild);
/* Does the work that can be done now. Returns when to call this again. UINT64_MAX means: after the next event. */
uint64_t rebuild_step(struct rebuild *rebuild, uint64_t now);
/* Closes the queue. No request may be in flight. */
void rebuild_end(struct rebuild *rebuild);

#endif
