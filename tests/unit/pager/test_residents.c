/* residents: the order in which resident pages are offered to the evictor. */
#include "common/random.h"
#include "page_states.h"
#include "pager/residents.h"
#include "tests/lib/sanitizers.h"
#include "tests/lib/tap.h"

enum { BUDGET = 64, PAGES = 4096 };

static struct pages pages;
static struct residents residents;
static uint64_t popped[PAGES];

static void begin(uint32_t budget)
{
	if (pages_open(&pages, PAGES) || residents_open(&residents, &pages, budget))
		tap_bail("no memory");
}

static void end(void)
{
	residents_close(&residents);
	pages_close(&pages);
}

/* Makes @count pages from @first on resident and pushes them. */
static void push(uint64_t first, uint64_t count, bool proven)
{
	for (uint64_t page = first; page < first + count; page++) {
		page_make(&pages, page, PAGE_RESIDENT, 0);
		residents_push(&residents, page, proven);
	}
}

static void discard(uint64_t page)
{
	if (!pages_move(&pages, page, PAGE_RESIDENT, PAGE_DISCARDING, 0) ||
	    !pages_move(&pages, page, PAGE_DISCARDING, PAGE_UNTOUCHED, 0))
		abort();
}

/* Returns true if a pop of @max pages gets @count pages, from @first on. */
static bool pops(unsigned max, uint64_t first, unsigned count)
{
	bool good = residents_pop(&residents, popped, NULL, max) == count;

	for (unsigned i = 0; i < count && good; i++)
		good = popped[i] == first + i;
	return good;
}

static void pages_leave_in_order_and_held_pages_apart(void)
{
	enum { MANY = 1000 };
	begin(16);
	push(0, MANY, false);
	ok(residents_count(&residents) == MANY, "the queues hold more pages than the budget (%u)",
	   residents_count(&residents));
	ok(pops(MANY, 0, MANY), "pages leave the queue in the order in which they came");
	for (uint64_t page = 0; page < MANY; page++)
		residents_hold(&residents, page);
	ok(residents_held(&residents) == MANY && residents_count(&residents) == 0, "a held page is in no other queue");
	ok(pops(MANY, 0, 0), "a held page is not offered with the others");
	discard(0);
	unsigned count = residents_pop_held(&residents, popped, 2);
	ok(count == 2 && popped[0] == 1 && popped[1] == 2,
	   "held pages are offered in order, without the discarded ones");
	ok(residents_held(&residents) == MANY - 3, "a held page that is offered or discarded is not held any more");
	end();
}

static void young_pages_leave_before_proven_ones(void)
{
	enum { PROVEN = 1000 };
	begin(BUDGET);
	uint32_t share = residents.young_share / 4;
	ok(share > 0 && share < BUDGET, "the young queue has a share of the budget (%u of %u)", share, BUDGET);
	push(PROVEN, 10, true);
	push(0, share + 5, false);
	ok(pops(5, 0, 5), "the oldest young pages leave while the young queue exceeds its share");
	ok(pops(1, PROVEN, 1), "the oldest proven page leaves once the young queue is within its share");
	push(share + 5, 1, false);
	ok(pops(1, 5, 1), "the oldest young page leaves if another page makes the young queue too long");
	ok(pops(9, PROVEN + 1, 9), "the proven pages leave in order while the young queue is within its share");
	ok(pops(PAGES, 6, share), "the last young pages leave if no proven page is left");
	end();
}

/* Returns the length to which the young queue shrinks before a proven page leaves. */
static uint32_t young_share(void)
{
	enum { YOUNG = BUDGET - 4, PROVEN = 1000 };
	bool proven[YOUNG + 1];
	uint32_t count = 0;

	push(0, YOUNG, false);
	push(PROVEN, 4, true);
	while (count <= YOUNG && residents_pop(&residents, popped + count, proven + count, 1) && !proven[count])
		count++;
	bool named = count <= YOUNG && popped[count] == PROVEN;
	for (uint64_t page = 0; page < YOUNG; page++)
		discard(page);
	for (uint64_t page = PROVEN; page < PROVEN + 4; page++)
		discard(page);
	residents_pop(&residents, popped, NULL, PAGES); /* drops the entries of discarded pages */
	return named ? YOUNG - count : UINT32_MAX;
}

