/*
 * histogram: latencies in ns, log-linear buckets (32 per power of two: 3 % wide), 1 ns to 68 s. Debian 12 packages
 * no C histogram library. One thread records; any thread may read while it does (relaxed atomics; a snapshot).
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
/* @per_mille: 500 is the median, 990 p99, 999 p99.9. 0 when empty. The bucket's middle. */
uint64_t histogram_quantile(const struct histogram *histogram, unsigned per_mille);
/* Of all that was recorded, ns; each counts as the middle of its bucket. */
uint64_t histogram_sum(const struct histogram *histogram);
void histogram_add(struct histogram *histogram, const struct histogram *other);
#endif
