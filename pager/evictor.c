#include "pager/evictor.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/size.h"
#include "pager/anomaly.h"
#include "pager/children.h"
#include "pager/follow.h"
#include "pager/thread.h"
#include "pager/trace.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ACCOUNT_BATCHES 16u  /* batches between two account() calls */
#define ACCOUNT_SLACK 65536u /* spared for the growth of farpage's tables between two account() calls, in bytes */

/* --- The budget ------------------------------------------------------------------------------------------------- */

/* Computes how many pages the program may have: the local budget minus farpage's own memory, which grows with the
   number of pages in use. */
static void account(struct evictor *evictor)
{
	struct core *core = evictor->core;
	struct store_stats stats;

	store_stats(core->store, &stats);
	evictor->store_memory = stats.memory;
	uint64_t own = evictor->overhead + evictor->store_memory + pages_memory(&core->pages, core->window->high) +
		       shadows_memory(&core->shadows) + children_memory(core->children);
	uint64_t far = stats.pages_live + stats.kept_pages;
	__atomic_store_n(&core->counters->far_pages, far, __ATOMIC_RELAXED);
	__atomic_store_n(&core->counters->backup_behind, stats.backup_behind, __ATOMIC_RELAXED);
	__atomic_store_n(&core->counters->backup_reads, stats.backup_reads, __ATOMIC_RELAXED);
	__atomic_store_n(&core->counters->backup_writes, stats.backup_writes, __ATOMIC_RELAXED);
	pager_thread_time(&core->counters->evictor_user_ns);
	if (far > core->counters->far_peak)
		__atomic_store_n(&core->counters->far_peak, far, __ATOMIC_RELAXED);
	uint32_t held = residents_held(&core->residents);
	__atomic_store_n(&core->counters->held, held, __ATOMIC_RELAXED);
	if (evictor->beyond > held)
		evictor->beyond = held;
	uint64_t spared = own + ACCOUNT_SLACK;
	int64_t limit = spared < evictor->local ? (int64_t)((evictor->local - spared) / STORE_PAGE) : 0;
	int64_t least = 4 * core->high + atomic_load(&core->frames);
	/* core_claim() adds the overhead to the pages in use, so it must never see the higher overhead beside the
	   higher limit. It reads the overhead first. */
	bool grows = own > core->counters->overhead_bytes;
	if (!grows)
		__atomic_store_n(&core->counters->overhead_bytes, own, __ATOMIC_RELAXED);
	core_set_limit(core, (limit > least ? limit : least) + evictor->beyond);
	if (grows)
		__atomic_store_n(&core->counters->overhead_bytes, own, __ATOMIC_RELEASE);
}

/* --- One batch -------------------------------------------------------------------------------------------------- */

static bool is_zero(const char *data)
{
	const uint64_t *words = (const uint64_t *)(const void *)data;

	return words[0] == 0 && memcmp(data, data + sizeof(uint64_t), STORE_PAGE - sizeof(uint64_t)) == 0;
}

/* Chooses the evictor's processor. While there are forked children, the evictor is not bound to the handler's
   processor, because preserve() waits for the handler. With both threads on one processor, the test
   preload_fork_far took 10.3 s instead of 9.0 s. */
static void choose_processor(struct evictor *evictor)
{
	bool children = atomic_load(&evictor->core->children->count) != 0;

	follow_alone(evictor->core->follow, !children, &evictor->cpu);
}

/* Writes the contents of @frame to a shadow. Returns the shadow, or SNAPSHOT_LOST if only @kept shadows are free. */
static uint64_t write_shadow(struct evictor *evictor, uint32_t frame, uint32_t kept)
{
	struct core *core = evictor->core;
	uint64_t shadow = shadows_allocate(&core->shadows, kept);

	if (!shadow)
		return SNAPSHOT_LOST;
	core->victims.page_of[frame] = (uint32_t)shadow;
	core->victims.proven[frame] = false;
	writer_stage(&evictor->writer, frame);
	return shadow;
}

static void settle(struct evictor *evictor, uint64_t page, enum page_state state, uint32_t frame)
{
	bool moved = pages_move(&evictor->core->pages, page, PAGE_EVICTING, state, frame);

	assert(moved);
	(void)moved;
}

