/*
 * bench_scale: axes for the plots of a benchmark. Pure.
 */
#ifndef CLI_BENCH_SCALE_H
#define CLI_BENCH_SCALE_H
#include "cli/bench_results.h"
#include <stdbool.h>

/* What a panel of a plot shows over the depth. */
enum bench_metric { BENCH_RATE, BENCH_P50, BENCH_P99 };

/* Thousand pages a second, or us; 0 when the point was not measured. */
double bench_metric_of(const struct bench_point *point, enum bench_metric metric);

struct bench_scale {
	double low, high; /* the ends of the axis: round numbers around all values */
	bool logarithmic;
};
/* Of the rates of one operation, from 0. All 0: an axis from 0 to 1. */
struct bench_scale bench_scale_rates(const struct bench_results *results, enum bench_op op);
/* Of its latencies, p50 and p99: over 4, 8, 12, ... powers of 2, so that fourths of the axis are powers, too. */
struct bench_scale bench_scale_latencies(const struct bench_results *results, enum bench_op op);
/* Where on the axis a value is, 0 .. 1, and the other way round. */
double bench_scale_place(const struct bench_scale *scale, double value);
double bench_scale_value(const struct bench_scale *scale, double place);

#endif
