#include "pager/fetch.h"

#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "pager/anomaly.h"
#include "pager/children.h"
#include "pager/thread.h"
#include "pager/trace.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RUN_PIECE 16u     /* pages per piece of a read-ahead: one piece is placed while the next is in flight */
#define SOON_SHARE 6u     /* a page that more local memory, by this fraction, would have kept here was needed soon */
#define TIME_ANSWERS 256u /* answers between two pager_thread_time() calls, which are system calls */

void fetch_park(struct handler *handler, const struct fault *fault)
{
	struct core *core = handler->core;

	if (handler->parked_count == HANDLER_PARKED) {
		/* The list is full. The thread is woken and faults again. */
		uffd_wake(fault->child ? fault->child->uffd : core->uffd.fd, core_address(core, fault->page),
			  STORE_PAGE);
		return;
	}
	handler->parked[handler->parked_count++] = *fault;
	atomic_store(&core->waiting, handler->parked_count);
}

/* --- Placing pages ---------------------------------------------------------------------------------------------- */

static void move(struct core *core, uint64_t page, enum page_state from, enum page_state to, uint32_t frame)
{
	if (!pages_move(&core->pages, page, from, to, frame)) {
		log_error("page %llu is %s and was to go from %s to %s", (unsigned long long)page,
			  pages_state_name(page_state(pages_load(&core->pages, page))), pages_state_name(from),
			  pages_state_name(to));
		abort();
	}
}

const struct origin fetch_from_donor = {PAGE_FETCHING, PAGE_FAR, 0};
const struct origin fetch_from_nowhere = {PAGE_FILLING, PAGE_UNTOUCHED, 0};
const struct origin fetch_resident = {PAGE_FILLING, PAGE_UNTOUCHED, 0};

/* While a page is fetched, its word keeps the stamp (refault.h), because the page is far again if the read fails. */
static uint32_t stamp_of(const struct core *core, uint64_t page)
{
	return page_frame(pages_load(&core->pages, page));
}

/* Records that a far page has come back. Returns true if it should enter the proven queue: it was needed soon after it
   had left, or it is kept in a loop. */
static bool is_proven(struct core *core, uint64_t page)
{
	uint32_t stamp = stamp_of(core, page);
	uint64_t depth = refault_record(&core->refault, stamp);

	if (loop_note(&core->loop, depth))
		return loop_keeps(page, stamp);
	return SOON_SHARE * depth < (uint64_t)atomic_load_explicit(&core->limit, memory_order_relaxed);
}

static void placed(struct core *core, uint64_t page, uint32_t count, const struct origin *origin)
{
	if (count && origin == &fetch_resident)
		anomaly_dropped(core);
	for (uint32_t i = 0; i < count; i++) {
		bool proven =
		    origin->from == PAGE_RETURNING || (origin->from == PAGE_FETCHING && is_proven(core, page + i));

		move(core, page + i, origin->from, PAGE_RESIDENT, 0);
		residents_push(&core->residents, page + i, proven);
	}
}

/* Moves pages back to their earlier state. A thread that waits for one of them faults again, and the kernel then
   sends the signal for an unmapped page. */
static void not_placed(struct core *core, uint64_t page, uint32_t count, const struct origin *origin)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t frame = origin->from == PAGE_FETCHING ? stamp_of(core, page + i) : origin->frame;

		move(core, page + i, origin->from, origin->otherwise, frame);
	}
	uffd_wake(core->uffd.fd, core_address(core, page), (size_t)count * STORE_PAGE);
	core_release(core, count);
}

/* Handles a page that could not be placed, because it is already present. */
static void already_there(struct core *core, uint64_t page, const struct origin *origin)
{
	if (origin->from != PAGE_FILLING)
		anomaly_stop(core, page, "is here, and was to come from elsewhere");
	move(core, page, origin->from, PAGE_RESIDENT, 0);
	residents_push(&core->residents, page, false);
	uffd_wake(core->uffd.fd, core_address(core, page), STORE_PAGE);
}

