/* bench_scale: see bench_scale.h. */
#include "cli/bench/bench_scale.h"

#include <math.h>

#define POWERS_STEP 4 /* a logarithmic axis spans a multiple of 4 powers of 2 */

double bench_metric_of(const struct bench_point *point, enum bench_metric metric)
{
	if (!point->measured)
		return 0;
	if (metric == BENCH_RATE)
		return bench_point_rate(point) / 1e3;
	return (double)(metric == BENCH_P50 ? point->latency.p50 : point->latency.p99) / 1e3;
}

/* Widens the range @low to @high to include all measured values. If there are none, the range stays 0 to 0. */
static void scale_range(const struct bench_results *results, enum bench_op op, enum bench_metric metric, double *low,
			double *high)
{
	for (unsigned donor = 0; donor < results->donor_count; donor++) {
		for (unsigned i = 0; i < results->depth_count; i++) {
			double value = bench_metric_of(&results->donors[donor].points[op][i], metric);

			if (value > 0 && (*low <= 0 || value < *low))
				*low = value;
			if (value > *high)
				*high = value;
		}
	}
}

/* Rounds @value up to 1, 2, 4, 5, 8 or 10 times a power of ten, because a quarter of such a number has few digits. */
static double scale_round_up(double value)
{
	static const double steps[] = {1, 2, 4, 5, 8, 10};
	double unit = pow(10, floor(log10(value)));

	for (unsigned i = 0; i < sizeof steps / sizeof steps[0]; i++)
		if (value <= steps[i] * unit * (1 + 1e-9))
			return steps[i] * unit;
	return 10 * unit;
}

struct bench_scale bench_scale_rates(const struct bench_results *results, enum bench_op op)
{
	double low = 0, high = 0;

	scale_range(results, op, BENCH_RATE, &low, &high);
	return (struct bench_scale){.low = 0, .high = high > 0 ? scale_round_up(high) : 1};
}

struct bench_scale bench_scale_latencies(const struct bench_results *results, enum bench_op op)
{
	struct bench_scale scale = {.logarithmic = true};
	double low = 0, high = 0, powers = POWERS_STEP;

	scale_range(results, op, BENCH_P50, &low, &high);
	scale_range(results, op, BENCH_P99, &low, &high);
	if (high <= 0)
		low = high = 1;
	scale.low = exp2(floor(log2(low)));
	while (scale.low * exp2(powers) < high * (1 - 1e-9))
		powers += POWERS_STEP;
	scale.high = scale.low * exp2(powers);
	return scale;
}

double bench_scale_place(const struct bench_scale *scale, double value)
{
	if (scale->logarithmic)
		return log2(value / scale->low) / log2(scale->high / scale->low);
	return (value - scale->low) / (scale->high - scale->low);
}

double bench_scale_value(const struct bench_scale *scale, double place)
{
	if (scale->logarithmic)
		return scale->low * exp2(place * log2(scale->high / scale->low));
	return scale->low + place * (scale->high - scale->low);
}
