/*
 * histogram: counts latencies from 1 ns to 68 s in log-linear buckets, 32 per power of two (3 % wide). Debian 12
 * packages no C histogram library.
 *
 * Threads: one thread records. Any thread may read a snapshot at the same time (relaxed atomics).
 */
#ifndef COMMON_HISTOGRAM_H
#define COMMON_HISTOGRAM_H
#include <stdint.h>
#define HISTOGRAM_BUCKETS (32 * 32)
struct histogram {
	uint64_t buckets[HISTOGRAM_BUCKETS];
	uint64_t count;
};
void histogram_record(struct histogram *histogram, uint64_t ns);
/* Returns a quantile in ns as the middle of its bucket, or 0 if the histogram is empty. @per_mille: 500 is the median,
   990 is p99, 999 is p99.9. */
uint64_t histogram_quantile(const struct histogram *histogram, unsigned per_mille);
/* Returns the sum of all recorded values in ns. Each counts as the middle of its bucket. */
uint64_t histogram_sum(const struct histogram *histogram);
/* Writes how many values are below each power of two in ns, from 2^@first to 2^@last (5 .. 35). Returns the number of all
   values, which is never less. */
uint64_t histogram_below_powers(const struct histogram *histogram, unsigned first, unsigned last, uint64_t *ret_below);
void histogram_add(struct histogram *histogram, const struct histogram *other);
#endif
