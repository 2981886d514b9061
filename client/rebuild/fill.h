/*
 * fill: the chore that copies a chunk's pages to a new replica or to the backup. leases_joins.c plans these copies.
 *
 * Theory of operation. The control thread gives the chore a job for an action of leases.h (fill_give()), and later
 * collects the result (fill_collect()):
 *
 *   LEASES_FILL   Copies the pages of the chunk's FULL slots into a JOINING slot. First the chore waits for every
 *                 piece that was published before the slot existed. From then on, all writes go to the JOINING slot
 *                 as well. Then the chore copies the chunk's live pages, one window (copier.h) after another. It
 *                 reads the pages from a FULL slot, checks them like any fetched page, and writes them to the JOINING
 *                 slot's donor. Pages that are not live are skipped, because a later write of them goes to the
 *                 JOINING slot, too. A page that no replica has intact is also skipped.
 *   LEASES_DRAIN  Waits until no published piece uses the chunk's slots as they were before the last change. A slab
 *                 can then be released.
 *   LEASES_LEAVE  Copies the chunk's live pages to the backup in the same way. The pages are then KEPT (integrity.h).
 *                 New writes go to the backup anyway, because the chunk is leaving.
 *
 * A job fails as soon as its source or target cannot be reached, or its slot was detached. leases.c then plans
 * anew.
 *
 * Threads. The control thread gives and collects jobs. The other functions are for the rebuild thread.
 */
#ifndef CLIENT_FILL_H
#define CLIENT_FILL_H

#include "client/lease/leases.h"
#include "client/rebuild/copier.h"

enum fill_job_state {
	JOB_NONE,
	JOB_GIVEN,   /* waits until no piece uses slots that the chunk had before */
	JOB_COPYING, /* the rebuild thread copies the chunk's pages, one window after another */
	JOB_DONE,    /* JOB_DONE and JOB_FAILED wait until the control thread collects them */
	JOB_FAILED,
	JOB_STATES
};
struct fill_job {
	_Atomic unsigned state;
	struct leases_action action;
};

struct fill {
	struct chore chore;
	struct repair *repair; /* gets reports of pages that no replica has intact */
	struct fill_job jobs[LEASES_JOINS_MAX];
	/* Only the rebuild thread uses the fields below. */
	struct fill_job *job; /* the current job, or NULL */
	uint64_t page, end;   /* next page to copy, and the end of the chunk */
};

extern const struct chore_kind fill_kind;
/* Gives the job for @action: LEASES_FILL, LEASES_DRAIN or LEASES_LEAVE. Its join has no other job. The caller must
   then wake the rebuild thread. */
void fill_give(struct fill *fill, const struct leases_action *action);
void fill_collect(struct fill *fill, struct leases *leases, uint64_t now);

#endif
