/* spin: the time to poll grows towards the time of the answers, stays below its limit, and shrinks again. */
#include "common/spin.h"
#include "tests/lib/tap.h"

#define US 1000ull

static void fast_answers_leave_the_time_to_poll(void)
{
	struct spin spin;

	spin_init(&spin, 50);
	ok(spin.ns == 50 * US, "the time to poll begins as configured");
	for (unsigned i = 0; i < 100; i++)
		spin_learn(&spin, 9 * US);
	ok(spin.ns == 50 * US, "fast answers leave the time to poll unchanged");
}

static void the_time_to_poll_follows_slow_answers(void)
{
	struct spin spin;

	spin_init(&spin, 50);
	spin_learn(&spin, 204 * US);
	spin_learn(&spin, 80 * US);
	spin_learn(&spin, 80 * US);
	ok(spin.ns == 100 * US, "answers of 80 us are polled for 100 us");
	for (unsigned i = 0; i < 100; i++)
		spin_learn(&spin, 400 * US);
	ok(spin.ns == 400 * US, "the time to poll grows up to eight times the configured one");
	spin_learn(&spin, 401 * US);
	ok(spin.ns == 200 * US, "an answer slower than the longest polling halves the time to poll");
	for (unsigned i = 0; i < 100; i++)
		spin_learn(&spin, 5000 * US);
	ok(spin.ns == 50 * US, "answers of several ms shrink the time to poll to the configured one");
}

static void disabled_polling_stays_disabled(void)
{
	struct spin spin;

	spin_init(&spin, 0);
	spin_learn(&spin, 1);
	spin_learn(&spin, 100 * US);
	ok(spin.ns == 0, "a time to poll of 0 stays 0");
}

int main(void)
{
	fast_answers_leave_the_time_to_poll();
	the_time_to_poll_follows_slow_answers();
	disabled_polling_stays_disabled();
	return tap_done();
}
