/* pages and residents: the word of a page, and the queues of pages that may leave. */
#include "pager/pages.h"
#include "pager/residents.h"
#include "tests/lib/tap.h"

static void a_page_moves_only_from_what_was_seen(void)
{
	struct pages pages;
	pages_open(&pages, 8);
	ok(pages_move(&pages, 1, PAGE_UNTOUCHED, PAGE_FILLING, 0), "a page moves from its present state");
	ok(!pages_move(&pages, 1, PAGE_UNTOUCHED, PAGE_FILLING, 0),
	   "a page does not move from a state that the page has left");

	pages_move(&pages, 1, PAGE_FILLING, PAGE_RESIDENT, 0);
	pages_move(&pages, 1, PAGE_RESIDENT, PAGE_EVICTING, 0);
	pages_move(&pages, 1, PAGE_EVICTING, PAGE_BUFFERED, 7);
	uint32_t seen = pages_load(&pages, 1);
	pages_move(&pages, 1, PAGE_BUFFERED, PAGE_RETURNING, 7);
	pages_move(&pages, 1, PAGE_RETURNING, PAGE_RESIDENT, 0);
	pages_move(&pages, 1, PAGE_RESIDENT, PAGE_EVICTING, 0);
	pages_move(&pages, 1, PAGE_EVICTING, PAGE_BUFFERED, 9);
	ok(!pages_move_from(&pages, 1, seen, PAGE_FAR, 0),
	   "a move fails if the page has come back in another frame since its word was read");
	seen = pages_load(&pages, 1);
	pages_mark(&pages, 1, PAGE_WRITING);
	ok(!pages_move_from(&pages, 1, seen, PAGE_DISCARDING, 0),
	   "a move fails if a write of the page has begun since its word was read");
	seen = pages_load(&pages, 1);
	ok(pages_move_from(&pages, 1, seen, PAGE_FAR, 0),
	   "a move succeeds if the page is unchanged since its word was read");
	ok(pages_load(&pages, 1) & PAGE_WRITING, "a page keeps its marks when the page moves");
	pages_close(&pages);
}

static void make_resident(struct pages *pages, uint64_t page)
{
	pages_move(pages, page, PAGE_UNTOUCHED, PAGE_FILLING, 0);
	pages_move(pages, page, PAGE_FILLING, PAGE_RESIDENT, 0);
}

static void pages_leave_in_order_and_held_pages_apart(void)
{
	enum { BUDGET = 16, PAGES = 1000 };
	struct pages pages;
	struct residents residents;
	uint64_t popped[PAGES];
	pages_open(&pages, PAGES);
	residents_open(&residents, &pages, BUDGET);
	for (uint64_t page = 0; page < PAGES; page++) {
		make_resident(&pages, page);
		residents_push(&residents, page, false);
	}
	ok(residents_count(&residents) == PAGES, "the queues hold more pages than the budget (%u)",
	   residents_count(&residents));
	unsigned count = residents_pop(&residents, popped, PAGES);
	bool in_order = count == PAGES;
	for (unsigned i = 0; i < count; i++)
		in_order &= popped[i] == i;
	ok(in_order, "pages leave the queue in the order in which they came (%u)", count);

	for (uint64_t page = 0; page < PAGES; page++)
		residents_hold(&residents, page);
	ok(residents_held(&residents) == PAGES && residents_count(&residents) == 0, "a held page is in no other queue");
	ok(residents_pop(&residents, popped, PAGES) == 0, "a held page is not offered with the others");
	pages_move(&pages, 0, PAGE_RESIDENT, PAGE_DISCARDING, 0);
	count = residents_pop_held(&residents, popped, 2);
	ok(count == 2 && popped[0] == 1 && popped[1] == 2,
	   "held pages are offered in order, without the discarded ones");
	ok(residents_held(&residents) == PAGES - 3, "a held page that is offered or discarded is not held any more");
	residents_close(&residents);
	pages_close(&pages);
}

int main(void)
{
	a_page_moves_only_from_what_was_seen();
	pages_leave_in_order_and_held_pages_apart();
	return tap_done();
}
