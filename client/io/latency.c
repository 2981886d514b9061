/* latency: see latency.h. */
#include "client/io/latency.h"

#define LEAST_SHIFT 8u /* the first bucket: below 2^8 ns */
#define RISE 8
#define FALL 2
/* p99 is computed anew each time this many answers have arrived. */
#define LOOK 32u

static unsigned bucket_of(uint64_t ns)
{
	unsigned power, index;

	if (ns < 1u << LEAST_SHIFT)
		return 0;
	power = 63u - (unsigned)__builtin_clzll(ns);
	index = (power - LEAST_SHIFT) * 4 + (unsigned)(ns >> (power - 2) & 3);
	return index < LATENCY_BUCKETS ? index : LATENCY_BUCKETS - 1;
}

/* Returns a value above all times in the bucket. */
static uint64_t bucket_end(unsigned index)
{
	return (UINT64_C(5) + index % 4) << (LEAST_SHIFT - 2 + index / 4);
}

static void window_halve(struct latency *latency)
{
	latency->window = 0;
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		latency->buckets[i] /= 2;
		latency->window += latency->buckets[i];
	}
}

static uint64_t window_p99(const struct latency *latency)
{
	uint32_t above = 0;
	unsigned i = LATENCY_BUCKETS;

	while (i && above <= latency->window / 100)
		above += latency->buckets[--i];
	return bucket_end(i);
}

bool latency_record(struct latency *latency, uint64_t ns)
{
	uint64_t mean = latency->mean;

	if (!mean)
		latency->mean = ns ? ns : 1;
	else if (ns < mean)
		latency->mean = mean - (mean - ns) / FALL;
	else
		latency->mean = mean + (ns - mean) / RISE;
	latency->buckets[bucket_of(ns)]++;
	if (++latency->window >= LATENCY_WINDOW)
		window_halve(latency);
	latency->count++;
	if (latency->count < LATENCY_KNOWN || latency->count % LOOK)
		return false;
	latency->p99 = window_p99(latency);
	return true;
}

void latency_overdue(struct latency *latency, uint64_t ns)
{
	if (latency->mean < ns)
		latency->mean = ns;
	if (latency->count < LATENCY_JUDGED)
		latency->count = LATENCY_JUDGED;
}
