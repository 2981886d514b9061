/* rebuild: see rebuild.h. */
#include "client/rebuild/rebuild.h"

#include "client/io/far_backup.h"
#include "client/io/far_published.h"
#include "client/io/far_queue.h"
#include "common/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* In pages. With one donor and no backup there is nowhere to copy to. Then the thread only scrubs, a little at a
   time. */
#define REBUILD_WINDOW_ALONE 8u
#define REBUILD_RATE (UINT64_C(256) << 20)
#define REBUILD_BUSY 4u /* divides the rate while other queues have requests in flight */
#define NS_PER_S UINT64_C(1000000000)
/* How long writers are let in after they did not leave a window in time. */
#define WRITERS_PAUSE_NS UINT64_C(1000000)

/* --- What is published ---------------------------------------------------------------------------------------- */

/* Returns true if any queue has published a piece that far_queue_is_at() looks for. */
static bool published_anywhere(struct far *far, uint64_t page, uint64_t count, const uint32_t *version)
{
	const struct far_queue *queue;
	bool found = false;

	pthread_mutex_lock(&far->lock);
	LIST_FOREACH(queue, &far->queues, link)
		found = found || far_queue_is_at(queue, page, count, version);
	pthread_mutex_unlock(&far->lock);
	return found;
}

/* Returns true if some published piece still goes by earlier slots of the chunk. */
static bool chunk_is_unsettled(struct far *far, uint32_t chunk)
{
	uint32_t version = chunk_version(&far->table, chunk);

	return published_anywhere(far, chunk * far->table.pages, far->table.pages, &version);
}

uint64_t rebuild_rate_now(struct far *far, uint64_t rate)
{
	const struct far_queue *queue;
	unsigned busy = 0;

	if (rate <= REBUILD_BUSY)
		return rate;

	pthread_mutex_lock(&far->lock);
	LIST_FOREACH(queue, &far->queues, link)
		busy += far_queue_busy(queue);
	pthread_mutex_unlock(&far->lock);
	return busy ? rate / REBUILD_BUSY : rate;
}

struct far_counters *rebuild_counters(const struct rebuild *rebuild)
{
	return &((struct far_queue *)rebuild->queue)->counters;
}

/* --- Parts of a task ------------------------------------------------------------------------------------------ */

static bool page_is_live(const struct far *far, uint64_t page)
{
	return integrity_kind(&far->integrity, page) == INTEGRITY_IS_LIVE;
}

static bool task_is_repair(const struct rebuild *rebuild)
{
	return rebuild->job == REBUILD_JOB_NONE;
}

/* Returns the epoch in which the chunk is held for the request that @phase waits for. */
static uint32_t epoch_held(const struct rebuild *rebuild, enum rebuild_phase phase)
{
	if (phase == REBUILD_SCRUBBING)
		return rebuild->scrub.epoch;
	if (phase == REBUILD_BRINGING)
		return rebuild->backup.epoch;
	return task_is_repair(rebuild) ? rebuild->epoch : rebuild->jobs[rebuild->job].epoch;
}

void rebuild_submit(struct rebuild *rebuild, enum store_op op, int donor, enum rebuild_phase phase)
{
	struct store_io io = {.op = op,
			      .count = rebuild->run,
			      .page = rebuild->page,
			      .data = rebuild->bytes,
			      .buffer = rebuild->buffer,
			      .cookie = REBUILD_PARTS};

	rebuild->phase = phase;
	rebuild->in_flight = 1;
	rebuild->status = -EIO;
	if (donor >= 0)
		far_queue_submit_to(rebuild->queue, &io, (unsigned)donor, epoch_held(rebuild, phase));
	else
		rebuild->in_flight = store_submit(rebuild->queue, &io, 1) == 1;
}

void rebuild_window_open(struct far *far, uint64_t page, uint32_t count)
{
	/* First the store, then the look at published pieces: see far_queue.h. */
	atomic_store(&far->window, published_make(page, count, 0, true));
}

bool rebuild_is_written(struct far *far, uint64_t page, uint64_t count)
{
	return published_anywhere(far, page, count, NULL);
}

