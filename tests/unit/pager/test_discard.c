/* discard: discarded pages read as zeroes, whatever their state was and whoever works on them. */
#include "core_over.h"
#include "pager/discard.h"
#include "tests/lib/sanitizers.h"

#include <errno.h>
#include <sched.h>

enum { PAGES = 1024, LIMIT = 1024 };

static struct core_over over;
static struct core *const core = &over.core;

/* The store's operations, with a discard that looks at the pages. */
static struct store_ops ops;
static const struct store_ops *inner;
static _Atomic unsigned unsafe;

/* Counts pages that another thread could write or bring in during the discard. */
static void watched_discard(struct store *store, uint64_t page, uint64_t count)
{
	for (uint64_t i = page; i < page + count; i++) {
		uint32_t word = pages_load(&core->pages, i);

		unsafe += page_state(word) != PAGE_DISCARDING || word & PAGE_WRITING;
	}
	inner->discard(store, page, count);
}

static void begin(void)
{
	if (core_over_open(&over, PAGES, LIMIT))
		tap_bail("no userfaultfd");
	inner = core->store->ops;
	ops = *inner;
	ops.discard = watched_discard;
	core->store->ops = &ops;
	unsafe = 0;
}

static void end(void)
{
	core->store->ops = inner;
	core_over_close(&over);
}

/* Returns how many of @count pages from @page on are untouched, and not in memory. */
static unsigned empty(uint64_t page, unsigned count)
{
	unsigned found = 0;

	for (uint64_t end_page = page + count; page < end_page; page++)
		found += state_of(&core->pages, page) == PAGE_UNTOUCHED && !core_has(&over, page);
	return found;
}

static void settled_pages_become_untouched(void)
{
	static const enum page_state settled[] = {PAGE_UNTOUCHED, PAGE_RESIDENT, PAGE_BUFFERED,
						  PAGE_FAR,       PAGE_LOST,     PAGE_RESIDENT};

	enum { COUNT = sizeof settled / sizeof *settled };
	begin();
	for (unsigned i = 0; i < 3 * COUNT; i++)
		core_make(&over, i, settled[i % COUNT], 'd');
	uint64_t settlements = core->settlements;
	discard_pages(core, COUNT, COUNT);
	ok(empty(COUNT, COUNT) == COUNT, "pages in every settled state are untouched after a discard (%u of %u)",
	   empty(COUNT, COUNT), COUNT);
	unsigned same = 0;
	for (unsigned i = 0; i < 3 * COUNT; i++)
		same += i / COUNT != 1 && state_of(&core->pages, i) == settled[i % COUNT] &&
			(settled[i % COUNT] != PAGE_RESIDENT || core_address(core, i)[99] == 'd');
	ok(same == 2 * COUNT, "the pages before and behind a discarded range stay as they were (%u of %u)", same,
	   2 * COUNT);
	ok(core_stored(&over) == 4, "the store has no discarded page any more (%u)", (unsigned)core_stored(&over));
	ok(core->resident == 4, "a discard releases the room of resident pages (%d)", (int)core->resident);
	ok(core->settlements > settlements, "a discard tells the handler that pages have settled");
	ok(!unsafe, "no page that is not held is discarded in the store");

	for (unsigned page = 100; page < 1000; page++)
		core_make(&over, page, PAGE_FAR, 'l');
	int64_t far = core_far(&over);
	discard_pages(core, 100, 900);
	ok(far - core_far(&over) == 900, "far pages that are discarded no longer count as far");
	ok(empty(100, 900) == 900 && core_stored(&over) == 4, "a long range is discarded without gaps (%u of 900)",
	   empty(100, 900));
	core_make(&over, 500, PAGE_RESIDENT, 'a');
	core_place(&over, 501, 'a');
	core_make(&over, 502, PAGE_FAR, 'a');
	discard_pages(core, 500, 3);
	ok(empty(500, 3) == 3, "a discard drops an untouched page that is present between others");
	end();
}

static void marks_are_honoured(void)
{
	begin();
	core_make(&over, 0, PAGE_FAR, 's');
	core_make(&over, 1, PAGE_FAR, 's');
	pages_mark(&core->pages, 1, PAGE_SNAPSHOT);
	core_make(&over, 2, PAGE_RESIDENT, 'k');
	pages_mark(&core->pages, 2, PAGE_KEPT);
	core->kept = 1;
	discard_pages(core, 0, 3);
	ok(core_stored(&over) == 1 && empty(0, 3) == 3,
	   "the store keeps only the page that a forked child may ask for");
	ok(pages_load(&core->pages, 1) & PAGE_SNAPSHOT, "a discarded page keeps the mark of a forked child");
	ok(!(pages_load(&core->pages, 2) & PAGE_KEPT) && core->kept == 0, "a discarded page is not kept any more");
	end();
}

struct range {
	uint64_t page, count;
	pthread_t thread;
};

static void *discard(void *argument)
{
	struct range *range = argument;

	discard_pages(core, range->page, range->count);
	return NULL;
}

