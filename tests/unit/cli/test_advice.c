/* Unit tests of cli/run/advice: what is predicted from depths and times, in cases that can be computed by hand. */
#include "cli/run/advice.h"
#include "tests/lib/tap.h"

#include <math.h>

#define MIB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)

static struct histogram depths;
static struct advice advice;
static char text[ADVICE_TEXT_MAX];

/* A run with a budget of 16 MiB and at most 128 MiB more to gain: each step is 1 MiB, or 256 pages. It waited for
   @waiting seconds, the program computed for @own, and the pager for @pager. */
static void begin(uint64_t waiting, uint64_t own, uint64_t pager)
{
	memset(&depths, 0, sizeof depths);
	advice = (struct advice){.local_bytes = 16 * MIB,
				 .wanted_bytes = 144 * MIB,
				 .waiting_ns = waiting * SECOND,
				 .computing_ns = (own + pager) * SECOND,
				 .pager_ns = pager * SECOND,
				 .wall_ns = (waiting + own) * SECOND};
}

static void fetch(uint64_t depth, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		histogram_record(&depths, depth);
}

static bool is_about(double value, double expected)
{
	return fabs(value - expected) <= expected * 0.02;
}

static void a_circle_needs_all_its_pages(void)
{
	begin(90, 10, 0);
	fetch(8192, 12000); /* 32 MiB */
	/* The bucket of 8192 ends at 8447, so 33 steps are needed. */
	advice_predict(&advice, &depths);
	ok(advice_fetches(&advice, 16 * MIB) == 12000, "with the present budget all fetches remain");
	ok(advice_fetches(&advice, 48 * MIB) == 12000,
	   "a page in a circle stays far if one page of local memory is missing");
	ok(advice_fetches(&advice, 49 * MIB) == 0, "no page is fetched if the circle fits");
	ok(is_about(advice_waiting(&advice, 16 * MIB), 0.9) && advice_waiting(&advice, 49 * MIB) <= 0,
	   "the waiting is that of the fetches");
	ok(advice_local(&advice, ADVICE_HALF) == 49 * MIB && advice_local(&advice, ADVICE_NONE) == 49 * MIB,
	   "one budget is advised for all shares");
	ok(strcmp(advice_text(&advice, text), "90% of its time waiting for far memory; hardly any with --local 49M") ==
	       0,
	   "the text names this budget once");
}

static void each_depth_ends_at_its_budget(void)
{
	begin(80, 20, 0);
	/* The buckets of these depths end at 2047, 4223 and 8447 pages. */
	fetch(2040, 5000);
	fetch(4100, 2000);
	fetch(8200, 1000);
	advice_predict(&advice, &depths);
	ok(advice_fetches(&advice, 23 * MIB) == 8000 && advice_fetches(&advice, 24 * MIB) == 3000 &&
	       advice_fetches(&advice, 33 * MIB) == 1000 && advice_fetches(&advice, 49 * MIB) == 0,
	   "each depth no longer counts from its own budget on");
	/* 80 s * 3/8 = 30 s of 50 s; 80 s * 1/8 = 10 s of 30 s. */
	ok(is_about(advice_waiting(&advice, 24 * MIB), 0.6) && is_about(advice_waiting(&advice, 33 * MIB), 1.0 / 3),
	   "the share of the time is that of the remaining fetches");
	ok(is_about((double)advice_wall_ns(&advice, 24 * MIB), 50e9) &&
	       is_about((double)advice_wall_ns(&advice, 200 * MIB), 20e9),
	   "the time is shorter by the wait that is saved");
	ok(advice_local(&advice, ADVICE_HALF) == 33 * MIB && advice_local(&advice, ADVICE_LITTLE) == 49 * MIB,
	   "the smallest budgets for a half and a tenth of the time are found");
	ok(strcmp(advice_text(&advice, text),
		  "80% of its time waiting for far memory; about 50% with --local 33M, hardly "
		  "any with --local 49M") == 0,
	   "the text names each budget once, with the best share");
}