/* Waits until no contents of @pages are being written or read. */
static void await_silence(struct evictor *evictor, const uint64_t *pages, unsigned count)
{
	struct core *core = evictor->core;

	/* A write may be in flight, from before the page came back. */
	for (unsigned i = 0; i < count; i++)
		while (pages_load(&core->pages, pages[i]) & PAGE_WRITING)
			writer_poll(&evictor->writer, true);
	/* Stops the handler from starting reads for children. Otherwise a child that faults all the time would
	   keep `reads` above 0 for ever. */
	atomic_store(&core->children->held_back, true);
	while (atomic_load(&core->children->reads))
		sched_yield();
	atomic_store(&core->children->held_back, false);
	core_settled(core);
}

/* Copies the donors' contents of @pages to shadows, which become the pages' homes for forked children. */
static void copy_to_shadows(struct evictor *evictor, const uint64_t *pages, unsigned count)
{
	struct core *core = evictor->core;
	uint32_t frames[WRITER_READS];
	int status[WRITER_READS];

	for (unsigned i = 0; i < count; i++)
		frames[i] = writer_frame(&evictor->writer);
	writer_read(&evictor->writer, pages, frames, status, count);
	for (unsigned i = 0; i < count; i++) {
		uint64_t shadow = status[i] ? SNAPSHOT_LOST : write_shadow(evictor, frames[i], RECLAIM_SHADOWS);

		children_rehome(core->children, pages[i], shadow);
	}
	writer_flush(&evictor->writer);
}

/* Preserves the donors' contents of @pages, which are about to change, for forked children. */
static void preserve(struct evictor *evictor, const uint64_t *pages, unsigned count)
{
	struct core *core = evictor->core;
	uint64_t needed[WRITER_READS];
	unsigned length = 0;

	if (count == 0)
		return;
	choose_processor(evictor);
	await_silence(evictor, pages, count);
	for (unsigned i = 0; i < count; i++) {
		if (children_need(core->children, pages[i]))
			needed[length++] = pages[i];
		if (length == WRITER_READS || i + 1 == count) {
			copy_to_shadows(evictor, needed, length);
			length = 0;
		}
	}
	for (unsigned i = 0; i < count; i++)
		pages_unmark(&core->pages, pages[i], PAGE_SNAPSHOT);
}

/* Copies the pages that have left to frames of the victim buffer. The buffer has more than two frames for each page
   of a batch, so preserve() is not given these frames, too. */
static void copy_to_frames(struct evictor *evictor, const struct taken *taken, uint32_t *ret_frames, unsigned count)
{
	char *to[TAKE_MAX];

	for (unsigned i = 0; i < count; i++) {
		if (taken[i].result != TAKE_TAKEN)
			continue;
		ret_frames[i] = writer_frame(&evictor->writer);
		to[i] = victims_frame(&evictor->core->victims, ret_frames[i]);
	}
	take_copy(taken, to, count);
}

/* Finds out which of the pages that have left are clean, and preserves what forked children need of the others. */
static void compare_with_donors(struct evictor *evictor, const struct taken *taken, const uint32_t *frames,
				bool *ret_clean, unsigned count)
{
	struct core *core = evictor->core;
	uint64_t changed[TAKE_MAX];
	unsigned length = 0;

	for (unsigned i = 0; i < count; i++) {
		bool has_left = taken[i].result == TAKE_TAKEN || taken[i].result == TAKE_ABSENT;

		ret_clean[i] = taken[i].result == TAKE_TAKEN &&
			       store_same(core->store, taken[i].page, victims_frame(&core->victims, frames[i]));
		if (has_left && !ret_clean[i] && pages_load(&core->pages, taken[i].page) & PAGE_SNAPSHOT)
			changed[length++] = taken[i].page;
	}
	preserve(evictor, changed, length);
}

/* Handles a page that has left the program and whose contents are in @frame. Forgets a page of zeroes, and leaves its
   frame empty. Any other page stays in its frame. Queues dirty pages for writing. */
