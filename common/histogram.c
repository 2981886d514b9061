/*
 * histogram: see histogram.h.
 *
 * Theory of operation. Each value below 32 has a bucket of its own. Each of the next 31 powers of two (32 to 63, 64 to
 * 127, ...) is divided into 32 buckets of equal width. The last bucket also counts all values from 2^36 ns = 68 s on.
 *
 * Threads. The recording thread adds by a relaxed load and a relaxed store, which are cheaper than an atomic addition.
 * A reader may see the new value of a bucket and the old total. So histogram_quantile() sums up the buckets, and does
 * not read the total.
 */
#include "common/histogram.h"

#include <assert.h>

#define PART_BITS 5 /* 32 buckets per power of two */
#define PARTS (1u << PART_BITS)

static_assert(HISTOGRAM_BUCKETS % PARTS == 0, "whole powers of two");

static unsigned bucket_of(uint64_t ns)
{
	if (ns < PARTS)
		return (unsigned)ns;
	unsigned power = 63 - (unsigned)__builtin_clzll(ns);
	unsigned shift = power - PART_BITS;
	unsigned bucket = (shift + 1) * PARTS + (unsigned)(ns >> shift) % PARTS;
	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static uint64_t bucket_middle(unsigned bucket)
{
	if (bucket < PARTS)
		return bucket;
	unsigned shift = bucket / PARTS - 1;
	uint64_t low = (uint64_t)(PARTS + bucket % PARTS) << shift;
	return low + (((uint64_t)1 << shift) >> 1);
}

uint64_t histogram_bucket_end(unsigned bucket)
{
	if (bucket < PARTS)
		return bucket;
	return ((uint64_t)(PARTS + bucket % PARTS + 1) << (bucket / PARTS - 1)) - 1;
}

static uint64_t counter_get(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void counter_add(uint64_t *counter, uint64_t more)
{
	__atomic_store_n(counter, counter_get(counter) + more, __ATOMIC_RELAXED);
}

void histogram_record(struct histogram *histogram, uint64_t ns)
{
	counter_add(&histogram->buckets[bucket_of(ns)], 1);
	counter_add(&histogram->count, 1);
}

uint64_t histogram_quantile(const struct histogram *histogram, unsigned per_mille)
{
	assert(per_mille <= 1000);
	uint64_t total = 0;
	for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
		total += counter_get(&histogram->buckets[bucket]);
	if (!total)
		return 0;
	/* Rounds the rank up. For example, of two values the median is the first one, and p99 is the second one. */
	uint64_t rank = (uint64_t)(((unsigned __int128)total * per_mille + 999) / 1000), seen = 0;
	if (!rank)
		rank = 1;
	for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		seen += counter_get(&histogram->buckets[bucket]);
		if (seen >= rank)
			return bucket_middle(bucket);
	}
	return bucket_middle(HISTOGRAM_BUCKETS - 1);
}

uint64_t histogram_sum(const struct histogram *histogram)
{
	uint64_t sum = 0;

	for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
		sum += counter_get(&histogram->buckets[bucket]) * bucket_middle(bucket);
	return sum;
}

uint64_t histogram_below_powers(const struct histogram *histogram, unsigned first, unsigned last, uint64_t *ret_below)
{
	assert(first >= PART_BITS && first <= last && last < PART_BITS + HISTOGRAM_BUCKETS / PARTS - 1);
	uint64_t below = 0;
	for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		unsigned power =
		    bucket / PARTS + PART_BITS - 1; /* of its lower bound; the first PARTS buckets are below */

		if (bucket % PARTS == 0 && power >= first && power <= last)
			ret_below[power - first] = below;
		below += counter_get(&histogram->buckets[bucket]);
	}
	return below;
}

void histogram_add(struct histogram *histogram, const struct histogram *other)
{
	uint64_t added = 0;

	for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		uint64_t more = counter_get(&other->buckets[bucket]);

		if (more)
			counter_add(&histogram->buckets[bucket], more);
		added += more;
	}
	counter_add(&histogram->count, added);
}
