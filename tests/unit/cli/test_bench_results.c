/* bench_results: the values that are computed from the measured figures. */
#include "bench_fixture.h"
#include "tests/lib/tap.h"

#include <math.h>

static void a_rate_is_pages_per_second(void)
{
	struct bench_point point = {.seconds = 2, .latency.count = 1000};

	ok(bench_point_rate(&point) == 0, "a point that was not measured has no rate");
	point.measured = true;
	ok(bench_point_rate(&point) == 500, "the rate of a point is its pages per second");
	point.seconds = 0;
	ok(bench_point_rate(&point) == 0, "a point of 0 seconds has no rate");
}

static void a_histogram_gives_its_percentiles(void)
{
	static struct histogram histogram;

	for (unsigned i = 0; i < 10000; i++)
		histogram_record(&histogram, i < 9950 ? 10 : i < 9985 ? 20 : 30);
	struct bench_latency latency = bench_latency_of(&histogram);
	ok(latency.count == 10000 && latency.p50 == 10 && latency.p99 == 10 && latency.p999 == 30,
	   "a histogram gives count, p50, p99 and p99.9");
}

static void points_and_labels_are_found(void)
{
	struct bench_results results;

	fixture_fill(&results);
	ok(bench_donor_point(&results, 0, BENCH_READ, 8) == &results.donors[0].points[BENCH_READ][1],
	   "a point is found by its donor, operation and depth");
	ok(!bench_donor_point(&results, 0, BENCH_READ, 16), "no point is found at a depth that was not run");
	ok(!bench_donor_point(&results, 1, BENCH_WRITE, 8), "a point that was not measured is not found");
	ok(strcmp(bench_donor_label(&results, 1), "rdma") == 0, "a donor's label is its fabric");
	strcpy(results.donors[1].fabric, "tcp");
	ok(strcmp(bench_donor_label(&results, 1), RDMA) == 0,
	   "a donor's label is its address if another donor has the same fabric");
	bench_donor_set_fabric(&results.donors[0], "auto://10.0.0.7:1");
	ok(strcmp(results.donors[0].fabric, "auto") == 0, "a donor's fabric is the scheme of its address");
	bench_donor_set_fabric(&results.donors[0], "10.0.0.7");
	ok(strcmp(results.donors[0].fabric, "?") == 0, "an address without a scheme has the fabric \"?\"");
}

static void a_far_fault_is_divided_into_its_parts(void)
{
	struct bench_results results;
	struct bench_shares shares = {0};

	fixture_fill(&results);
	ok(bench_donor_shares(&results, 0, &shares) && shares.fault == 20 && shares.resolve == 7 && shares.read == 10 &&
	       fabs(shares.rest - 3) < 1e-9,
	   "a far fault of 20 us is 7 of userfaultfd, 10 of the read and 3 of the rest");
	ok(bench_donor_shares(&results, 1, &shares) && fabs(shares.rest + 0.5) < 1e-9,
	   "parts that take longer alone than together give a negative rest");
	results.donors[0].points[BENCH_READ][0].measured = false;
	ok(!bench_donor_shares(&results, 0, &shares), "a far fault without a measured read has no shares");
	results.userfaultfd.latency.count = 0;
	ok(!bench_donor_shares(&results, 1, &shares), "a far fault without measured userfaultfd has no shares");
}

int main(void)
{
	a_rate_is_pages_per_second();
	a_histogram_gives_its_percentiles();
	points_and_labels_are_found();
	a_far_fault_is_divided_into_its_parts();
	return tap_done();
}