static void send_page(struct evictor *evictor, const struct taken *taken, uint32_t frame, bool clean)
{
	struct core *core = evictor->core;
	uint64_t page = taken->page;

	core_count(&core->counters->evicted, 1);
	trace_left(page, taken->data);
	if (is_zero(victims_frame(&core->victims, frame))) {
		core_count(&core->counters->evicted_zero, 1);
		if (!clean)
			store_discard(core->store, page, 1);
		settle(evictor, page, PAGE_UNTOUCHED, 0);
		return;
	}
	core->victims.page_of[frame] = (uint32_t)page;
	core->victims.proven[frame] = taken->proven;
	if (clean)
		core_count(&core->counters->evicted_clean, 1);
	else
		writer_stage(&evictor->writer, frame);
	settle(evictor, page, PAGE_BUFFERED, frame);
}

/* Sorts by page number, in place (Shell 1959). qsort(3) could call malloc, whose locks a fork may hold while it waits
   for this thread. */
static void sort_taken(struct taken *taken, unsigned count)
{
	for (unsigned gap = count / 2; gap > 0; gap /= 2)
		for (unsigned i = gap; i < count; i++) {
			struct taken one = taken[i];
			unsigned k = i;

			for (; k >= gap && taken[k - gap].page > one.page; k -= gap)
				taken[k] = taken[k - gap];
			taken[k] = one;
		}
}

/* Evicts those of @pages that are resident. @proven says which of them were proven; NULL: none. Returns the number of
   pages that left. */
static unsigned evict(struct evictor *evictor, const uint64_t *pages, const bool *proven, unsigned count)
{
	struct core *core = evictor->core;
	struct taken taken[TAKE_MAX];
	uint32_t frames[TAKE_MAX];
	bool clean[TAKE_MAX];
	unsigned mine = 0, left = 0;

	pthread_mutex_lock(&core->evict_lock);
	for (unsigned i = 0; i < count; i++)
		if (pages_move(&core->pages, pages[i], PAGE_RESIDENT, PAGE_EVICTING, 0))
			taken[mine++] = (struct taken){.page = pages[i], .proven = proven && proven[i]};
	sort_taken(taken, mine);
	take_pages(&evictor->take, taken, mine);
	copy_to_frames(evictor, taken, frames, mine);
	compare_with_donors(evictor, taken, frames, clean, mine);

	uint64_t hashes[TAKE_MAX];
	for (unsigned i = 0; i < mine; i++) {
		hashes[i] = taken[i].result == TAKE_TAKEN ? trace_hash(taken[i].data) : 0;
		switch (taken[i].result) {
		case TAKE_TAKEN:
			send_page(evictor, &taken[i], frames[i], clean[i]);
			left++;
			break;
		case TAKE_ABSENT:
			anomaly_dropped(core);
			trace_left(taken[i].page, NULL);
			store_discard(core->store, taken[i].page, 1);
			settle(evictor, taken[i].page, PAGE_UNTOUCHED, 0);
			left++;
			break;
		case TAKE_BUSY:
			settle(evictor, taken[i].page, PAGE_RESIDENT, 0);
			residents_push(&core->residents, taken[i].page, true);
			break;
		case TAKE_HELD:
			settle(evictor, taken[i].page, PAGE_RESIDENT, 0);
			residents_hold(&core->residents, taken[i].page);
			break;
		}
	}
	writer_flush(&evictor->writer);
	residents_adapt(&core->residents, core->victims.young_returned, core->victims.proven_returned);
	core->victims.young_returned = core->victims.proven_returned = 0;
	pthread_mutex_unlock(&core->evict_lock);
	for (unsigned i = 0; i < mine; i++)
		if (taken[i].result == TAKE_TAKEN && trace_hash(taken[i].data) != hashes[i])
			anomaly_stop(core, taken[i].page, "changed after it had left");
	take_release(&evictor->take, mine);
	/* The first pages of a slab make the store grow at once. The budget must shrink before the program may use the
	   memory of the pages that have left. */
	if (store_memory(core->store) != evictor->store_memory)
		account(evictor);
	core_release(core, left);
	core_settled(core);
	writer_poll(&evictor->writer, false);
	return left;
}

/* --- Requests --------------------------------------------------------------------------------------------------- */

/* Returns true if another thread is placing the page, or if the write of its last eviction is still in flight. */
static bool is_busy(uint32_t word)
{
	enum page_state state = page_state(word);

	return state == PAGE_FETCHING || state == PAGE_FILLING || state == PAGE_RETURNING ||
	       (state == PAGE_RESIDENT && (word & PAGE_WRITING));
}

