/*
 * fill: carries out the jobs of the joins (leases.h): copies a chunk's pages to a new replica, or to the backup.
 *
 * Theory of operation. A job is the action of a join:
 *
 *   LEASES_FILL   Copies the pages of the chunk's FULL slots into a JOINING slot. First the chore waits for every piece
 *                 that was published before the slot existed. From then on all writes go to the JOINING slot as well.
 *                 Then it copies the chunk's live pages, one window (copier.h) at a time. It reads these pages, checks
 *                 them like any fetched page, and writes them to the JOINING slot's donor.
 *                 Pages that are not live need no copy: a later write of them goes to the JOINING slot too. A page that
 *                 no replica has intact is left out.
 *   LEASES_DRAIN  Waits until no published piece uses the chunk's earlier slots, so that a slab can be given back.
 *   LEASES_LEAVE  Copies the chunk's live pages to the backup in the same way. They are then KEPT there (integrity.h).
 *                 New writes go to the backup already.
 *
 * A job fails as soon as it cannot go on: its source or target cannot be reached, or the slot is gone. leases.c then
 * starts again.
 *
 * Threads. The control thread gives jobs and collects them. All else is the rebuild thread's.
 */
#ifndef CLIENT_FILL_H
#define CLIENT_FILL_H

#include "client/lease/leases.h"
#include "client/rebuild/copier.h"

enum fill_job_state {
	JOB_NONE,    /* waits for the control thread to give a job */
	JOB_GIVEN,   /* waits until no piece uses the chunk's earlier slots */
	JOB_COPYING, /* the rebuild thread copies the chunk's pages, one window after another */
	JOB_DONE,    /* JOB_DONE and JOB_FAILED wait for the control thread to collect them */
	JOB_FAILED,
	JOB_STATES
};
struct fill_job {
	_Atomic unsigned state;
	struct leases_action action;
};

struct fill {
	struct chore chore;
	struct repair *repair; /* reports pages that no replica has intact */
	struct fill_job jobs[LEASES_JOINS_MAX];
	/* The rebuild thread's own. */
	struct fill_job *job; /* the current one, or NULL for none */
	uint64_t page, end;   /* the next page to copy, and the end of the chunk */
};

extern const struct chore_kind fill_kind;
/* Gives the job of a join: @action is LEASES_FILL, LEASES_DRAIN or LEASES_LEAVE. Each join has at most one job. The
   caller then wakes the rebuild thread. */
void fill_give(struct fill *fill, const struct leases_action *action);
/* Reports finished jobs to @leases. */
void fill_collect(struct fill *fill, struct leases *leases, uint64_t now);

#endif
