/*
 * latency: how fast one donor answers reads, as one queue sees it.
 *
 * Theory of operation. latency_record() updates a moving mean, by which donors are compared, and a small histogram,
 * which gives p99. The histogram has four buckets per power of two, from 256 ns to 4 s. After LATENCY_WINDOW
 * answers all buckets are halved, so that old answers count less.
 *
 * The mean falls faster than it rises. So a single slow answer does not divert reads from a fast donor, and a
 * recovered donor soon counts as fast again. An overdue answer already counts before it arrives (latency_overdue()).
 *
 * Threads: the queue's. No allocation, no lock. Times are in ns.
 */
#ifndef CLIENT_LATENCY_H
#define CLIENT_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#define LATENCY_BUCKETS 96u
#define LATENCY_WINDOW 1024u
/* p99 is known after this many answers. */
#define LATENCY_KNOWN 64u
/* The mean may count against a donor after this many answers. */
#define LATENCY_JUDGED 8u

/* The assumed mean of a donor that was never measured. It is higher than the mean of a fast donor, and lower than
   the mean of a donor with an overdue answer (far_hedge.h). */
#define LATENCY_UNKNOWN_NS UINT64_C(1000000)

/* Initially all zero. */
struct latency {
	uint64_t mean; /* 0 if not known yet */
	uint64_t p99;  /* 0 if not known yet */
	uint32_t count;
	uint16_t buckets[LATENCY_BUCKETS];
	uint32_t window; /* the sum of the buckets */
};

static inline uint64_t latency_expected(const struct latency *latency)
{
	return latency->mean ? latency->mean : LATENCY_UNKNOWN_NS;
}

/* Records a read that was answered after @ns. Returns true if p99 was computed anew. */
bool latency_record(struct latency *latency, uint64_t ns);
/* Records that a read has not been answered for @ns. */
void latency_overdue(struct latency *latency, uint64_t ns);

#endif