static void start(struct range *range)
{
	if (pthread_create(&range->thread, NULL, discard, range))
		tap_bail("no thread");
}

/* Page 0 shows that the discard has begun. Until then another thread owns page 1. */
static void a_discard_waits_for_pages_in_transit(void)
{
	static const struct {
		enum page_state state, next;
	} transits[] = {{PAGE_EVICTING, PAGE_FAR},
			{PAGE_EVICTING, PAGE_RESIDENT},
			{PAGE_RETURNING, PAGE_RESIDENT},
			{PAGE_FETCHING, PAGE_RESIDENT},
			{PAGE_FILLING, PAGE_RESIDENT}};
	for (unsigned i = 0; i < sizeof transits / sizeof *transits; i++) {
		struct range range = {.count = 3};

		begin();
		core_make(&over, 0, PAGE_RESIDENT, 'p');
		core_make(&over, 1, transits[i].state, 'p');
		core_make(&over, 2, PAGE_FAR, 'p');
		start(&range);
		while (state_of(&core->pages, 0) == PAGE_RESIDENT)
			sched_yield();
		if (transits[i].next == PAGE_RESIDENT && !core_has(&over, 1))
			core_place(&over, 1, 'p');
		if (transits[i].state != PAGE_EVICTING)
			core_claim(core, 1, 0);
		bool mine = pages_move(&core->pages, 1, transits[i].state, transits[i].next, 0);
		if (transits[i].next == PAGE_FAR)
			core_release(core, 1);
		pthread_join(range.thread, NULL);
		ok(mine && empty(0, 3) == 3, "a discard waits until a page that is %s is %s, and drops the page then",
		   pages_state_name(transits[i].state), pages_state_name(transits[i].next));
		ok(core->resident == 0, "a discard releases the room of a page that was %s and then %s (%d)",
		   pages_state_name(transits[i].state), pages_state_name(transits[i].next), (int)core->resident);
		end();
	}
}

static void a_discard_waits_for_writes(void)
{
	struct range range = {.count = 2};

	begin();
	core_make(&over, 0, PAGE_RESIDENT, 'w');
	core_make(&over, 1, PAGE_BUFFERED, 'w');
	pages_mark(&core->pages, 1, PAGE_WRITING);
	start(&range);
	while (state_of(&core->pages, 0) == PAGE_RESIDENT)
		sched_yield();
	bool waits = state_of(&core->pages, 1) == PAGE_BUFFERED;
	pages_unmark(&core->pages, 1, PAGE_WRITING);
	pthread_join(range.thread, NULL);
	ok(waits && !unsafe && empty(0, 2) == 2, "a page is discarded after its write has ended");
	ok(core_stored(&over) == 0, "the store has nothing of a page that was being written");
	end();
}

static void a_discard_waits_for_the_snapshots_of_forks(void)
{
	struct range range = {.count = 1};

	begin();
	core_make(&over, 0, PAGE_FAR, 'f');
	core->looks = 1;
	start(&range);
	for (unsigned i = 0; i < 2000; i++)
		sched_yield();
	bool waits = state_of(&core->pages, 0) == PAGE_FAR;
	pages_mark(&core->pages, 0, PAGE_SNAPSHOT);
	core->looks = 2;
	pthread_join(range.thread, NULL);
	ok(waits && core_stored(&over) == 1 && empty(0, 1) == 1,
	   "a discard begins after the handler has taken the snapshots of forks");
	end();
}

static void threads_discard_the_same_pages(void)
{
	static const enum page_state states[] = {PAGE_RESIDENT, PAGE_FAR, PAGE_UNTOUCHED, PAGE_LOST, PAGE_FAR};
	bool good = true;

	begin();
	for (unsigned round = 0; round < (UNDER_TSAN ? 8 : 20); round++) {
		struct range ranges[] = {
		    {.page = 0, .count = 700}, {.page = 100, .count = 900}, {.page = 300, .count = 500}};

		for (unsigned page = 0; page < 1000; page++)
			core_make(&over, page, states[(page + round) % 5], 't');
		for (unsigned i = 0; i < 3; i++)
			start(&ranges[i]);
		for (unsigned i = 0; i < 3; i++)
			pthread_join(ranges[i].thread, NULL);
		good &= empty(0, 1000) == 1000 && core->resident == 0 && core_stored(&over) == 0;
	}
	ok(good && !unsafe, "three threads discard the same pages and return, and each page is released once");
	end();
}

int main(void)
{
	if (userfaultfd_is_denied(core_over_open(&over, PAGES, LIMIT)))
		return tap_skip_all("no right to userfaultfd");
	core_over_close(&over);
	settled_pages_become_untouched();
	marks_are_honoured();
	a_discard_waits_for_pages_in_transit();
	a_discard_waits_for_writes();
	a_discard_waits_for_the_snapshots_of_forks();
	threads_discard_the_same_pages();
	return tap_done();
}