static void the_pager_computes_less_with_fewer_fetches(void)
{
	begin(60, 10, 30);
	fetch(2040, 5000);
	fetch(8200, 5000);
	advice_predict(&advice, &depths);
	/* 30 s of waiting, 10 s of the program and 15 s of the pager. */
	ok(is_about(advice_waiting(&advice, 16 * MIB), 0.6) && is_about(advice_waiting(&advice, 24 * MIB), 30.0 / 55),
	   "the pager's processor time falls with the fetches, and the program's does not");
	ok(is_about((double)advice_wall_ns(&advice, 24 * MIB), 40e9),
	   "the pager's processor time does not count if the program waited or computed all the time");
	advice.wall_ns = 90 * SECOND;
	ok(is_about((double)advice_wall_ns(&advice, 24 * MIB), 50e9),
	   "the pager's processor time counts for the time in which the program neither waited nor computed");
}

static void threads_share_the_time_saved(void)
{
	begin(60, 20, 0);
	advice.wall_ns = 20 * SECOND; /* four threads */
	fetch(2040, 5000);
	advice_predict(&advice, &depths);
	ok(is_about((double)advice_wall_ns(&advice, 24 * MIB), 5e9),
	   "four threads that wait 60 s less end 15 s sooner");
}

static void pages_without_limit_end_at_the_peak(void)
{
	begin(90, 10, 0);
	fetch(UINT64_C(1) << 30, 5000);
	advice_predict(&advice, &depths);
	ok(advice_fetches(&advice, 144 * MIB - 1) == 5000 && advice_fetches(&advice, 144 * MIB) == 0,
	   "no depth counts with the budget that holds all pages");
	ok(advice_local(&advice, ADVICE_LITTLE) == 144 * MIB, "no more than this budget is advised");
}

static void little_is_not_worth_an_advice(void)
{
	begin(90, 10, 0);
	advice_predict(&advice, &depths);
	ok(!*advice_text(&advice, text) && advice_waiting(&advice, 16 * MIB) <= 0, "no fetch gives no advice");
	fetch(2040, ADVICE_FETCHES_MIN - 1);
	advice_predict(&advice, &depths);
	ok(!*advice_text(&advice, text), "999 fetches give no advice");
	fetch(2040, 1);
	advice_predict(&advice, &depths);
	ok(*advice_text(&advice, text), "a thousand fetches give an advice");
	advice.waiting_ns = ADVICE_WAITING_MIN_NS - 1;
	advice.computing_ns = 0;
	ok(!*advice_text(&advice, text), "a wait of less than 0.2 s gives no advice");
	begin(9, 91, 0);
	fetch(2040, 5000);
	advice_predict(&advice, &depths);
	ok(!*advice_text(&advice, text), "a wait of less than a tenth of the time gives no advice");
	begin(90, 10, 0);
	advice.wanted_bytes = advice.local_bytes;
	fetch(2040, 5000);
	advice_predict(&advice, &depths);
	ok(!*advice_text(&advice, text), "a budget that is the peak already gives no advice");
}

static void budgets_are_rounded_up(void)
{
	char size[SIZE_TEXT_MAX];

	ok(strcmp(advice_size(49 * MIB, size), "49M") == 0 && strcmp(advice_size(49 * MIB + 1, size), "50M") == 0,
	   "an advised budget is rounded up to a MiB");
	ok(strcmp(advice_size(9999 * MIB, size), "9999M") == 0 &&
	       strcmp(advice_size(10 * 1024 * MIB + 1, size), "10.1G") == 0,
	   "a large budget is rounded up to a tenth of a GiB");
}

int main(void)
{
	a_circle_needs_all_its_pages();
	each_depth_ends_at_its_budget();
	the_pager_computes_less_with_fewer_fetches();
	threads_share_the_time_saved();
	pages_without_limit_end_at_the_peak();
	little_is_not_worth_an_advice();
	budgets_are_rounded_up();
	return tap_done();
}