void rebuild_window_close(struct far *far)
{
	struct far_queue *queue;

	atomic_store(&far->window, PUBLISHED_NONE);
	pthread_mutex_lock(&far->lock);
	LIST_FOREACH(queue, &far->queues, link)
		far_queue_wake(queue, false);
	pthread_mutex_unlock(&far->lock);
}

static void task_end(struct rebuild *rebuild, bool good)
{
	rebuild->phase = REBUILD_IDLE;
	if (task_is_repair(rebuild))
		return;
	atomic_store(&rebuild->jobs[rebuild->job].state, good ? REBUILD_DONE : REBUILD_FAILED);
	mailbox_wake_control(&rebuild->far->mailbox);
}

/* Returns true if the task is to move a chunk to the backup. */
static bool task_is_leave(const struct rebuild *rebuild)
{
	return !task_is_repair(rebuild) && rebuild->donor == FAR_ON_BACKUP;
}

/* Marks the live ones of these pages KEPT, and takes them out of their chunk's count. */
static void pages_leave(struct rebuild *rebuild, uint64_t page, uint32_t run)
{
	const struct rebuild_job *job = &rebuild->jobs[rebuild->job];
	struct far *far = rebuild->far;
	uint32_t kept = integrity_keep(&far->integrity, page, run);

	if (kept && chunk_drop(&far->table, job->chunk, job->epoch, kept))
		mailbox_wake_control(&far->mailbox);
}

void rebuild_copied(struct rebuild *rebuild, uint64_t page, uint32_t run)
{
	struct far_counters *counters = rebuild_counters(rebuild);

	rebuild->copied += run;
	if (task_is_leave(rebuild))
		pages_leave(rebuild, page, run);
	else
		far_count(task_is_repair(rebuild) ? &counters->repaired : &counters->rebuilt, run);
}

/* Returns true if the chunk's epoch is still the job's and, in a fill, the JOINING slot still exists. */
static bool job_is_current(const struct rebuild *rebuild)
{
	const struct rebuild_job *job = &rebuild->jobs[rebuild->job];
	struct chunk_view view;
	bool there = false;

	if (!chunk_view(&rebuild->far->table, job->chunk, &view) || view.epoch != job->epoch)
		return false;
	if (task_is_leave(rebuild))
		return true;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		there |= view.slots[i].state == SLOT_JOINING && view.slots[i].donor == job->donor;
	return there;
}

/* Holds the page of a repair, so that its chunk's slabs are not given back meanwhile. */
static bool page_hold(struct rebuild *rebuild, uint64_t page)
{
	struct chunk_view view;

	if (!chunk_hold_ready(&rebuild->far->table, page / rebuild->far->table.pages, 1, &view))
		return false;
	rebuild->epoch = view.epoch;
	return true;
}

void rebuild_let_go(struct far *far, uint64_t chunk, uint32_t epoch)
{
	if (chunk_drop(&far->table, chunk, epoch, 1))
		mailbox_wake_control(&far->mailbox);
}

uint64_t rebuild_pace(const struct rebuild *rebuild, uint64_t due, uint64_t pages, uint64_t now)
{
	const uint64_t wished = rebuild->far->config.rebuild_rate;
	uint64_t rate = rebuild_rate_now(rebuild->far, wished ? wished : REBUILD_RATE);

	if (rebuild->far->hurry)
		return now;
	return (due > now ? due : now) + pages * STORE_PAGE * NS_PER_S / rate;
}

void rebuild_doubt(struct rebuild *rebuild, uint64_t page, uint64_t count, unsigned donor, bool found)
{
	rebuild->job = REBUILD_JOB_NONE;
	rebuild->page = page;
	rebuild->end = page + count;
	rebuild->donor = donor;
	rebuild->found = found;
	rebuild->phase = REBUILD_SEEKING;
}

/* --- Phases: each returns when the next is due ------------------------------------------------------------------ */

