/*
 * counters: the counters of a pager. Other processes may read them while the pager runs: `farpage run` maps those of
 * every process of its command. Each field has one writer, or all writers add to it atomically. Readers take a snapshot
 * with relaxed loads.
 */
#ifndef PAGER_COUNTERS_H
#define PAGER_COUNTERS_H

#include "common/histogram.h"
#include "farpage/farpage.h"
#include <stdint.h>

struct pager_counters {
	uint64_t resident_pages;   /* pages of the program on this machine */
	uint64_t overhead_bytes;   /* farpage's own buffers and bookkeeping */
	uint64_t local_peak_bytes; /* peak of resident pages and overhead together */
	uint64_t far_pages, far_peak;
	uint64_t faults, faults_far, faults_buffered;
	uint64_t fetched, prefetched;
	uint64_t evicted, evicted_clean, evicted_zero;
	uint64_t stalls, lost;
	uint64_t held;    /* pages that cannot leave, because a device or their mapping holds them */
	uint64_t dropped; /* resident pages that were absent (anomaly.h) */
	uint64_t children_stopped;
	uint64_t backup_behind, backup_reads, backup_writes;
	struct histogram fault_ns; /* durations of far faults */
};

void counters_read(const struct pager_counters *counters, struct farpage_stats *ret_stats);

/* The report file of one `farpage run`: a header, and one slot for each process that has started a pager. `farpage run`
   creates and removes the file. A process claims a slot by compare-and-swap of `pid` from 0. */
#define REPORT_MAGIC 0x5250414652414650ull
#define REPORT_SLOTS 64
struct report {
	uint64_t magic;
	char told[32]; /* path of a pipe; each process that starts a pager writes a struct report_pager to it */
	struct {
		int32_t pid; /* 0 for a free slot */
		uint32_t reserved;
		struct pager_counters counters;
	} slots[REPORT_SLOTS];
};

/* A process whose memory is partly far, and its userfaultfd. */
struct report_pager {
	int32_t pid, uffd;
	uint64_t base, length; /* base and length of the window, in bytes */
};

#endif
