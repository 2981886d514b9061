/* copier: see copier.h. */
#include "client/rebuild/copier.h"

#include "client/io/far_published.h"
#include "client/io/far_queue.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

/* The most pages of a visit, and of its only copy, if there is one donor and no backup. The thread then only scrubs. */
#define COPIER_PAGES_ALONE 8u
#define COPIER_RATE (UINT64_C(256) << 20)
#define COPIER_BUSY 4u /* divides the rate while other queues have requests in flight */
#define NS_PER_S UINT64_C(1000000000)
/* How long a visit waits for the writes in flight in its window: usually, and if slabs will soon be lost. */
#define PATIENCE_NS UINT64_C(2000000)
#define PATIENCE_PRESSED_NS UINT64_C(100000000)
/* A visit ends if the writes already in flight in its window take too long. The next window opens after this pause. */
#define WRITERS_PAUSE_NS UINT64_C(1000000)

/* --- States ----------------------------------------------------------------------------------------------------- */

static const struct state_row copy_rows[] = {
    [COPY_FREE] = {"free", 1 << COPY_DOUBTING | 1 << COPY_READING},
    [COPY_DOUBTING] = {"doubting", 1 << COPY_FREE | 1 << COPY_READING},
    [COPY_READING] = {"reading", 1 << COPY_FREE | 1 << COPY_WRITING},
    [COPY_WRITING] = {"writing", 1 << COPY_FREE | 1 << COPY_WRITING},
};
static_assert(sizeof copy_rows / sizeof *copy_rows == COPY_STATES, "a row for each state");

static const struct state_row copier_rows[] = {
    [COPIER_IDLE] = {"idle", 1 << COPIER_ENTERING | 1 << COPIER_COPYING},
    [COPIER_ENTERING] = {"entering", 1 << COPIER_IDLE | 1 << COPIER_COPYING},
    [COPIER_COPYING] = {"copying", 1 << COPIER_IDLE},
};
static_assert(sizeof copier_rows / sizeof *copier_rows == COPIER_STATES, "a row for each state");

static void copy_move(struct copy *copy, enum copy_state to)
{
	assert(copy_rows[copy->state].next & 1u << to);
	log_debug("page %llu: %s", (unsigned long long)copy->page, copy_rows[to].name);
	copy->state = to;
}

static uint64_t copier_move(struct copier *copier, enum copier_state to)
{
	assert(copier_rows[copier->state].next & 1u << to);
	log_debug("%s: %s", copier->visit.chore->kind->name, copier_rows[to].name);
	copier->state = to;
	return COPIER_NOW;
}

/* --- Requests --------------------------------------------------------------------------------------------------- */

static struct store_io copy_ask(struct copier *copier, struct copy *copy, enum copy_state state)
{
	copy_move(copy, state);
	copy->under_way = true;
	copier->in_flight++;
	return (struct store_io){.op = state == COPY_WRITING ? STORE_WRITE : STORE_READ,
				 .count = copy->count,
				 .page = copy->page,
				 .data = copy->bytes,
				 .buffer = copier->buffer,
				 .cookie = (uint64_t)(copy - copier->copies)};
}

void copier_read(struct copier *copier, struct copy *copy)
{
	const struct store_io io = copy_ask(copier, copy, COPY_READING);

	if (store_submit(copier->queue, &io, 1) == 1)
		return;
	copy->under_way = false; /* the queue is full: copy_begin() tries again later */
	copier->in_flight--;
}

static void copy_ask_donor(struct copier *copier, struct copy *copy, enum copy_state state, unsigned donor)
{
	const struct store_io io = copy_ask(copier, copy, state);

	far_queue_submit_to(copier->queue, &io, donor, copier->epoch);
}

void copier_write(struct copier *copier, struct copy *copy, unsigned donor)
{
	copy_ask_donor(copier, copy, COPY_WRITING, donor);
}

void copier_poll(struct copier *copier, uint64_t now)
{
	struct store_done done;

	copier->now = now;
	/* store_poll() also ends and makes connections as donors go away and return. */
	while (store_poll(copier->queue, &done, 1) == 1) {
		copier->copies[done.cookie].under_way = false;
		copier->copies[done.cookie].status = done.status;
		copier->in_flight--;
	}
}