static uint64_t phase_idle(struct rebuild *rebuild, uint64_t now)
{
	struct far *far = rebuild->far;
	struct mailbox_repair repair;
	uint64_t due, scrub_due;

	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++) {
		const struct rebuild_job *job = &rebuild->jobs[i];

		if (atomic_load(&job->state) != REBUILD_GIVEN)
			continue;
		rebuild->job = i;
		rebuild->page = job->chunk * far->table.pages;
		rebuild->end = far_chunk_end(far, rebuild->page);
		rebuild->singles = 0;
		rebuild->phase = REBUILD_SETTLING;
		return now;
	}
	if (mailbox_take_repair(&far->mailbox, &repair)) {
		rebuild_doubt(rebuild, repair.page, repair.count, repair.donor, true);
		return now;
	}
	due = rebuild_backup_idle(rebuild, now);
	if (rebuild->phase != REBUILD_IDLE)
		return now;
	scrub_due = scrub_idle(rebuild, now);
	return scrub_due < due ? scrub_due : due;
}

static uint64_t phase_settling(struct rebuild *rebuild, uint64_t now)
{
	const struct rebuild_job *job = &rebuild->jobs[rebuild->job];

	if (chunk_is_unsettled(rebuild->far, job->chunk))
		return now + WRITERS_LOOK_NS;
	rebuild->donor = job->donor;
	if (job->drain)
		task_end(rebuild, true);
	else
		rebuild->phase = REBUILD_SEEKING;
	return now;
}

/* Opens the next window. */
static uint64_t phase_seeking(struct rebuild *rebuild, uint64_t now)
{
	struct far *far = rebuild->far;
	uint32_t most = task_is_repair(rebuild) ? 1 : rebuild->window;

	/* Pages that are not live need no copy: their next write goes to the target as well. */
	while (rebuild->page < rebuild->end && !page_is_live(far, rebuild->page))
		rebuild->page++;
	if (rebuild->page >= rebuild->end) {
		task_end(rebuild, true);
		return now;
	}
	if (!task_is_repair(rebuild) && !job_is_current(rebuild)) {
		task_end(rebuild, false);
		return now;
	}
	if (task_is_repair(rebuild) && !page_hold(rebuild, rebuild->page)) {
		rebuild->page++;
		return now;
	}
	rebuild->window_end = rebuild->end - rebuild->page < most ? rebuild->end : rebuild->page + most;
	rebuild->copied = 0;
	rebuild->unread = UINT64_MAX;
	rebuild->unwritten = false;
	rebuild->patience = now + (atomic_load(&far->pressing) ? WRITERS_PRESSED_NS : WRITERS_PATIENCE_NS);
	rebuild->phase = REBUILD_ENTERING;
	rebuild_window_open(far, rebuild->page, (uint32_t)(rebuild->window_end - rebuild->page));
	return now;
}

/* Closes the window. The next one may open at @due. */
static void window_leave(struct rebuild *rebuild, uint64_t due)
{
	rebuild_window_close(rebuild->far);
	if (task_is_repair(rebuild))
		rebuild_let_go(rebuild->far, (rebuild->window_end - 1) / rebuild->far->table.pages, rebuild->epoch);
	rebuild->due = due;
	rebuild->phase = REBUILD_RESTING;
}

static uint64_t phase_entering(struct rebuild *rebuild, uint64_t now)
{
	if (!rebuild_is_written(rebuild->far, rebuild->page, rebuild->window_end - rebuild->page)) {
		rebuild->phase = REBUILD_RUNNING;
		return now;
	}
	if (now < rebuild->patience)
		return now + WRITERS_LOOK_NS;
	window_leave(rebuild, now + WRITERS_PAUSE_NS);
	return rebuild->due;
}

/* Starts to copy the next live pages. */
static uint64_t phase_running(struct rebuild *rebuild, uint64_t now)
{
	struct far *far = rebuild->far;

	while (rebuild->page < rebuild->window_end && !page_is_live(far, rebuild->page))
		rebuild->page++;
	if (rebuild->page == rebuild->window_end) {
		window_leave(rebuild, rebuild_pace(rebuild, rebuild->due, rebuild->copied, now));
		return rebuild->due;
	}
	rebuild->run = 1;
	if (task_is_repair(rebuild))
		rebuild_submit(rebuild, STORE_READ, (int)rebuild->donor, REBUILD_DOUBTING);
	else if (rebuild->page < rebuild->singles)
		rebuild_submit(rebuild, STORE_READ, -1, REBUILD_READING);
	else
		rebuild->phase = REBUILD_COPYING;
	return now;
}