static void send_range_out(struct evictor *evictor, uint64_t page, uint64_t count)
{
	struct core *core = evictor->core;
	uint64_t batch[TAKE_MAX];
	unsigned length = 0;

	for (uint64_t end = page + count; page < end; page++) {
		uint32_t word;

		while (is_busy(word = pages_load(&core->pages, page))) {
			writer_poll(&evictor->writer, false);
			sched_yield();
		}
		if (page_state(word) == PAGE_RESIDENT)
			batch[length++] = page;
		if (length == evictor->batch) {
			evict(evictor, batch, NULL, length);
			length = 0;
		}
	}
	evict(evictor, batch, NULL, length);
	/* The caller wants the pages on their donors only, so the victim buffer is emptied. */
	writer_drain(&evictor->writer);
	for (uint32_t i = 0; i < core->victims.count; i++)
		victims_empty(&core->victims, i);
}

static void serve_request(struct evictor *evictor)
{
	send_range_out(evictor, evictor->request_page, evictor->request_count);
	pthread_mutex_lock(&evictor->request_lock);
	atomic_store(&evictor->request_posted, false);
	evictor->request_busy = false;
	pthread_cond_broadcast(&evictor->request_done);
	pthread_mutex_unlock(&evictor->request_lock);
}

void evictor_send_out(struct evictor *evictor, uint64_t page, uint64_t count)
{
	pthread_mutex_lock(&evictor->request_lock);
	while (evictor->request_busy)
		pthread_cond_wait(&evictor->request_done, &evictor->request_lock);
	evictor->request_busy = true;
	evictor->request_page = page;
	evictor->request_count = count;
	atomic_store(&evictor->request_posted, true);
	kick_ring(&evictor->core->evictor_kick);
	while (atomic_load(&evictor->request_posted))
		pthread_cond_wait(&evictor->request_done, &evictor->request_lock);
	pthread_mutex_unlock(&evictor->request_lock);
}

/* Writes the pages that forked children have moved out to shadows (reclaim.h). */
static void store_moved(struct evictor *evictor)
{
	struct core *core = evictor->core;
	struct children *children = core->children;
	uint64_t shadows[RECLAIM_MOVES];
	struct child *child;

	if (atomic_load(&children->answered) == 0)
		return;
	while (pthread_mutex_lock(&children->lock), child = reclaim_next(children)) {
		/* The entry stays while an answer waits for this thread, and nobody changes the contents. */
		pthread_mutex_unlock(&children->lock);
		for (unsigned i = 0; i < child->reclaim.content_count; i++) {
			uint32_t frame = writer_frame(&evictor->writer);

			memcpy(victims_frame(&core->victims, frame), child->reclaim.contents + (size_t)i * STORE_PAGE,
			       STORE_PAGE);
			shadows[i] = write_shadow(evictor, frame, 0);
		}
		writer_flush(&evictor->writer);
		core_count(&core->counters->evicted, child->reclaim.content_count);
		evictor->since_account++;
		pthread_mutex_lock(&children->lock);
		reclaim_finish(children, child, shadows);
		pthread_mutex_unlock(&children->lock);
	}
	pthread_mutex_unlock(&children->lock);
}

/* --- The thread ------------------------------------------------------------------------------------------------- */

/* Retries a batch of held pages, some of which may no longer be held. Returns the number of pages that left. */
static unsigned evict_held(struct evictor *evictor)
{
	uint64_t pages[TAKE_MAX];
	unsigned count = residents_pop_held(&evictor->core->residents, pages, evictor->batch);

	return count ? evict(evictor, pages, NULL, count) : 0;
}

/* Raises the limit by `high` pages if no memory is free and all resident pages are held. */
static void exceed_budget(struct evictor *evictor)
{
	struct core *core = evictor->core;
	char size[SIZE_TEXT_MAX];

	if (core_free(core) > 0 || residents_count(&core->residents) || core->victims.in_flight ||
	    residents_held(&core->residents) <= evictor->beyond)
		return;
	evictor->beyond += core->high;
	account(evictor);
	if (evictor->told_beyond)
		return;
	evictor->told_beyond = true;
	log_warning("process %d exceeds its --local: %s of its memory cannot leave, because a device holds it "
		    "(O_DIRECT, io_uring, RDMA), or it is read-only, executable or locked",
		    getpid(), size_format((uint64_t)residents_held(&core->residents) * STORE_PAGE, size));
}