static void the_young_share_follows_pages_that_return(void)
{
	begin(BUDGET);
	ok(young_share() == BUDGET / 4, "the young queue begins with a quarter of the budget");
	residents_adapt(&residents, 0, 0);
	residents_adapt(&residents, 4, 0);
	ok(young_share() == BUDGET / 4 + 1, "four returned young pages lengthen the young queue by one");
	residents_adapt(&residents, 0, 3);
	ok(young_share() == BUDGET / 4 - 2, "each returned proven page shortens the young queue by one");
	residents_adapt(&residents, 8, 2);
	ok(young_share() == BUDGET / 4 - 2, "four young pages outweigh one proven page");
	residents_adapt(&residents, 0, 1000000);
	uint32_t least = young_share();
	ok(least == BUDGET / 32, "the young queue keeps a 32nd of the budget (%u pages)", least);
	residents_adapt(&residents, UINT32_MAX, 0);
	uint32_t most = young_share();
	ok(most == BUDGET / 4 * 3, "the young queue has at most three quarters of the budget (%u pages)", most);
	residents_adapt(&residents, 0, UINT32_MAX);
	ok(young_share() == BUDGET / 32, "no number of returned pages is too large");
	end();
}

static void a_page_is_in_one_queue(void)
{
	begin(BUDGET);
	push(0, 3, false);
	residents_push(&residents, 0, false);
	residents_push(&residents, 1, true);
	ok(residents_count(&residents) == 3, "a page that is pushed again is in its queue once");
	ok(pops(PAGES, 0, 3), "a page that is pushed again keeps its turn");
	ok(!(pages_load(&pages, 0) & PAGE_QUEUED), "a page that was offered is in no queue");
	residents_push(&residents, 1, false);
	residents_push(&residents, 0, false);
	ok(pops(1, 1, 1) && pops(1, 0, 1), "pages that were offered are pushed anew in a new order");
	end();
}

static void discarded_pages_are_not_offered(void)
{
	begin(BUDGET);
	push(0, 10, false);
	push(10, 10, true);
	for (uint64_t page = 0; page < 20; page++)
		if (page % 10 != 4)
			discard(page);
	bool good = residents_pop(&residents, popped, NULL, PAGES) == 2;
	ok(good && popped[0] + popped[1] == 18, "a pop passes over discarded pages of both queues");
	ok(residents_count(&residents) == 0, "a pop drops the entries of discarded pages");
	push(1, 2, false);
	ok(pops(PAGES, 1, 2), "a discarded page whose entry was dropped is offered again after a new push");

	residents_hold(&residents, 1);
	residents_hold(&residents, 2);
	discard(1);
	page_make(&pages, 1, PAGE_RESIDENT, 0);
	residents_push(&residents, 1, false);
	unsigned count = residents_pop(&residents, popped, NULL, 1);
	count += residents_pop_held(&residents, popped + count, 2);
	ok(count == 2 && popped[0] + popped[1] == 3, "a page that was discarded while held is offered once (%u)",
	   count);
	end();
}

static void pages_in_other_hands_wait_at_the_end(void)
{
	begin(BUDGET);
	push(0, 6, false);
	pages_mark(&pages, 0, PAGE_WRITING);
	pages_move(&pages, 1, PAGE_RESIDENT, PAGE_DISCARDING, 0);
	ok(pops(2, 2, 2), "a pop passes over a page that is being written and one that is being discarded");
	pages_move(&pages, 1, PAGE_DISCARDING, PAGE_UNTOUCHED, 0);
	page_bring_in(&pages, 1, PAGE_UNTOUCHED);
	residents_push(&residents, 1, false);
	unsigned count = residents_pop(&residents, popped, NULL, PAGES);
	ok(count == 3 && popped[0] == 4 && popped[1] == 5 && popped[2] == 1,
	   "pages that are in other hands at a pop come after all others");
	ok(residents_count(&residents) == 1, "a page that is being written stays in its queue");
	pages_unmark(&pages, 0, PAGE_WRITING);
	ok(pops(PAGES, 0, 1), "a page is offered after its write has ended");
	end();
}

static void a_pop_ends_if_every_page_is_in_other_hands(void)
{
	begin(BUDGET);
	push(0, 40, false);
	push(40, 40, true);
	for (uint64_t page = 0; page < 80; page++)
		pages_mark(&pages, page, PAGE_WRITING);
	ok(pops(PAGES, 0, 0), "a pop ends without a page if all pages are being written");
	for (uint64_t page = 0; page < 80; page++)
		residents_push(&residents, page, false);
	ok(residents_count(&residents) == 80, "pages that are being written stay in their queues once (%u)",
	   residents_count(&residents));
	for (uint64_t page = 0; page < 80; page++)
		pages_unmark(&pages, page, PAGE_WRITING);
	ok(residents_pop(&residents, popped, NULL, PAGES) == 80, "all pages are offered after their writes have ended");
	for (uint64_t page = 0; page < 3; page++)
		residents_hold(&residents, page);
	pages_mark(&pages, 0, PAGE_WRITING);
	unsigned count = residents_pop_held(&residents, popped, PAGES);
	ok(count == 2 && popped[0] == 1 && popped[1] == 2, "a held page that is being written is not offered");
	end();
}