static uint64_t phase_copying(struct rebuild *rebuild, uint64_t now)
{
	if (rebuild_copy_go_on(rebuild))
		return UINT64_MAX;
	rebuild->phase = REBUILD_RUNNING;
	if (rebuild->unwritten) {
		window_leave(rebuild, now);
		task_end(rebuild, false);
	} else if (rebuild->unread != UINT64_MAX) {
		/* Copy again from there on. Parts behind that page that were copied already are still right, because no
		   writer is in the window. */
		rebuild->page = rebuild->unread;
		rebuild->unread = UINT64_MAX;
	}
	return now;
}

/* The suspect donor has answered for the page. */
static uint64_t phase_doubting(struct rebuild *rebuild, uint64_t now)
{
	bool changed = rebuild->status == -EBADMSG && page_is_live(rebuild->far, rebuild->page);

	rebuild->phase = REBUILD_RUNNING;
	/* If a queue found the page changed, the queue has counted it. */
	if (changed && (rebuild->found || scrub_page_changed(rebuild, rebuild->donor, now)))
		rebuild_submit(rebuild, STORE_READ, -1, REBUILD_READING);
	else
		rebuild->page++; /* the page is intact, or the donor cannot be asked */
	return now;
}

static uint64_t phase_reading(struct rebuild *rebuild, uint64_t now)
{
	int status = rebuild->status;

	rebuild->phase = REBUILD_RUNNING;
	if (status == 0) {
		rebuild_submit(rebuild, STORE_WRITE, (int)rebuild->donor, REBUILD_WRITING);
	} else if (task_is_repair(rebuild) || status == -EBADMSG || !page_is_live(rebuild->far, rebuild->page)) {
		/* The page was discarded meanwhile, or no replica has it intact: see rebuild.h. */
		if (status == -EBADMSG && page_is_live(rebuild->far, rebuild->page))
			scrub_page_spoilt(rebuild, task_is_repair(rebuild), now);
		/* The backup does not have the page intact either. Reading it there will show that. */
		if (task_is_leave(rebuild))
			pages_leave(rebuild, rebuild->page, 1);
		rebuild->page++;
	} else {
		window_leave(rebuild, now);
		task_end(rebuild, false);
	}
	return now;
}

static uint64_t phase_writing(struct rebuild *rebuild, uint64_t now)
{
	rebuild->phase = REBUILD_RUNNING;
	if (rebuild->status < 0 && !task_is_repair(rebuild)) {
		window_leave(rebuild, now);
		task_end(rebuild, false);
		return now;
	}
	if (rebuild->status == 0)
		rebuild_copied(rebuild, rebuild->page, rebuild->run);
	rebuild->page += rebuild->run;
	return now;
}

static uint64_t phase_resting(struct rebuild *rebuild, uint64_t now)
{
	if (now < rebuild->due)
		return rebuild->due;
	rebuild->phase = REBUILD_SEEKING;
	return now;
}

uint64_t rebuild_step(struct rebuild *rebuild, uint64_t now)
{
	static uint64_t (*const phases[])(struct rebuild *, uint64_t) = {
	    [REBUILD_IDLE] = phase_idle,
	    [REBUILD_SETTLING] = phase_settling,
	    [REBUILD_SEEKING] = phase_seeking,
	    [REBUILD_ENTERING] = phase_entering,
	    [REBUILD_RUNNING] = phase_running,
	    [REBUILD_DOUBTING] = phase_doubting,
	    [REBUILD_READING] = phase_reading,
	    [REBUILD_WRITING] = phase_writing,
	    [REBUILD_RESTING] = phase_resting,
	    [REBUILD_SCRUBBING] = scrub_read_done,
	    [REBUILD_CATCHING] = rebuild_backup_caught_up,
	    [REBUILD_BACK_ENTERING] = rebuild_backup_entering,
	    [REBUILD_BRINGING] = rebuild_backup_bringing,
	    [REBUILD_COPYING] = phase_copying,
	};
	struct store_done done;

	/* This also follows the donors' rounds. */
	while (store_poll(rebuild->queue, &done, 1) == 1) {
		rebuild->in_flight--;
		if (done.cookie < REBUILD_PARTS)
			rebuild_copy_answered(rebuild, (unsigned)done.cookie, done.status);
		else
			rebuild->status = done.status;
	}
	if (rebuild->in_flight && (rebuild->phase != REBUILD_COPYING || atomic_load(&rebuild->stop)))
		return UINT64_MAX;
	/* No request is in flight any more. The thread that stops this one waits for that. */
	if (atomic_load(&rebuild->stop))
		return now;
	return phases[rebuild->phase](rebuild, now);
}

