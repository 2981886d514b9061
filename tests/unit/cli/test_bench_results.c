/* bench_results: what is reckoned from the figures. */
#include "bench_fixture.h"
#include "tests/tap.h"
#include <math.h>

static void test_rates(void)
{
	struct bench_point point = {.seconds = 2, .latency.count = 1000};

	ok(bench_point_rate(&point) == 0, "a point that was not measured has no rate");
	point.measured = true;
	ok(bench_point_rate(&point) == 500, "pages a second");
	point.seconds = 0;
	ok(bench_point_rate(&point) == 0, "no time, no rate");
}

static void test_latency(void)
{
	static struct histogram histogram;

	for (unsigned i = 0; i < 10000; i++)
		histogram_record(&histogram, i < 9950 ? 10 : i < 9985 ? 20 : 30);
	struct bench_latency latency = bench_latency_of(&histogram);
	ok(latency.count == 10000 && latency.p50 == 10 && latency.p99 == 10 && latency.p999 == 30,
	   "count, p50, p99, p99.9");
}

static void test_lookup(void)
{
	struct bench_results results;

	fixture_fill(&results);
	ok(bench_donor_point(&results, 0, BENCH_READ, 8) == &results.donors[0].points[BENCH_READ][1], "by depth");
	ok(!bench_donor_point(&results, 0, BENCH_READ, 16), "no such depth");
	ok(!bench_donor_point(&results, 1, BENCH_WRITE, 8), "not measured");
	ok(strcmp(bench_donor_label(&results, 1), "rdma") == 0, "a donor is called by its fabric");
	strcpy(results.donors[1].fabric, "tcp");
	ok(strcmp(bench_donor_label(&results, 1), RDMA) == 0, "unless another has the same");
	bench_donor_set_fabric(&results.donors[0], "fault+tcp://10.0.0.7:1");
	ok(strcmp(results.donors[0].fabric, "fault+tcp") == 0, "the fabric is the address's scheme");
	bench_donor_set_fabric(&results.donors[0], "10.0.0.7");
	ok(strcmp(results.donors[0].fabric, "?") == 0, "what is no address has none");
}

static void test_shares(void)
{
	struct bench_results results;
	struct bench_shares shares = {0};

	fixture_fill(&results);
	ok(bench_donor_shares(&results, 0, &shares) && shares.fault == 20 && shares.resolve == 7 && shares.read == 10 &&
	       fabs(shares.rest - 3) < 1e-9,
	   "20 us are 7 of userfaultfd, 10 of the page and 3 more");
	ok(bench_donor_shares(&results, 1, &shares) && fabs(shares.rest + 0.5) < 1e-9,
	   "parts that take longer alone than together leave less than nothing");
	results.donors[0].points[BENCH_READ][0].measured = false;
	ok(!bench_donor_shares(&results, 0, &shares), "not without the read");
	results.userfaultfd.latency.count = 0;
	ok(!bench_donor_shares(&results, 1, &shares), "not without the floor");
}

int main(void)
{
	test_rates();
	test_latency();
	test_lookup();
	test_shares();
	return tap_done();
}
