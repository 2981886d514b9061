/*
 * latency: how fast one donor answers reads, as one queue sees it.
 *
 * Theory of operation. A moving mean, by which donors are compared, and a small histogram (four buckets per power of
 * two, 256 ns to 4 s) for p99; it is halved every LATENCY_WINDOW answers, so that old ones fade. The mean falls faster
 * than it rises: one slow answer among fast ones is no reason to leave a donor, and one that has recovered is soon
 * found to be fast again. A donor whose answer is overdue is as slow as that at least, before it has answered.
 *
 * Threads: the queue's. No allocation, no lock. Times are in ns.
 */
#ifndef CLIENT_LATENCY_H
#define CLIENT_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#define LATENCY_BUCKETS 96u
#define LATENCY_WINDOW 1024u
/* Answers before there is a p99. */
#define LATENCY_KNOWN 64u
/* Answers before the mean counts against a donor. */
#define LATENCY_JUDGED 8u

/* All zero at first. */
struct latency {
	uint64_t mean; /* 0: none */
	uint64_t p99;  /* 0: not known yet */
	uint32_t count;
	uint16_t buckets[LATENCY_BUCKETS];
	uint32_t window; /* their sum */
};

/* A read was answered after @ns. Returns whether p99 was looked up anew. */
bool latency_record(struct latency *latency, uint64_t ns);
/* One has not been answered for @ns. */
void latency_overdue(struct latency *latency, uint64_t ns);

#endif