/* Places @count pages from @page on, as fetch_place() says. If they are zeroes and not all in one mapping, places only
   @demanded, and moves the others back. */
static void place(struct handler *handler, uint64_t page, const char *data, uint32_t count, const struct origin *origin,
		  uint64_t demanded)
{
	struct core *core = handler->core;
	/* One UFFDIO_COPY cannot cross the end of a mapping. After a failure the pages are placed one by one. */
	uint32_t at_once = count;

	fetch_send(handler);
	for (uint32_t done = 0; done < count;) {
		size_t bytes = 0;
		uint32_t length = count - done < at_once ? count - done : at_once;

		if (origin != &fetch_resident)
			for (uint32_t i = 0; i < length; i++)
				trace_compare(core, page + done + i, data + (size_t)(done + i) * STORE_PAGE,
					      "comes back with other contents than it left with");
		char *to = core_address(core, page + done);
		int result =
		    uffd_copy(core->uffd.fd, to, data + (size_t)done * STORE_PAGE, (size_t)length * STORE_PAGE, &bytes);
		uint32_t copied = (uint32_t)(bytes / STORE_PAGE);
		placed(core, page + done, copied, origin);
		done += copied;
		if (result == 0)
			continue;
		if (result == -EAGAIN) {
			handler->drain(handler); /* a fork is in progress until the handler has read its event */
		} else if (result == -EEXIST) {
			already_there(core, page + done, origin);
			done++;
		} else if (at_once > 1) {
			at_once = 1;
			if (origin->from == PAGE_FILLING) {
				uint32_t wanted = (uint32_t)(demanded - page), end = done > wanted ? done : wanted + 1;

				not_placed(core, page + end, count - end, origin);
				count = end;
				if (done < wanted) {
					not_placed(core, page + done, wanted - done, origin);
					done = wanted;
				}
			}
		} else {
			not_placed(core, page + done, 1, origin);
			done++;
		}
	}
}

void fetch_place(struct handler *handler, uint64_t page, const char *data, uint32_t count, const struct origin *origin)
{
	place(handler, page, data, count, origin, page);
}

void fetch_place_zeroes(struct handler *handler, uint64_t page, uint32_t count, uint64_t demanded)
{
	place(handler, page, handler->zeroes, count, &fetch_from_nowhere, demanded);
}

/* Marks the pages of a failed demanded read as lost. Touching them raises SIGBUS. */
static void lose(struct handler *handler, const struct fetch *fetch, int status)
{
	struct core *core = handler->core;

	for (uint32_t i = 0; i < fetch->count; i++) {
		uint64_t page = fetch->fault.page + i;

		if (core_count(&core->counters->lost, 1), __atomic_load_n(&core->counters->lost, __ATOMIC_RELAXED) == 1)
			log_error("memory at %p of process %d is lost (%s): touching it raises SIGBUS",
				  (void *)core_address(core, page), getpid(), format_errno(status));
		refault_forget(&core->refault, stamp_of(core, page));
		move(core, page, PAGE_FETCHING, PAGE_LOST, 0);
		if (uffd_poison(&core->uffd, core->uffd.fd, core_address(core, page), STORE_PAGE) &&
		    fetch->fault.thread)
			syscall(SYS_tgkill, getpid(), fetch->fault.thread, SIGBUS);
	}
	core_release(core, fetch->count);
}

/* --- Answers of the store --------------------------------------------------------------------------------------- */

static void free_fetch(struct handler *handler, unsigned slot)
{
	struct fetch *fetch = &handler->fetches[slot];

	handler->in_flight--;
	if (fetch->group)
		handler->group_pending[fetch->group - 1] -= fetch->count;
	else
		handler->free_demands[handler->free_demand_count++] = (uint16_t)slot;
	fetch->count = 0; /* fetch_comes() must not find it any more */
}