static void make_room(struct evictor *evictor)
{
	uint64_t pages[TAKE_MAX];
	bool proven[TAKE_MAX];

	evict_held(evictor);
	while (core_free(evictor->core) < evictor->core->high && !atomic_load(&evictor->core->stop)) {
		unsigned count = residents_pop(&evictor->core->residents, pages, proven, evictor->batch);

		store_moved(evictor);
		if (++evictor->since_account >= ACCOUNT_BATCHES) {
			evictor->since_account = 0;
			/* Retries held pages here, too, because this loop does not end while the program faults as fast
			   as pages leave. */
			evict_held(evictor);
			account(evictor);
		}
		/* If no page could be evicted, all are held, or other threads work on them. The evictor then sleeps
		   for 1 ms, or until a write completes or another thread rings. */
		if (evict(evictor, pages, proven, count) == 0 && (count || evict_held(evictor) == 0)) {
			exceed_budget(evictor);
			struct epoll_event event;
			epoll_wait(evictor->writer.epoll, &event, 1, 1);
			return;
		}
	}
	account(evictor);
}

static void sleep_until_needed(struct evictor *evictor)
{
	struct core *core = evictor->core;

	kick_prepare(&core->evictor_kick);
	bool needed = core_free(core) < core->low || atomic_load(&evictor->request_posted) ||
		      atomic_load(&core->children->answered) || atomic_load(&core->stop);
	if (!needed)
		writer_sleep(&evictor->writer, -1);
	kick_cancel(&core->evictor_kick);
}

static void *run_evictor(void *argument)
{
	struct evictor *evictor = argument;
	struct core *core = evictor->core;

	while (!atomic_load(&core->stop)) {
		if (atomic_load(&evictor->request_posted))
			serve_request(evictor);
		store_moved(evictor);
		if (evictor->since_account >= ACCOUNT_BATCHES) {
			evictor->since_account = 0;
			account(evictor);
		}
		if (core_free(core) < core->low) {
			choose_processor(evictor);
			make_room(evictor);
		}
		writer_poll(&evictor->writer, false);
		if (core_free(core) >= core->low)
			sleep_until_needed(evictor);
	}
	writer_drain(&evictor->writer);
	return NULL;
}

int evictor_open(struct evictor *evictor, struct core *core, void *landing, unsigned batch, bool copies)
{
	*evictor =
	    (struct evictor){.core = core, .writer.epoll = -1, .cpu = -1, .batch = batch < TAKE_MAX ? batch : TAKE_MAX};
	evictor->take.maps = evictor->take.memory = evictor->take.pagemap = -1;
	assert(core->victims.count > 2 * evictor->batch); /* see copy_to_frames() */
	pthread_mutex_init(&evictor->request_lock, NULL);
	pthread_cond_init(&evictor->request_done, NULL);
	int result = take_open(&evictor->take, &core->uffd, core->window, landing, copies);
	return result ? result : writer_open(&evictor->writer, core);
}

/*
 * Returns only when the program is within its budget. A window that already has contents may exceed the budget. The
 * evictor evicts the excess now: later the program would not wait for it, because touching present pages does not
 * fault.
 */
static int open_evictor(void *argument)
{
	struct evictor *evictor = argument;
	struct core *core = evictor->core;
	int result = writer_start(&evictor->writer);

	if (result)
		return result;
	atomic_store(&core->evictor_thread, gettid());
	account(evictor);
	while (core_free(core) < 0)
		make_room(evictor);
	return 0;
}

int evictor_start(struct evictor *evictor)
{
	int result = pager_thread_start(&evictor->thread, "farpage-evict", open_evictor, run_evictor, evictor);

	evictor->running = result == 0;
	return result;
}

void evictor_close(struct evictor *evictor)
{
	if (evictor->running) {
		kick_ring(&evictor->core->evictor_kick);
		pthread_join(evictor->thread, NULL);
	}
	writer_close(&evictor->writer);
	take_close(&evictor->take);
	pthread_mutex_destroy(&evictor->request_lock);
	pthread_cond_destroy(&evictor->request_done);
}
