/* bench_scale: axes of the plots of a benchmark. Pure. */
#ifndef CLI_BENCH_SCALE_H
#define CLI_BENCH_SCALE_H
#include "cli/bench/bench_results.h"

#include <stdbool.h>

/* The quantity that a panel of a plot shows over the depth. */
enum bench_metric { BENCH_RATE, BENCH_P50, BENCH_P99 };

/* Returns thousands of pages per second for BENCH_RATE, us for BENCH_P50 and BENCH_P99, or 0 if the point was not
   measured. */
double bench_metric_of(const struct bench_point *point, enum bench_metric metric);

struct bench_scale {
	double low, high; /* the ends of the axis, round numbers that enclose all values */
	bool logarithmic;
};
/* Returns an axis from 0 for the rates of one operation. If all rates are 0, it ends at 1. */
struct bench_scale bench_scale_rates(const struct bench_results *results, enum bench_op op);
/* Returns a logarithmic axis for the p50 and p99 of one operation. It spans 4, 8, 12, ... powers of 2, so that each
   quarter of the axis ends at a power of 2. */
struct bench_scale bench_scale_latencies(const struct bench_results *results, enum bench_op op);
/* Return the place of a value on the axis, from 0 to 1, and the value at a place. */
double bench_scale_place(const struct bench_scale *scale, double value);
double bench_scale_value(const struct bench_scale *scale, double place);

#endif