/* Undoes a read-ahead that failed. The pages are not marked as lost, because a demanded read may still succeed. */
static void give_up_ahead(struct handler *handler, const struct fetch *fetch)
{
	struct core *core = handler->core;

	for (uint32_t i = 0; i < fetch->count; i++) {
		move(core, fetch->fault.page + i, PAGE_FETCHING, PAGE_FAR, stamp_of(core, fetch->fault.page + i));
		uffd_wake(core->uffd.fd, core_address(core, fetch->fault.page + i), STORE_PAGE);
	}
	core_release(core, fetch->count);
}

/* Ends a read for a child. Returns true if the child still lives. */
static bool end_child_read(struct core *core, const struct fetch *fetch, int status)
{
	atomic_fetch_sub(&core->children->reads, 1);
	if (!status)
		core_count(&core->counters->fetched, fetch->count);
	for (uint32_t i = 0; i < fetch->count; i++)
		shadows_drop(&core->shadows, fetch->home + i);
	return children_has(fetch->fault.child, fetch->fault.born);
}

static void answer_child(struct handler *handler, const struct fetch *fetch, const char *data, int status)
{
	struct core *core = handler->core;
	struct children *children = core->children;
	const struct fault *fault = &fetch->fault;
	uint64_t home;

	if (!end_child_read(core, fetch, status))
		return; /* the child has ended */
	if (children_look(children, fault->child, fault->page, &home) != CHILD_FAR) {
		/* The child has the page, or other memory there. */
		uffd_wake(fault->child->uffd, core_address(core, fault->page), STORE_PAGE);
		return;
	}
	shadows_drop(&core->shadows, home);
	int result = home != fetch->home ? -EAGAIN
		     : status            ? children_deny(children, fault->child, fault->page, "is lost with its donor")
					 : children_answer(children, fault->child, fault->page, data, !fault->write);
	if (result == -EAGAIN)
		fetch_park(handler, fault);
	else if (!status && fault->started)
		histogram_record(&core->counters->fault_ns, clock_now() - fault->started);
}

/* Places a read-ahead in a child. Pages that cannot be placed now stay far. */
static void answer_child_ahead(struct handler *handler, const struct fetch *fetch, const char *data, int status)
{
	struct core *core = handler->core;
	struct child *child = fetch->fault.child;

	if (!end_child_read(core, fetch, status))
		return;
	for (uint32_t i = 0; i < fetch->count; i++) {
		uint64_t page = fetch->fault.page + i;

		if (status ||
		    !children_offer(core->children, child, page, fetch->home + i, data + (size_t)i * STORE_PAGE))
			uffd_wake(child->uffd, core_address(core, page), STORE_PAGE);
	}
}

static void fetched(struct handler *handler, const struct store_done *done)
{
	struct core *core = handler->core;
	unsigned slot = (unsigned)done->cookie;
	struct fetch *fetch = &handler->fetches[slot];
	const char *data = handler->frames + (size_t)fetch->frame * STORE_PAGE;

	if (fetch->fault.child) {
		(fetch->group ? answer_child_ahead : answer_child)(handler, fetch, data, done->status);
	} else if (done->status == 0) {
		fetch_place(handler, fetch->fault.page, data, fetch->count, &fetch_from_donor);
		if (fetch->group == 0)
			histogram_record(&core->counters->fault_ns, clock_now() - fetch->fault.started);
		core_count(&core->counters->fetched, fetch->count);
	} else if (fetch->group) {
		give_up_ahead(handler, fetch);
	} else {
		lose(handler, fetch, done->status);
	}
	free_fetch(handler, slot);
	if (++handler->since_time == TIME_ANSWERS) {
		handler->since_time = 0;
		pager_thread_time(&core->counters->handler_user_ns);
	}
}

/* Removes the first answer from the handler's list. While a fork is recorded, skips answers for the program
   (keeps_back). Returns false if there is none. */
