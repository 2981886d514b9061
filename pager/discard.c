#include "pager/discard.h"

#include "pager/children.h"
#include "pager/keep.h"
#include "pager/trace.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#define PORTION 512u /* most pages that are PAGE_DISCARDING at once */

/* Waits until no other thread works on @page, then moves the page to PAGE_DISCARDING. Leaves an untouched page alone.
   Returns the state before. */
static enum page_state hold(struct core *core, uint64_t page)
{
	for (unsigned tries = 0;; tries++) {
		uint32_t word = pages_load(&core->pages, page);
		enum page_state state = page_state(word);

		switch (state) {
		case PAGE_UNTOUCHED:
			return state;
		case PAGE_RESIDENT:
		case PAGE_BUFFERED:
		case PAGE_FAR:
		case PAGE_LOST:
			/* Moves the page only if its word is unchanged. Since the load, the page may have left and
			   returned, with a write still in flight. */
			if ((word & PAGE_WRITING) || !pages_move_from(&core->pages, page, word, PAGE_DISCARDING, 0))
				break;
			if (state == PAGE_FAR)
				refault_forget(&core->refault, page_frame(word));
			return state;
		default:
			break; /* another thread works on the page, for microseconds or until a donor answers */
		}
		if (tries < 100)
			sched_yield();
		else
			usleep(50);
	}
}

struct held {
	uint8_t state[PORTION];
	unsigned count, resident, any;
};

static void hold_portion(struct core *core, uint64_t page, unsigned count, struct held *held)
{
	*held = (struct held){.count = count};
	for (unsigned i = 0; i < count; i++) {
		held->state[i] = (uint8_t)hold(core, page + i);
		held->any |= held->state[i] != PAGE_UNTOUCHED;
		held->resident += held->state[i] == PAGE_RESIDENT;
	}
}

/* Discards the donors' contents of the held pages, except contents that a forked child may still read. Returns true if
   it skipped any. children.c discards the skipped contents when the last child has ended. */
static bool forget_far(struct core *core, uint64_t page, const struct held *held)
{
	bool any_kept = false;

	for (unsigned i = 0, length; i < held->count; i += length) {
		length = 1;
		if (held->state[i] == PAGE_UNTOUCHED)
			continue;
		if (pages_load(&core->pages, page + i) & PAGE_SNAPSHOT) {
			any_kept = true;
			continue;
		}
		while (i + length < held->count && held->state[i + length] != PAGE_UNTOUCHED &&
		       !(pages_load(&core->pages, page + i + length) & PAGE_SNAPSHOT))
			length++;
		store_discard(core->store, page + i, length);
	}
	return any_kept;
}

/* If the last child has ended meanwhile, discards the contents that forget_far() has skipped. children.c has skipped
   them, too, because their pages were PAGE_DISCARDING. */
static void forget_swept(struct core *core, uint64_t page, unsigned count)
{
	for (uint64_t end = page + count; page < end; page++) {
		if (pages_load(&core->pages, page) & PAGE_SNAPSHOT)
			continue;
		if (!pages_move(&core->pages, page, PAGE_UNTOUCHED, PAGE_DISCARDING, 0))
			continue; /* the page is in use again; its next write replaces the contents */
		store_discard(core->store, page, 1);
		pages_move(&core->pages, page, PAGE_DISCARDING, PAGE_UNTOUCHED, 0);
	}
}

static void discard_portion(struct core *core, uint64_t page, unsigned count)
{
	struct held held;

	hold_portion(core, page, count, &held);
	/* Drops untouched pages, too. Some may be present, because other memory is mapped over them, or because they
	   were filled ahead. */
	madvise(core_address(core, page), (size_t)count * STORE_PAGE, MADV_DONTNEED);
	if (!held.any)
		return;
	bool any_kept = forget_far(core, page, &held);
	for (unsigned i = 0; i < count; i++)
		if (held.state[i] != PAGE_UNTOUCHED) {
			trace_left(page + i, NULL);
			keep_forget(core, page + i);
			pages_move(&core->pages, page + i, PAGE_DISCARDING, PAGE_UNTOUCHED, 0);
		}
	if (any_kept)
		forget_swept(core, page, count);
	core_release(core, held.resident);
	core_settled(core);
}

/* Waits while the handler takes snapshots. A forked child needs the pages that were far at the fork. So nobody may
   discard these pages before the child's snapshot has them. */
static void await_forks(const struct core *core)
{
	uint64_t looks = atomic_load(&core->looks);

	while (looks & 1 && atomic_load(&core->looks) == looks)
		sched_yield();
}

void discard_pages(struct core *core, uint64_t page, uint64_t count)
{
	await_forks(core);
	for (uint64_t end = page + count; (page = pages_next_known(&core->pages, page, end)) < end;) {
		unsigned portion = end - page < PORTION ? (unsigned)(end - page) : PORTION;

		discard_portion(core, page, portion);
		page += portion;
	}
}