/* --- Pages and chunks ------------------------------------------------------------------------------------------- */

bool copier_is_live(const struct copier *copier, uint64_t page)
{
	return integrity_kind(&copier->far->integrity, page) == INTEGRITY_IS_LIVE;
}

bool copier_hold(struct copier *copier, uint64_t page)
{
	struct chunk_table *table = &copier->far->table;
	bool ready = chunk_hold_ready(table, page / table->pages, 1, &copier->view);

	copier->epoch = copier->view.epoch;
	return ready;
}

void copier_drop(const struct copier *copier, uint64_t page, uint32_t count)
{
	struct far *far = copier->far;

	far_drop(far, page / far->table.pages, copier->epoch, count);
}

/* Calls far_queue_is_at() for all queues. Returns true if it is true for any. */
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

bool copier_is_unsettled(const struct copier *copier, uint32_t chunk)
{
	struct far *far = copier->far;
	uint32_t version = chunk_version(&far->table, chunk);

	return published_anywhere(far, chunk * far->table.pages, far->table.pages, &version);
}

/* --- The pace --------------------------------------------------------------------------------------------------- */

uint64_t copier_rate(const struct copier *copier, uint64_t rate)
{
	struct far *far = copier->far;
	const struct far_queue *queue;
	unsigned busy = 0;

	if (rate <= COPIER_BUSY)
		return rate;

	pthread_mutex_lock(&far->lock);
	LIST_FOREACH(queue, &far->queues, link)
		busy += far_queue_busy(queue);
	pthread_mutex_unlock(&far->lock);
	return busy ? rate / COPIER_BUSY : rate;
}

/* Sets when the next visit may begin. */
static void copier_pace(struct copier *copier)
{
	const uint64_t wished = copier->far->config.rebuild_rate;
	uint64_t rate = copier_rate(copier, wished ? wished : COPIER_RATE);

	if (copier->due < copier->now || copier->far->hurry)
		copier->due = copier->now;
	if (!copier->far->hurry)
		copier->due += copier->copied * STORE_PAGE * NS_PER_S / rate;
}

/* --- Visits ----------------------------------------------------------------------------------------------------- */

static void window_close(struct far *far)
{
	struct far_queue *queue;

	atomic_store(&far->window, PUBLISHED_NONE);
	pthread_mutex_lock(&far->lock);
	LIST_FOREACH(queue, &far->queues, link)
		far_queue_wake(queue, false);
	pthread_mutex_unlock(&far->lock);
}

uint64_t copier_begin(struct copier *copier, const struct visit *visit)
{
	struct far *far = copier->far;

	assert(visit->page < visit->end && visit->end - visit->page <= copier->pages);
	assert(visit->end <= far_chunk_end(far, visit->page));
	copier->visit = *visit;
	copier->first = visit->page;
	copier->failed = copier->again = false;
	copier->singles = copier->copied = 0;
	if (!visit->window)
		return copier_move(copier, COPIER_COPYING);
	copier->patience = copier->now + (atomic_load(&far->pressing) ? PATIENCE_PRESSED_NS : PATIENCE_NS);
	/* Opens the window before it looks at published pieces: see far_queue.h. */
	atomic_store(&far->window, published_make(visit->page, (uint32_t)(visit->end - visit->page), 0, true));
	return copier_move(copier, COPIER_ENTERING);
}

static uint64_t visit_end(struct copier *copier)
{
	struct chore *chore = copier->visit.chore;

	if (copier->visit.window)
		window_close(copier->far);
	if (copier->copied)
		copier_pace(copier);
	chore->kind->end(chore);
	return copier_move(copier, COPIER_IDLE);
}

static uint64_t copier_entering(struct copier *copier)
{
	if (!published_anywhere(copier->far, copier->first, copier->visit.end - copier->first, NULL))
		return copier_move(copier, COPIER_COPYING);
	if (copier->now < copier->patience)
		return copier->now + COPIER_LOOK_NS;
	copier->due = copier->now + WRITERS_PAUSE_NS;
	return visit_end(copier);
}