static bool next_answer(struct handler *handler, struct store_done *ret_done)
{
	for (unsigned i = 0; i < handler->answer_count; i++) {
		*ret_done = handler->answers[i];
		if (handler->keeps_back && !handler->fetches[ret_done->cookie].fault.child)
			continue;
		handler->answer_count--;
		memmove(&handler->answers[i], &handler->answers[i + 1],
			(handler->answer_count - i) * sizeof handler->answers[0]);
		return true;
	}
	return false;
}

unsigned fetch_poll(struct handler *handler)
{
	unsigned answered = 0;
	struct store_done done;

	fetch_send(handler);
	/* Answers are stored in the handler, because fetched() can call fetch_poll() again and wait for one of
	   them. */
	int count = store_poll(handler->queue, handler->answers + handler->answer_count, HANDLER_POLL);

	handler->answer_count += count > 0 ? (unsigned)count : 0;
	for (; next_answer(handler, &done); answered++)
		fetched(handler, &done);
	return answered;
}

/* --- Reading ---------------------------------------------------------------------------------------------------- */

static void stage(struct handler *handler, unsigned slot)
{
	struct fetch *fetch = &handler->fetches[slot];
	struct store_io io = {
	    .op = STORE_READ,
	    .count = fetch->count,
	    .page = fetch->home,
	    .data = handler->frames + (size_t)fetch->frame * STORE_PAGE,
	    .buffer = handler->buffer,
	    .cookie = slot,
	};

	assert(handler->staged_count < HANDLER_FETCHES);
	handler->staged[handler->staged_count++] = io;
	handler->in_flight++;
}

void fetch_send(struct handler *handler)
{
	store_submit_staged(handler->queue, handler->staged, &handler->staged_count);
}

bool fetch_begin(struct core *core, uint64_t page)
{
	/* Only this thread makes pages resident. So if the page is far now and at the move, it was not resident in
	   between. */
	uint32_t word = pages_load(&core->pages, page);

	return page_state(word) == PAGE_FAR &&
	       pages_move(&core->pages, page, PAGE_FAR, PAGE_FETCHING, page_frame(word));
}

void fetch_claim_first(struct handler *handler)
{
	struct core *core = handler->core;
	unsigned char in_core = 0;
	bool is_pinned = mincore(handler->frames, STORE_PAGE, &in_core) == 0 && in_core & 1;

	handler->demands_used = is_pinned ? handler->demands : 1;
	handler->groups_used = is_pinned ? HANDLER_RUNS : 0;
	atomic_store(&core->frames, is_pinned ? handler->frame_count : 1);
	atomic_fetch_add(&core->resident, atomic_load(&core->frames));
}

/* Claims memory for @count more frames, so that at least @spare pages of the budget stay free. Returns false if less
   is free. */
static bool claim_frames(struct core *core, unsigned count, int64_t spare)
{
	int64_t claimed = core_claim(core, count, spare);

	if (claimed < count) {
		core_release(core, claimed);
		return false;
	}
	atomic_fetch_add(&core->frames, count);
	return true;
}

bool fetch_has_frame(struct handler *handler)
{
	if (handler->free_demand_count == 0)
		return false;
	if (handler->demands - handler->free_demand_count < handler->demands_used)
		return true;
	if (!claim_frames(handler->core, 1, 0))
		return false;
	handler->demands_used++;
	return true;
}

void fetch_page(struct handler *handler, const struct fault *fault, uint64_t home)
{
	while (!fetch_has_frame(handler))
		fetch_poll(handler);
	unsigned slot = handler->free_demands[--handler->free_demand_count];
	handler->fetches[slot] = (struct fetch){.fault = *fault, .home = home, .frame = slot, .count = 1};
	stage(handler, slot);
}

/* Returns a group of frames that is free and has memory, or HANDLER_RUNS if there is none. */
static unsigned free_group(struct handler *handler)
{
	struct core *core = handler->core;
	unsigned group = 0;

	while (group < HANDLER_RUNS && handler->group_pending[group])
		group++;
	if (group == handler->groups_used && group < HANDLER_RUNS) {
		if (!claim_frames(core, handler->ahead, core->low / 2))
			return HANDLER_RUNS;
		handler->groups_used++;
	}
	return group;
}

