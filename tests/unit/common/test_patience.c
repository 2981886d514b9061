/* Unit tests of common/patience: a clock that stands still while its thread has no processor. */
#include "common/patience.h"
#include "tests/lib/tap.h"

#define MS UINT64_C(1000000)
#define BEGIN (1000 * MS)

/* Asks for a sleep of @asked and wakes after @slept. Returns the time of the patient clock since BEGIN. */
static uint64_t sleep_once(struct patience *patience, uint64_t *clock, uint64_t asked, uint64_t slept)
{
	patience_sleep(patience, *clock, patience_at(patience, *clock) + asked);
	*clock += slept;
	patience_wake(patience, *clock);
	return patience_at(patience, *clock) - BEGIN;
}

static void timeouts_are_rounded_up_and_bounded(void)
{
	struct patience patience = {0};

	ok(patience_sleep(&patience, BEGIN, UINT64_MAX) == -1, "a sleep without a due time has no timeout");
	ok(patience_sleep(&patience, BEGIN, BEGIN - 1) == 0, "a sleep until a time in the past has a timeout of 0");
	ok(patience_sleep(&patience, BEGIN, BEGIN + 1) == 1, "a timeout is rounded up to whole milliseconds");
	ok(patience_sleep(&patience, BEGIN, BEGIN + 7 * MS) == 7, "a timeout of whole milliseconds is not rounded");
	ok(patience_sleep(&patience, BEGIN, UINT64_MAX - 1) == 3600000, "a timeout is at most one hour");
}

static void all_time_counts_for_a_prompt_thread(void)
{
	struct patience patience = {0};
	uint64_t clock = BEGIN;

	ok(sleep_once(&patience, &clock, 100 * MS, 100 * MS) == 100 * MS,
	   "all time counts for a thread that wakes on time");
	ok(sleep_once(&patience, &clock, 100 * MS, 108 * MS) == 208 * MS,
	   "all time counts for a thread that wakes 8 ms late");
	ok(sleep_once(&patience, &clock, 100 * MS, 30 * MS) == 238 * MS,
	   "all time counts for a thread that wakes early");
}

static void pauses_do_not_count(void)
{
	struct patience patience = {0};
	uint64_t clock = BEGIN;

	ok(sleep_once(&patience, &clock, 100 * MS, 5100 * MS) == 100 * MS, "a pause during a sleep does not count");
	ok(sleep_once(&patience, &clock, 100 * MS, 100 * MS) == 200 * MS, "time counts again after a pause");
	ok(patience_sleep(&patience, clock, patience_at(&patience, clock) + 50 * MS) == 50,
	   "a sleep after a pause has its full length");
	clock += 50 * MS;
	patience_wake(&patience, clock);
	clock += 700 * MS;
	ok(patience_sleep(&patience, clock, BEGIN + 300 * MS) == 50, "a pause during work does not count");
	clock += 2000 * MS;
	patience_wake(&patience, clock);
	ok(patience_at(&patience, clock) == BEGIN + 300 * MS,
	   "a second pause right after the first one does not count");
	patience_sleep(&patience, clock, UINT64_MAX);
	clock += 9000 * MS;
	patience_wake(&patience, clock);
	ok(patience_at(&patience, clock) == BEGIN + 9300 * MS, "a sleep without a due time cannot be late");
}

/* Another thread reads the clock while the loop sleeps or works. */
static void others_see_no_pause_before_the_loop_does(void)
{
	struct patience patience = {0};
	uint64_t clock = BEGIN, before;

	patience_sleep(&patience, clock, BEGIN + 100 * MS);
	ok(patience_at(&patience, BEGIN + 70 * MS) == BEGIN + 70 * MS,
	   "time passes for other threads while the loop sleeps");
	before = patience_at(&patience, BEGIN + 5100 * MS);
	ok(before == BEGIN + 100 * MS + PATIENCE_LATE_NS, "a thread that wakes before the loop sees no pause");
	clock += 5100 * MS;
	patience_wake(&patience, clock);
	ok(patience_at(&patience, clock) == BEGIN + 100 * MS, "a thread that wakes after the loop sees no pause");
	ok(patience_at(&patience, clock + 5 * MS) == BEGIN + 105 * MS,
	   "time passes for other threads while the loop works");
	clock += 9000 * MS;
	patience_sleep(&patience, clock, UINT64_MAX);
	ok(patience_at(&patience, clock + 3000 * MS) == BEGIN + 3100 * MS,
	   "time passes for other threads while the loop sleeps without a due time");
}

int main(void)
{
	timeouts_are_rounded_up_and_bounded();
	all_time_counts_for_a_prompt_thread();
	pauses_do_not_count();
	others_see_no_pause_before_the_loop_does();
	return tap_done();
}
