/*
 * histogram: counts durations from 1 ns to 68 s, or other numbers up to 2^36. Each power of two is divided into 32
 * buckets, so the width of a bucket is about 3 % of its values. (Debian 12 has no C library for this.)
 *
 * Threads: one thread calls histogram_record(). Any thread may read at the same time.
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
/* Returns a quantile in ns, or 0 if the histogram is empty. @per_mille is 500 for the median, 990 for p99, 999 for
   p99.9. The value is the middle of the quantile's bucket. */
uint64_t histogram_quantile(const struct histogram *histogram, unsigned per_mille);
/* Returns the sum of all values in ns, each taken as the middle of its bucket. */
uint64_t histogram_sum(const struct histogram *histogram);
/* Returns the largest value that bucket @bucket counts. The last bucket also counts larger values. */
uint64_t histogram_bucket_end(unsigned bucket);
/* For each power of two from 2^@first ns to 2^@last ns (5 <= @first, @last <= 35), writes how many values are below
   it. Returns the number of all values, which is never lower. */
uint64_t histogram_below_powers(const struct histogram *histogram, unsigned first, unsigned last, uint64_t *ret_below);
void histogram_add(struct histogram *histogram, const struct histogram *other);
#endif