/* Reads the pages @ahead of the page of @fault into the frames of @group, the nearest piece first. Their contents are
   @ahead of @home. */
static void stage_group(struct handler *handler, unsigned group, const struct fault *fault, uint64_t home,
			struct ahead ahead)
{
	uint32_t first = handler->demands + group * handler->ahead;

	assert(ahead.count <= handler->ahead); /* the number of frames in a group */
	fetch_send(handler);                   /* the demanded page must not wait until the donor has read all these */
	handler->group_pending[group] = (uint16_t)ahead.count;
	for (unsigned done = 0; done < ahead.count; done += RUN_PIECE) {
		unsigned piece = ahead.count - done < RUN_PIECE ? ahead.count - done : RUN_PIECE, slot = first + done;
		/* the lowest page of the piece */
		int64_t offset = ahead.step > 0 ? (int64_t)done + 1 : -(int64_t)(done + piece);
		struct fetch *fetch = &handler->fetches[slot];

		*fetch = (struct fetch){.fault = *fault,
					.home = home + (uint64_t)offset,
					.frame = slot,
					.count = (uint16_t)piece,
					.group = (uint8_t)(group + 1)};
		fetch->fault.page += (uint64_t)offset;
		stage(handler, slot);
	}
	core_count(&handler->core->counters->prefetched, ahead.count);
}

unsigned fetch_ahead(struct handler *handler, uint64_t page, struct ahead ahead)
{
	struct core *core = handler->core;
	const struct fault fault = {.page = page};
	unsigned group = free_group(handler), count = 0;

	if (group == HANDLER_RUNS)
		return 0;
	unsigned claimed = (unsigned)core_claim(core, ahead_within(ahead, page, core->pages.count), core->low / 2);
	while (count < claimed && fetch_begin(core, ahead_page(ahead, page, count)))
		count++;
	core_release(core, claimed - count);
	ahead.count = count;
	stage_group(handler, group, &fault, page, ahead);
	return count;
}

/* Returns true if the contents of the far @page of @child are at @home and can be read now. The caller then is a user
   of @home. */
static bool is_readable_at(struct children *children, const struct child *child, uint64_t page, uint64_t home)
{
	uint64_t found;

	if (children_look(children, child, page, &found) != CHILD_FAR)
		return false;
	if (found == home && children_may_read(children, home))
		return true;
	shadows_drop(&children->core->shadows, found);
	return false;
}

unsigned fetch_ahead_for_child(struct handler *handler, const struct fault *fault, uint64_t home, struct ahead ahead)
{
	struct children *children = handler->core->children;
	const unsigned most = ahead_within(ahead, fault->page, handler->core->pages.count);
	unsigned group = free_group(handler), count = 0;

	if (group == HANDLER_RUNS)
		return 0;
	atomic_fetch_add(&children->reads, 1); /* before children_may_read() */
	while (count < most && is_readable_at(children, fault->child, ahead_page(ahead, fault->page, count),
					      ahead_page(ahead, home, count)))
		count++;
	atomic_fetch_add(&children->reads, (count + RUN_PIECE - 1) / RUN_PIECE);
	ahead.count = count;
	stage_group(handler, group, fault, home, ahead);
	atomic_fetch_sub(&children->reads, 1);
	return count;
}

bool fetch_comes(const struct handler *handler, const struct child *child, uint64_t page)
{
	for (unsigned group = 0; group < HANDLER_RUNS; group++) {
		unsigned first = handler->demands + group * handler->ahead;

		for (unsigned done = 0; handler->group_pending[group] && done < handler->ahead; done += RUN_PIECE) {
			const struct fetch *fetch = &handler->fetches[first + done];

			if (fetch->fault.child == child && fetch->fault.born == child->born &&
			    page - fetch->fault.page < fetch->count)
				return true;
		}
	}
	return false;
}