/* --- Given by others ------------------------------------------------------------------------------------------ */

static void job_give(struct rebuild *rebuild, unsigned join, const struct rebuild_job *given)
{
	struct rebuild_job *job = &rebuild->jobs[join];

	assert(atomic_load(&job->state) == REBUILD_NONE);
	job->chunk = given->chunk;
	job->epoch = given->epoch;
	job->donor = given->donor;
	job->drain = given->drain;
	atomic_store(&job->state, REBUILD_GIVEN);
	mailbox_wake_rebuild(&rebuild->far->mailbox);
}

void rebuild_fill(struct rebuild *rebuild, unsigned join, uint32_t chunk, uint32_t epoch, unsigned donor)
{
	job_give(rebuild, join, &(struct rebuild_job){.chunk = chunk, .epoch = epoch, .donor = donor});
}

void rebuild_drain(struct rebuild *rebuild, unsigned join, uint32_t chunk)
{
	job_give(rebuild, join, &(struct rebuild_job){.chunk = chunk, .drain = true});
}

void rebuild_leave(struct rebuild *rebuild, unsigned join, uint32_t chunk, uint32_t epoch)
{
	job_give(rebuild, join, &(struct rebuild_job){.chunk = chunk, .epoch = epoch, .donor = FAR_ON_BACKUP});
}

void rebuild_collect(struct far *far, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_JOINS_MAX && far->rebuild; i++) {
		struct rebuild_job *job = &far->rebuild->jobs[i];
		int state = atomic_load(&job->state);

		if (state != REBUILD_DONE && state != REBUILD_FAILED)
			continue;
		/* First this: the planner may answer with another job. */
		atomic_store(&job->state, REBUILD_NONE);
		if (job->drain)
			leases_drained(&far->leases, i, now);
		else if (job->donor == FAR_ON_BACKUP)
			leases_left(&far->leases, i, state == REBUILD_DONE, now);
		else
			leases_filled(&far->leases, i, state == REBUILD_DONE, now);
	}
	scrub_wake(far);
}

/* --- Opening and closing -------------------------------------------------------------------------------------- */

int rebuild_open(struct far *far, struct rebuild **ret_rebuild)
{
	struct rebuild *rebuild = calloc(1, sizeof *rebuild);
	size_t length;

	if (!rebuild)
		return -ENOMEM;
	rebuild->far = far;
	rebuild->window = far->donor_count > 1 || far->config.backup ? REBUILD_WINDOW : REBUILD_WINDOW_ALONE;
	length = rebuild->window * STORE_PAGE;
	sem_init(&rebuild->opened, 0, 0);
	rebuild->bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (rebuild->bytes == MAP_FAILED)
		rebuild->bytes = NULL;
	if (!rebuild->bytes) {
		rebuild_close(rebuild);
		return -ENOMEM;
	}
	far->queue_memory += sizeof *rebuild + length;
	*ret_rebuild = rebuild;
	return 0;
}

void rebuild_close(struct rebuild *rebuild)
{
	if (!rebuild)
		return;
	if (rebuild->bytes)
		munmap(rebuild->bytes, rebuild->window * STORE_PAGE);
	sem_destroy(&rebuild->opened);
	free(rebuild);
}

int rebuild_begin(struct rebuild *rebuild)
{
	struct store *store = &rebuild->far->base;
	int error = store_register(store, rebuild->bytes, rebuild->window * STORE_PAGE, &rebuild->buffer);

	if (error == 0) {
		error = store_queue_open(store, &rebuild->queue);
		if (error < 0)
			store_deregister(store, rebuild->buffer);
	}
	if (error == 0)
		far_queue_direct(rebuild->queue);
	scrub_open(&rebuild->scrub, rebuild->far, clock_now());
	return error;
}

void rebuild_end(struct rebuild *rebuild)
{
	store_queue_close(rebuild->queue);
	store_deregister(&rebuild->far->base, rebuild->buffer);
}
