/* loop: a program is in a loop while the depths of its fetched pages are alike. Then a part of its pages is kept. */
#include "common/random.h"
#include "pager/loop.h"
#include "tests/lib/tap.h"

enum { BUDGET = 10000, NEIGHBOURS = 32, PAGES = 1 << 20 };

static struct loop loop;
static struct random_state state;

/* Notes @count depths between @depth and @depth + @spread. Returns true if the program is in a loop after the last. */
static bool note(unsigned count, uint64_t depth, uint64_t spread)
{
	bool is_loop = false;

	for (unsigned i = 0; i < count; i++)
		is_loop = loop_note(&loop, depth + random_below(&state, spread + 1));
	return is_loop;
}

static bool makes_loop(uint64_t depth, uint64_t spread)
{
	loop_open(&loop, BUDGET);
	return note(4000, depth, spread);
}

static void depths_that_are_alike_are_a_loop(void)
{
	loop_open(&loop, BUDGET);
	ok(!note(1, 3000, 0), "a program that has fetched one page is in no loop");
	ok(makes_loop(3000, 0), "fetched pages of the same depth are a loop");
	ok(makes_loop(100, 0), "a loop may be little longer than local memory");
	ok(makes_loop(50000, 0), "a loop may be much longer than local memory");
	ok(makes_loop(3000, BUDGET / 8), "depths in a loop may differ by two generations of refault.h");
	ok(!makes_loop(0, 6000), "depths from 0 to twice their mean are no loop");
	ok(!makes_loop(0, 60000), "large depths from 0 to twice their mean are no loop");
}

static void loops_begin_and_end(void)
{
	makes_loop(0, 20000);
	ok(note(2000, 5000, 0), "a loop begins when the depths become alike");
	ok(!note(1000, 0, 20000), "a loop ends when the depths differ");
	ok(note(4000, 500, 0), "a program that comes into a shorter loop is in a loop");
}

static unsigned kept(uint64_t first, unsigned count, uint32_t stamp)
{
	unsigned sum = 0;

	for (uint64_t page = first; page < first + count; page++)
		sum += loop_keeps(page, stamp);
	return sum;
}

static void one_page_in_sixteen_is_kept(void)
{
	unsigned whole = 0, both = 0, least = PAGES, most = 0;

	for (uint32_t stamp = 0; stamp < 50; stamp++) {
		unsigned sum = kept(0, PAGES, stamp);

		least = sum < least ? sum : least;
		most = sum > most ? sum : most;
	}
	ok(least > PAGES / LOOP_SHARE * 9 / 10 && most < PAGES / LOOP_SHARE * 11 / 10,
	   "%u to %u of %u pages are kept, whatever their stamp", least, most, PAGES);
	for (uint64_t page = 0; page < PAGES; page += NEIGHBOURS) {
		unsigned sum = kept(page, NEIGHBOURS, 7);

		whole += sum == 0 || sum == NEIGHBOURS;
		both += sum && kept(page, NEIGHBOURS, 8);
	}
	ok(whole == PAGES / NEIGHBOURS, "neighbours are kept or not together");
	unsigned chance = PAGES / NEIGHBOURS / (LOOP_SHARE * LOOP_SHARE);
	ok(both > chance / 2 && both < chance * 2, "pages with the next stamp are chosen anew");
}

int main(void)
{
	random_seed(&state, 1);
	depths_that_are_alike_are_a_loop();
	loops_begin_and_end();
	one_page_in_sixteen_is_kept();
	return tap_done();
}
