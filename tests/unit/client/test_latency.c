/* latency: the estimates of how fast a donor answers. */
#include "client/io/latency.h"
#include "tests/lib/tap.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static void record(struct latency *latency, unsigned count, uint64_t ns)
{
	while (count--)
		latency_record(latency, ns);
}

static void p99_follows_the_slowest_answers(void)
{
	struct latency latency = {0};

	record(&latency, LATENCY_KNOWN - 1, 10 * US);
	ok(latency.p99 == 0, "p99 is unknown before there are enough answers");
	record(&latency, 1, 10 * US);
	ok(latency.p99 >= 10 * US && latency.p99 <= 13 * US, "p99 of answers that take 10 us is 10 to 13 us: %llu ns",
	   (unsigned long long)latency.p99);
	for (unsigned i = 0; i < 2000; i++)
		latency_record(&latency, i % 250 ? 10 * US : 20 * MS);
	ok(latency.p99 <= 13 * US, "four slow answers in a thousand do not raise p99");
	for (unsigned i = 0; i < 2000; i++)
		latency_record(&latency, i % 20 ? 10 * US : 20 * MS);
	ok(latency.p99 >= 20 * MS && latency.p99 <= 25 * MS, "one slow answer in twenty raises p99: %llu ns",
	   (unsigned long long)latency.p99);
	record(&latency, 8 * LATENCY_WINDOW, 10 * US);
	ok(latency.p99 <= 13 * US, "old slow answers fade from p99");
}

static void mean_rises_slowly_and_falls_fast(void)
{
	struct latency latency = {0};

	record(&latency, 100, 10 * US);
	ok(latency.mean == 10 * US, "the mean of equal answers is their latency");
	latency_record(&latency, 90 * US);
	ok(latency.mean == 20 * US, "a slower answer raises the mean by an eighth of the difference");
	latency_record(&latency, 10 * US);
	ok(latency.mean == 15 * US, "a faster answer lowers the mean by half of the difference");
	latency_overdue(&latency, 5 * MS);
	ok(latency.mean == 5 * MS, "an overdue answer raises the mean before it comes");
	latency_overdue(&latency, 1 * MS);
	ok(latency.mean == 5 * MS, "an overdue answer never lowers the mean");
	record(&latency, 12, 10 * US);
	ok(latency.mean < 20 * US, "twelve fast answers make a slow donor fast again");
}

static void extreme_latencies_are_recorded_within_a_quarter(void)
{
	struct latency latency = {0};

	record(&latency, LATENCY_KNOWN, 0);
	ok(latency.mean == 1 && latency.p99 && latency.p99 <= 512,
	   "answers that take no time give a mean of 1 ns and the smallest p99");
	latency = (struct latency){0};
	record(&latency, LATENCY_KNOWN, UINT64_MAX);
	ok(latency.p99 >= 4000 * MS, "answers that never end give a p99 of at least 4 s");
	for (uint64_t ns = 300; ns < 4000 * MS; ns = ns * 21 / 20) {
		latency = (struct latency){0};
		record(&latency, LATENCY_KNOWN, ns);
		if (latency.p99 <= ns || latency.p99 > ns + ns / 4 + 1)
			break;
	}
	ok(latency.p99 > 3000 * MS, "p99 is never below the latency and at most a quarter above it");
}

static void unmeasured_donor_is_neither_fast_nor_overdue(void)
{
	struct latency latency = {0}, fast = {0}, overdue = {0};

	latency_record(&fast, 200 * US);
	latency_overdue(&overdue, 5 * MS);
	ok(latency_expected(&latency) > latency_expected(&fast),
	   "a donor that was never measured counts as slower than 200 us");
	ok(latency_expected(&latency) < latency_expected(&overdue),
	   "a donor that was never measured counts as faster than 5 ms");
	ok(latency_expected(&fast) == fast.mean && latency_expected(&overdue) == overdue.mean,
	   "a measured donor counts by its mean");
}

int main(void)
{
	p99_follows_the_slowest_answers();
	mean_rises_slowly_and_falls_fast();
	extreme_latencies_are_recorded_within_a_quarter();
	unmeasured_donor_is_neither_fast_nor_overdue();
	return tap_done();
}