static void queues_grow_only_without_stale_entries(void)
{
	begin(BUDGET);
	uint64_t memory = residents_memory(&residents);
	for (uint64_t page = 0; page < PAGES; page++) {
		push(page, 1, page % 2);
		discard(page);
	}
	ok(residents_memory(&residents) == memory, "stale entries do not make a queue longer");
	push(PAGES - 5, 5, true);
	uint64_t count = residents_pop(&residents, popped, NULL, PAGES);
	ok(count == 5 && popped[0] == PAGES - 5, "the resident pages among stale entries are offered (%u)",
	   (unsigned)count);
	end();

	/* Half of the entries leave before the ring grows, so its oldest entry is then in the middle. */
	for (unsigned proven = 0; proven < 2; proven++) {
		begin(BUDGET);
		push(0, BUDGET, proven);
		bool good = pops(BUDGET / 2, 0, BUDGET / 2);
		push(BUDGET, 10 * BUDGET, proven);
		ok(good && pops(PAGES, BUDGET / 2, 10 * BUDGET + BUDGET / 2),
		   "a %s queue that is made longer keeps its order", proven ? "proven" : "young");
		end();
	}
	begin(BUDGET);
	ok(!residents_reserve(&residents, PAGES), "room for pages that are resident from the start is reserved");
	memory = residents_memory(&residents);
	push(0, PAGES, false);
	ok(residents_memory(&residents) == memory && pops(PAGES, 0, PAGES),
	   "the reserved number of pages fits without more memory");
	end();
}

/* --- Threads ----------------------------------------------------------------------------------------------------- */

enum { EVICTORS = 3, TURNS = UNDER_TSAN ? 60 : 400, HALF = PAGES / 2 };

static uint64_t owned[PAGES]; /* changed by the owner of the page alone */
static _Atomic unsigned wrong, offered;

/* Takes pages, and gives them back to another queue each time. */
static void *take_and_return(void *argument)
{
	struct random_state random;
	uint64_t mine[32];

	random_seed(&random, (uintptr_t)argument);
	for (unsigned turn = 0; turn < TURNS; turn++) {
		bool held = random_below(&random, 4) == 0;
		unsigned count =
		    held ? residents_pop_held(&residents, mine, 32) : residents_pop(&residents, mine, NULL, 32);

		offered += count;
		for (unsigned i = 0; i < count; i++) {
			if (!pages_move(&pages, mine[i], PAGE_RESIDENT, PAGE_EVICTING, 0)) {
				wrong++; /* another thread has the page, too */
				continue;
			}
			owned[mine[i]]++;
			pages_move(&pages, mine[i], PAGE_EVICTING, PAGE_RESIDENT, 0);
			if (random_below(&random, 3) == 0)
				residents_hold(&residents, mine[i]);
			else
				residents_push(&residents, mine[i], random_below(&random, 2));
		}
	}
	return NULL;
}

static void *push_more(void *unused)
{
	(void)unused;
	push(HALF, HALF, false);
	return NULL;
}

static void no_page_is_offered_twice_or_forgotten(void)
{
	static bool seen[PAGES];
	pthread_t threads[EVICTORS + 1];
	unsigned missing = 0, twice = 0;

	begin(BUDGET);
	push(0, HALF, false);
	for (uintptr_t i = 0; i < EVICTORS; i++)
		pthread_create(&threads[i], NULL, take_and_return, (void *)(i + 1));
	pthread_create(&threads[EVICTORS], NULL, push_more, NULL);
	for (unsigned i = 0; i <= EVICTORS; i++)
		pthread_join(threads[i], NULL);
	ok(!wrong && offered > TURNS, "no page is offered to two threads at once (%u of %u were)", wrong, offered);
	unsigned count = residents_pop(&residents, popped, NULL, PAGES);
	count += residents_pop_held(&residents, popped + count, PAGES - count);
	for (unsigned i = 0; i < count; i++) {
		twice += seen[popped[i]];
		seen[popped[i]] = true;
	}
	for (unsigned page = 0; page < PAGES; page++)
		missing += !seen[page];
	ok(!missing && !twice && count == PAGES, "every page is in one queue in the end (%u missing, %u twice)",
	   missing, twice);
	end();
}

int main(void)
{
	pages_leave_in_order_and_held_pages_apart();
	young_pages_leave_before_proven_ones();
	the_young_share_follows_pages_that_return();
	a_page_is_in_one_queue();
	discarded_pages_are_not_offered();
	pages_in_other_hands_wait_at_the_end();
	a_pop_ends_if_every_page_is_in_other_hands();
	queues_grow_only_without_stale_entries();
	no_page_is_offered_twice_or_forgotten();
	return tap_done();
}
