/* How fast a donor answers, by what is recorded of it. */
#include "client/io/latency.h"
#include "tests/tap.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static void record(struct latency *latency, unsigned count, uint64_t ns)
{
	while (count--)
		latency_record(latency, ns);
}

static void test_p99(void)
{
	struct latency latency = {0};

	record(&latency, LATENCY_KNOWN - 1, 10 * US);
	ok(latency.p99 == 0, "p99 is not known before there are enough answers");
	record(&latency, 1, 10 * US);
	ok(latency.p99 >= 10 * US && latency.p99 <= 13 * US, "then it is what they take: %llu ns",
	   (unsigned long long)latency.p99);
	for (unsigned i = 0; i < 2000; i++)
		latency_record(&latency, i % 250 ? 10 * US : 20 * MS);
	ok(latency.p99 <= 13 * US, "four in a thousand that are slow do not raise it");
	for (unsigned i = 0; i < 2000; i++)
		latency_record(&latency, i % 20 ? 10 * US : 20 * MS);
	ok(latency.p99 >= 20 * MS && latency.p99 <= 25 * MS, "one in twenty does: %llu ns",
	   (unsigned long long)latency.p99);
	record(&latency, 8 * LATENCY_WINDOW, 10 * US);
	ok(latency.p99 <= 13 * US, "they fade");
}

static void test_mean(void)
{
	struct latency latency = {0};

	record(&latency, 100, 10 * US);
	ok(latency.mean == 10 * US, "the mean");
	latency_record(&latency, 90 * US);
	ok(latency.mean == 20 * US, "rises by an eighth");
	latency_record(&latency, 10 * US);
	ok(latency.mean == 15 * US, "and falls by half");
	latency_overdue(&latency, 5 * MS);
	ok(latency.mean == 5 * MS, "an overdue answer counts before it has come");
	latency_overdue(&latency, 1 * MS);
	ok(latency.mean == 5 * MS, "and only upwards");
	record(&latency, 12, 10 * US);
	ok(latency.mean < 20 * US, "a dozen answers and it is a fast donor again");
}

static void test_ends(void)
{
	struct latency latency = {0};

	record(&latency, LATENCY_KNOWN, 0);
	ok(latency.mean == 1 && latency.p99 && latency.p99 <= 512, "at once");
	latency = (struct latency){0};
	record(&latency, LATENCY_KNOWN, UINT64_MAX);
	ok(latency.p99 >= 4000 * MS, "never");
	for (uint64_t ns = 300; ns < 4000 * MS; ns = ns * 21 / 20) {
		latency = (struct latency){0};
		record(&latency, LATENCY_KNOWN, ns);
		if (latency.p99 <= ns || latency.p99 > ns + ns / 4 + 1)
			break;
	}
	ok(latency.p99 > 3000 * MS, "p99 is never too small, and too large by a quarter at most");
}

int main(void)
{
	test_p99();
	test_mean();
	test_ends();
	return tap_done();
}
