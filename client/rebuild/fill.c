/* fill: see fill.h. */
#include "client/rebuild/fill.h"

#include "client/io/far_backup.h"
#include "client/rebuild/repair.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>

/* --- Jobs ------------------------------------------------------------------------------------------------------- */

static void job_move(struct fill_job *job, enum fill_job_state to)
{
	static const struct state_row rows[] = {
	    [JOB_NONE] = {"none", 1 << JOB_GIVEN},
	    [JOB_GIVEN] = {"given", 1 << JOB_COPYING | 1 << JOB_DONE},
	    [JOB_COPYING] = {"copying", 1 << JOB_DONE | 1 << JOB_FAILED},
	    [JOB_DONE] = {"done", 1 << JOB_NONE},
	    [JOB_FAILED] = {"failed", 1 << JOB_NONE},
	};
	static_assert(sizeof rows / sizeof *rows == JOB_STATES, "a row for each state");

	assert(rows[atomic_load(&job->state)].next & 1u << to);
	log_debug("chunk %u is filled: %s", job->action.chunk, rows[to].name);
	atomic_store(&job->state, to);
}

static bool job_is_leave(const struct fill_job *job)
{
	return job->action.kind == LEASES_LEAVE;
}

void fill_give(struct fill *fill, const struct leases_action *action)
{
	struct fill_job *job = &fill->jobs[action->request];

	assert(action->request < LEASES_JOINS_MAX && atomic_load(&job->state) == JOB_NONE);
	assert(action->kind == LEASES_FILL || action->kind == LEASES_DRAIN || action->kind == LEASES_LEAVE);
	job->action = *action;
	if (job_is_leave(job))
		job->action.donor = FAR_ON_BACKUP;
	job_move(job, JOB_GIVEN);
}

void fill_collect(struct fill *fill, struct leases *leases, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++) {
		struct fill_job *job = &fill->jobs[i];
		unsigned state = atomic_load(&job->state);

		if (state != JOB_DONE && state != JOB_FAILED)
			continue;
		/* Clears the job before it calls the planner, because the planner may give the next job at once. */
		job_move(job, JOB_NONE);
		if (job->action.kind == LEASES_DRAIN)
			leases_drained(leases, i, now);
		else if (job_is_leave(job))
			leases_left(leases, i, state == JOB_DONE, now);
		else
			leases_filled(leases, i, state == JOB_DONE, now);
	}
}

/* Returns true if the chunk is still in the job's epoch and, for a fill, still has the JOINING slot. */
static bool job_is_current(const struct fill_job *job, const struct chunk_table *table)
{
	struct chunk_view view;
	bool there = job_is_leave(job);

	if (!chunk_view(table, job->action.chunk, &view) || view.epoch != job->action.epoch)
		return false;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		there |= view.slots[i].state == SLOT_JOINING && view.slots[i].donor == job->action.donor;
	return there;
}

static uint64_t job_end(struct fill *fill, bool good)
{
	job_move(fill->job, good ? JOB_DONE : JOB_FAILED);
	fill->job = NULL;
	mailbox_wake_control(&fill->chore.copier->far->mailbox);
	return COPIER_NOW;
}

/* --- Windows ---------------------------------------------------------------------------------------------------- */

/* Returns true when the pieces that the job waits for have ended. Then starts to copy, or ends a drain. */
static bool job_settle(struct fill *fill)
{
	struct far *far = fill->chore.copier->far;
	uint32_t chunk = fill->job->action.chunk;

	if (copier_is_unsettled(fill->chore.copier, chunk))
		return false;
	fill->page = chunk * far->table.pages;
	fill->end = far_chunk_end(far, fill->page);
	if (fill->job->action.kind == LEASES_DRAIN)
		job_end(fill, true);
	else
		job_move(fill->job, JOB_COPYING);
	return true;
}

static uint64_t fill_begin(struct chore *chore)
{
	struct fill *fill = (struct fill *)chore;
	struct copier *copier = chore->copier;
	struct visit visit = {.chore = chore, .kind = INTEGRITY_IS_LIVE, .window = true};

	for (unsigned i = 0; i < LEASES_JOINS_MAX && !fill->job; i++)
		if (atomic_load(&fill->jobs[i].state) == JOB_GIVEN)
			fill->job = &fill->jobs[i];
	if (!fill->job)
		return COPIER_EVENT;
	if (atomic_load(&fill->job->state) == JOB_GIVEN)
		return job_settle(fill) ? COPIER_NOW : copier->now + COPIER_LOOK_NS;
	if (copier->now < copier->due)
		return copier->due;
	while (fill->page < fill->end && !copier_is_live(copier, fill->page))
		fill->page++;
	if (fill->page == fill->end)
		return job_end(fill, true);
	if (!job_is_current(fill->job, &copier->far->table))
		return job_end(fill, false);
	copier->epoch = fill->job->action.epoch;
	visit.page = fill->page;
	visit.end = fill->end - fill->page < copier->pages ? fill->end : fill->page + copier->pages;
	return copier_begin(copier, &visit);
}

static void fill_end(struct chore *chore)
{
	struct fill *fill = (struct fill *)chore;

	fill->page = chore->copier->visit.page;
	if (chore->copier->failed)
		job_end(fill, false);
}

/* --- Copies ----------------------------------------------------------------------------------------------------- */

/* Makes the live pages of this run KEPT, and subtracts them from their chunk's count. */
static void pages_leave(struct copier *copier, uint64_t page, uint32_t count)
{
	copier_drop(copier, page, integrity_keep(&copier->far->integrity, page, count));
}

/* Handles a page that could not be read. The page is skipped if it was discarded meanwhile, or if no replica has it
   intact. Otherwise the job fails. */
static void page_unread(struct fill *fill, uint64_t page, int status)
{
	struct copier *copier = fill->chore.copier;
	bool live = copier_is_live(copier, page);

	if (live && status != -EBADMSG) {
		copier->failed = true;
		return;
	}
	if (live)
		repair_page_spoilt(fill->repair, page, false);
	/* The page becomes KEPT although the backup does not have it intact either. The next read of the page finds
	   this. */
	if (job_is_leave(fill->job))
		pages_leave(copier, page, 1);
}

static void fill_answered(struct chore *chore, struct copy *copy)
{
	struct fill *fill = (struct fill *)chore;
	struct copier *copier = chore->copier;

	if (copy->state == COPY_READING && copy->status == 0) {
		copier_write(copier, copy, fill->job->action.donor);
	} else if (copy->state == COPY_READING) {
		page_unread(fill, copy->page, copy->status);
	} else if (copy->status < 0) {
		copier->failed = true;
	} else {
		copier->copied += copy->count;
		if (job_is_leave(fill->job))
			pages_leave(copier, copy->page, copy->count);
		else
			far_count(&copier->counters->rebuilt, copy->count);
	}
}

const struct chore_kind fill_kind = {"fill", true, fill_begin, fill_answered, fill_end};