/* Sends the read of the visit's next pages, if there are any and the queue has room. */
static void copy_begin(struct copier *copier, struct copy *copy)
{
	const struct integrity *integrity = &copier->far->integrity;
	struct visit *visit = &copier->visit;
	uint64_t most;

	while (visit->page < visit->end && integrity_kind(integrity, visit->page) != visit->kind)
		visit->page++;
	most = visit->end - visit->page;
	if (!most)
		return;
	if (visit->page < copier->singles)
		most = 1;
	if (most > COPIER_PART)
		most = COPIER_PART;
	copy->page = visit->page;
	copy->count = integrity_run(integrity, visit->page, (uint32_t)most);
	copy->slot = 0;
	if (visit->doubt)
		copy_ask_donor(copier, copy, COPY_DOUBTING, visit->donor);
	else
		copier_read(copier, copy);
	if (copy->under_way)
		visit->page += copy->count;
	else
		copy_move(copy, COPY_FREE);
}

static void copy_answered(struct copier *copier, struct copy *copy)
{
	struct visit *visit = &copier->visit;

	if (copy->status < 0 && copy->state == COPY_READING && copy->count > 1) {
		/* Returns to the pages of the failed read, and reads them one by one. Later pages may be copied
		   twice. This does no harm, because the window keeps writes out. */
		if (copy->page < visit->page) {
			visit->page = copy->page;
			copier->singles = copy->page + copy->count;
		}
		copier->again = true;
	} else {
		visit->chore->kind->answered(visit->chore, copy);
	}
	if (!copy->under_way)
		copy_move(copy, COPY_FREE);
}

static uint64_t copier_copying(struct copier *copier)
{
	for (unsigned i = 0; i < copier->copies_max; i++) {
		struct copy *copy = &copier->copies[i];

		if (copy->state != COPY_FREE && !copy->under_way)
			copy_answered(copier, copy);
		if (copy->state == COPY_FREE && !copier->failed && !copier->again)
			copy_begin(copier, copy);
	}
	if (copier->in_flight)
		return COPIER_EVENT;
	copier->again = false;
	return !copier->failed && copier->visit.page < copier->visit.end ? COPIER_NOW : visit_end(copier);
}

uint64_t copier_step(struct copier *copier)
{
	return copier->state == COPIER_ENTERING ? copier_entering(copier) : copier_copying(copier);
}

/* --- Opening and closing ---------------------------------------------------------------------------------------- */

int copier_open(struct copier *copier, struct far *far, uint64_t now)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
	const bool alone = far->donor_places == 1 && !far->config.backup;
	const unsigned depth = far->config.fabric.depth;
	int error;

	copier->far = far;
	copier->opened = now;
	copier->pages = alone ? COPIER_PAGES_ALONE : COPIER_PAGES;
	/* A write to one donor fails if its connection has no room, so all copies must fit on one connection. */
	copier->copies_max = alone ? 1 : depth && depth < COPIER_COPIES ? depth : COPIER_COPIES;
	copier->length = STORE_PAGE * (alone ? COPIER_PAGES_ALONE : COPIER_COPIES * COPIER_PART);
	copier->bytes = mmap(NULL, copier->length, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (copier->bytes == MAP_FAILED)
		return -ENOMEM;
	far->queue_memory += copier->length;
	error = store_register(&far->base, copier->bytes, copier->length, &copier->buffer);
	if (error == 0)
		error = store_queue_open(&far->base, &copier->queue);
	if (error < 0) {
		copier_close(copier);
		return error;
	}
	far_queue_direct(copier->queue);
	copier->counters = &((struct far_queue *)copier->queue)->counters;
	for (unsigned i = 0; i < COPIER_COPIES; i++)
		copier->copies[i].bytes = copier->bytes + (size_t)i * COPIER_PART * STORE_PAGE;
	return 0;
}

void copier_close(struct copier *copier)
{
	store_queue_close(copier->queue);
	store_deregister(&copier->far->base, copier->buffer);
	munmap(copier->bytes, copier->length);
	copier->far->queue_memory -= copier->length;
}
