/* Unit tests of common/patience: a clock that stands still while its thread has no processor. */
#include "common/patience.h"
#include "tests/tap.h"

#define MS UINT64_C(1000000)
#define BEGIN (1000 * MS)

/* Sleeps for @asked of the clock and wakes after @slept. Returns what the clock shows then, since BEGIN. */
static uint64_t sleep_once(struct patience *patience, uint64_t *clock, uint64_t asked, uint64_t slept)
{
	patience_sleep(patience, *clock, patience_at(patience, *clock) + asked);
	*clock += slept;
	patience_wake(patience, *clock);
	return patience_at(patience, *clock) - BEGIN;
}

static void test_timeouts(void)
{
	struct patience patience = {0};

	ok(patience_sleep(&patience, BEGIN, UINT64_MAX) == -1, "who waits for no time sleeps for ever");
	ok(patience_sleep(&patience, BEGIN, BEGIN - 1) == 0, "what is due already is not slept for");
	ok(patience_sleep(&patience, BEGIN, BEGIN + 1) == 1, "a sleep does not end before its time");
	ok(patience_sleep(&patience, BEGIN, BEGIN + 7 * MS) == 7, "a sleep of whole milliseconds is not longer");
	ok(patience_sleep(&patience, BEGIN, UINT64_MAX - 1) == 3600000, "no sleep is longer than an hour");
}

static void test_prompt(void)
{
	struct patience patience = {0};
	uint64_t clock = BEGIN;

	ok(sleep_once(&patience, &clock, 100 * MS, 100 * MS) == 100 * MS, "a thread in time has all time counted");
	ok(sleep_once(&patience, &clock, 100 * MS, 108 * MS) == 208 * MS, "a few ms late count as any time");
	ok(sleep_once(&patience, &clock, 100 * MS, 30 * MS) == 238 * MS, "a thread woken early has all time counted");
}

static void test_late(void)
{
	struct patience patience = {0};
	uint64_t clock = BEGIN;

	ok(sleep_once(&patience, &clock, 100 * MS, 5100 * MS) == 100 * MS, "a pause in its sleep does not count");
	ok(sleep_once(&patience, &clock, 100 * MS, 100 * MS) == 200 * MS, "time goes on after a pause");
	ok(patience_sleep(&patience, clock, patience_at(&patience, clock) + 50 * MS) == 50,
	   "after a pause sleeps are as long as asked for");
	clock += 50 * MS;
	patience_wake(&patience, clock);
	clock += 700 * MS;
	ok(patience_sleep(&patience, clock, BEGIN + 300 * MS) == 50, "a pause in its work does not count");
	clock += 2000 * MS;
	patience_wake(&patience, clock);
	ok(patience_at(&patience, clock) == BEGIN + 300 * MS, "two pauses do not count either");
	patience_sleep(&patience, clock, UINT64_MAX);
	clock += 9000 * MS;
	patience_wake(&patience, clock);
	ok(patience_at(&patience, clock) == BEGIN + 9300 * MS, "a sleep without an end cannot be late");
}

/* Another thread looks at the clock while the loop sleeps, or works. */
static void others_see_no_pause_before_the_loop_does(void)
{
	struct patience patience = {0};
	uint64_t clock = BEGIN, before;

	patience_sleep(&patience, clock, BEGIN + 100 * MS);
	ok(patience_at(&patience, BEGIN + 70 * MS) == BEGIN + 70 * MS, "time passes for others while the loop sleeps");
	before = patience_at(&patience, BEGIN + 5100 * MS);
	ok(before == BEGIN + 100 * MS + PATIENCE_LATE_NS, "who wakes before the loop sees no pause");
	clock += 5100 * MS;
	patience_wake(&patience, clock);
	ok(patience_at(&patience, clock) == BEGIN + 100 * MS, "nor after it");
	ok(patience_at(&patience, clock + 5 * MS) == BEGIN + 105 * MS, "time passes while the loop works");
	clock += 9000 * MS;
	patience_sleep(&patience, clock, UINT64_MAX);
	ok(patience_at(&patience, clock + 3000 * MS) == BEGIN + 3100 * MS,
	   "time passes while the loop waits for no time");
}

int main(void)
{
	test_timeouts();
	test_prompt();
	test_late();
	others_see_no_pause_before_the_loop_does();
	return tap_done();
}
