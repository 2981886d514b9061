#include "pager/faults.h"

#include "common/log.h"
#include "pager/children.h"
#include "pager/fetch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOST_TIMES 1000u /* the process is killed after this many faults in a row on a lost page */

/* --- Faults of the program -------------------------------------------------------------------------------------- */

/* Claims untouched pages ahead of @page, which shall be filled, too. Returns their number. */
static unsigned claim_untouched(struct handler *handler, uint64_t page, struct ahead ahead)
{
	struct core *core = handler->core;
	unsigned claimed = (unsigned)core_claim(core, ahead_within(ahead, page, core->pages.count), core->low);
	unsigned count = 0;

	while (count < claimed && window_has(core->window, ahead_page(ahead, page, count)) &&
	       pages_move(&core->pages, ahead_page(ahead, page, count), PAGE_UNTOUCHED, PAGE_FILLING, 0))
		count++;
	core_release(core, claimed - count);
	return count;
}

/* Fills an untouched page with zeroes. If the program touches pages in order, fills the next pages, too. Returns false
   if the budget has no free page. */
static bool fill_zeroes(struct handler *handler, uint64_t page)
{
	struct core *core = handler->core;

	if (core_claim(core, 1, 0) == 0)
		return false;
	if (!pages_move(&core->pages, page, PAGE_UNTOUCHED, PAGE_FILLING, 0)) {
		core_release(core, 1);
		uffd_wake(core->uffd.fd, core_address(core, page), STORE_PAGE);
		return true;
	}
	struct ahead ahead = streams_note(&handler->new_streams, page);
	unsigned count = ahead.count ? claim_untouched(handler, page, ahead) : 0;
	streams_extend(&handler->new_streams, count);
	fetch_place_zeroes(handler, ahead.step < 0 ? page - count : page, 1 + count, page);
	return true;
}

static bool bring_back(struct handler *handler, uint64_t page, uint32_t word)
{
	struct core *core = handler->core;

	if (core_claim(core, 1, 0) == 0)
		return false;
	uint32_t frame = page_frame(word);
	if (!pages_move_from(&core->pages, page, word, PAGE_RETURNING, frame)) {
		core_release(core, 1);
		uffd_wake(core->uffd.fd, core_address(core, page), STORE_PAGE); /* the thread faults again */
		return true;
	}
	core_count(&core->counters->faults_buffered, 1);
	const struct origin from_buffer = {PAGE_RETURNING, PAGE_BUFFERED, frame};
	fetch_place(handler, page, victims_frame(&core->victims, frame), 1, &from_buffer);
	return true;
}

static bool bring_in(struct handler *handler, const struct fault *fault)
{
	struct core *core = handler->core;
	const uint64_t page = fault->page;

	if (core_claim(core, 1, 0) == 0)
		return false;
	if (!fetch_begin(core, page)) {
		core_release(core, 1);
		uffd_wake(core->uffd.fd, core_address(core, page), STORE_PAGE);
		return true;
	}
	core_count(&core->counters->faults_far, 1);
	fetch_page(handler, fault, page);
	struct ahead ahead = streams_note(&handler->far_streams, page);
	if (ahead.count)
		streams_extend(&handler->far_streams, fetch_ahead(handler, page, ahead));
	return true;
}

/* Resolves a fault on a page whose state is resident. Usually the handler has placed the page since the fault, for
   another thread; the page then keeps its contents. If the page is absent, something dropped it without farpage's
   knowledge (anomaly.h). The page is then filled with zeroes. PAGE_FILLING prevents the evictor from taking the page
   meanwhile. */
static void resolve_resident(struct handler *handler, uint64_t page)
{
	struct core *core = handler->core;

	if (pages_move(&core->pages, page, PAGE_RESIDENT, PAGE_FILLING, 0))
		fetch_place(handler, page, handler->zeroes, 1, &fetch_resident);
	else
		uffd_wake(core->uffd.fd, core_address(core, page), STORE_PAGE);
}

/* Answers a fault on a lost page with SIGBUS: by poison, or by a signal if the kernel cannot poison (before Linux
   6.6). A thread that faults inside a system call does not act on the signal, and faults again at once. After
   LOST_TIMES such faults the process is killed. */
static void refuse_lost(struct handler *handler, uint64_t page, pid_t thread)
{
	struct core *core = handler->core;

	if (uffd_poison(&core->uffd, core->uffd.fd, core_address(core, page), STORE_PAGE) == 0)
		return;
	if (handler->lost_page != page || handler->lost_thread != thread)
		handler->lost_times = 0;
	handler->lost_page = page;
	handler->lost_thread = thread;
	if (++handler->lost_times < LOST_TIMES) {
		syscall(SYS_tgkill, getpid(), thread, SIGBUS);
		return;
	}
	log_error("a system call of process %d needs memory at %p, which is lost: the process is stopped", getpid(),
		  (void *)core_address(core, page));
	kill(getpid(), SIGKILL);
}

