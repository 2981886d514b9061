/* bench_scale: axes contain every value, end at round numbers, and convert in both directions. */
#include "bench_fixture.h"
#include "cli/bench/bench_scale.h"
#include "common/random.h"
#include "tests/lib/tap.h"

#include <math.h>

static void axes_of_known_values_end_at_round_numbers(void)
{
	struct bench_results results;
	struct bench_scale scale;

	fixture_fill(&results);
	scale = bench_scale_rates(&results, BENCH_READ);
	ok(scale.low == 0 && scale.high == 800 && !scale.logarithmic,
	   "rates up to 600 thousand have an axis up to 800");
	scale = bench_scale_latencies(&results, BENCH_READ);
	ok(scale.low == 2 && scale.high == 512 && scale.logarithmic,
	   "latencies of 2.5 to 160 us have a logarithmic axis from 2 to 512");
	ok(fabs(bench_scale_place(&scale, 32) - 0.5) < 1e-9, "32 us lies in the middle of an axis from 2 to 512");
	ok(fabs(bench_scale_value(&scale, 0.25) - 8) < 1e-9, "a quarter of an axis from 2 to 512 is 8");
	memset(results.donors, 0, sizeof results.donors);
	scale = bench_scale_rates(&results, BENCH_READ);
	ok(scale.low == 0 && scale.high == 1, "rates without measured points have an axis from 0 to 1");
	scale = bench_scale_latencies(&results, BENCH_READ);
	ok(scale.low > 0 && scale.high > scale.low, "latencies without measured points have an axis above 0");
}

static void axes_contain_any_value(void)
{
	struct random_state chance;
	unsigned outside = 0, astray = 0;

	random_seed(&chance, 7);
	for (unsigned i = 0; i < 2000; i++) {
		struct bench_results results;
		struct bench_scale scales[2];

		fixture_fill(&results);
		for (unsigned j = 0; j < 3; j++)
			results.donors[0].points[BENCH_READ][j] =
			    fixture_point(1 + (unsigned)random_below(&chance, 1u << random_below(&chance, 31)),
					  1 + random_below(&chance, UINT64_C(1) << random_below(&chance, 40)));
		scales[0] = bench_scale_rates(&results, BENCH_READ);
		scales[1] = bench_scale_latencies(&results, BENCH_READ);
		for (unsigned j = 0; j < 3; j++) {
			for (unsigned metric = BENCH_RATE; metric <= BENCH_P99; metric++) {
				const struct bench_scale *scale = &scales[metric != BENCH_RATE];
				double value = bench_metric_of(&results.donors[0].points[BENCH_READ][j],
							       (enum bench_metric)metric);
				double place = bench_scale_place(scale, value);

				outside += !(place >= -1e-6 && place <= 1 + 1e-6);
				astray += !(fabs(bench_scale_value(scale, place) - value) <= value * 1e-6);
			}
		}
	}
	ok(outside == 0, "no random value lies outside its axis (%u)", outside);
	ok(astray == 0, "the place of each random value converts back to the value (%u do not)", astray);
}

int main(void)
{
	axes_of_known_values_end_at_round_numbers();
	axes_contain_any_value();
	return tap_done();
}