/* Answers or parks a fault. Returns false if the fault was parked because the budget has no free page. */
static bool answer(struct handler *handler, const struct fault *fault)
{
	struct core *core = handler->core;
	const uint64_t page = fault->page;
	uint32_t word = pages_load(&core->pages, page);
	bool had_room = true;

	switch (page_state(word)) {
	case PAGE_UNTOUCHED:
		had_room = fill_zeroes(handler, page);
		break;
	case PAGE_BUFFERED:
		had_room = bring_back(handler, page, word);
		break;
	case PAGE_FAR:
		had_room = bring_in(handler, fault);
		break;
	case PAGE_RESIDENT:
		resolve_resident(handler, page);
		break;
	case PAGE_FETCHING:
	case PAGE_FILLING:
	case PAGE_RETURNING:
		break; /* the thread that works on the page will wake all threads that wait for it */
	case PAGE_EVICTING:
		if (fault->thread == atomic_load(&core->evictor_thread))
			uffd_copy(core->uffd.fd, core_address(core, page), handler->zeroes, STORE_PAGE, NULL);
		else
			fetch_park(handler, fault);
		break;
	case PAGE_DISCARDING:
		fetch_park(handler, fault);
		break;
	case PAGE_LOST:
		refuse_lost(handler, page, fault->thread);
		break;
	case PAGE_STATES:
		break;
	}
	if (!had_room)
		fetch_park(handler, fault);
	return had_room;
}

void faults_answer(struct handler *handler, const struct fault *fault)
{
	/* A fault counts as a stall only once, because faults_retry() calls answer() directly. */
	if (!answer(handler, fault))
		core_count(&handler->core->counters->stalls, 1);
}

/* --- Faults of children ----------------------------------------------------------------------------------------- */

/* Children access pages of one window, so the streams of a child are those with its serial number. */
static uint64_t stream_page(const struct fault *fault)
{
	return (uint64_t)fault->born << 40 | fault->page;
}

static void read_ahead_for_child(struct handler *handler, const struct fault *fault, uint64_t home)
{
	struct ahead ahead = streams_note(&handler->child_streams, stream_page(fault));

	if (ahead.count)
		streams_extend(&handler->child_streams, fetch_ahead_for_child(handler, fault, home, ahead));
}

static void fill_ahead_for_child(struct handler *handler, const struct fault *fault)
{
	struct streams *streams = &handler->child_new_streams;
	struct ahead ahead = streams_note(streams, stream_page(fault));

	if (ahead.count)
		streams_extend(streams, children_fill_ahead(handler->core->children, fault->child, fault->page, ahead,
							    handler->zeroes));
}

void faults_answer_child(struct handler *handler, const struct fault *fault)
{
	struct core *core = handler->core;
	struct child *child = fault->child;
	const uint64_t page = fault->page;
	uint64_t home;

	child->pid = fault->thread;
	if (fetch_comes(handler, child, page))
		return;
	enum child_fault kind = children_look(core->children, child, page, &home);
	if (kind != CHILD_FAR) {
		fetch_send(handler);
		int result = kind == CHILD_ASKED  ? -EAGAIN
			     : kind == CHILD_LOST ? children_deny(core->children, child, page, "could not be kept")
						  : children_answer(core->children, child, page, NULL, false);
		if (result == -EAGAIN)
			fetch_park(handler, fault);
		else if (kind == CHILD_ZEROES)
			fill_ahead_for_child(handler, fault);
		return;
	}
	/* fetch_page() would wait for a free frame. But while the handler keeps the program's pages back, the frames of
	   the program's reads do not become free. */
	bool can_read = !handler->keeps_back || fetch_has_frame(handler);
	/* The evictor first takes the page and sets `held_back`, then checks `reads`. This thread first adds to
	   `reads`, then checks the page and `held_back`. So at least one of the two sees the other. */
	atomic_fetch_add(&core->children->reads, 1);
	if (!can_read || !children_may_read(core->children, home)) {
		atomic_fetch_sub(&core->children->reads, 1);
		shadows_drop(&core->shadows, home);
		fetch_park(handler, fault);
	} else {
		core_count(&core->counters->faults_far, 1);
		fetch_page(handler, fault, home);
		if (!handler->keeps_back)
			read_ahead_for_child(handler, fault, home);
	}
}

void faults_retry(struct handler *handler)
{
	struct core *core = handler->core;
	struct fault parked[64];

	handler->settlements = atomic_load(&core->settlements);
	/* Tries each fault once. A fault that is parked again goes to the end of the list. */
	for (unsigned left = handler->parked_count; left;) {
		unsigned count = left < 64 ? left : 64;

		memcpy(parked, handler->parked, count * sizeof parked[0]);
		handler->parked_count -= count;
		memmove(handler->parked, handler->parked + count, handler->parked_count * sizeof parked[0]);
		atomic_store(&core->waiting, handler->parked_count);
		left -= count;
		for (unsigned i = 0; i < count; i++) {
			const struct fault *it = &parked[i];

			if (it->child && children_has(it->child, it->born))
				faults_answer_child(handler, it);
			else if (!it->child)
				answer(handler, it);
		}
	}
}
