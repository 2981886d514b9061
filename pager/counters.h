/*
 * counters: the counters of a pager. Other processes read them while the pager runs: `farpage run` maps the counters
 * of every process that it started. A field has one writer, or all its writers add atomically. Readers use relaxed
 * loads.
 */
#ifndef PAGER_COUNTERS_H
#define PAGER_COUNTERS_H

#include "common/histogram.h"
#include "farpage/farpage.h"

#include <stdint.h>

struct pager_counters {
	uint64_t resident_pages;   /* the program's pages in local memory */
	uint64_t overhead_bytes;   /* memory of farpage's own buffers and tables */
	uint64_t local_peak_bytes; /* highest sum of resident pages and overhead */
	uint64_t far_pages, far_peak;
	uint64_t faults, faults_far, faults_buffered;
	uint64_t fetched, prefetched;
	uint64_t evicted, evicted_clean, evicted_zero;
	uint64_t stalls, lost;
	uint64_t held;             /* pages that cannot be evicted, because a device or their mapping holds them */
	uint64_t dropped;          /* resident pages that were found absent (anomaly.h) */
	uint64_t children_stopped; /* a child adds to it even when this process has ended */
	uint64_t children_pages;   /* pages that the pager has given to forked children that live */
	uint64_t backup_behind, backup_reads, backup_writes;
	uint64_t handler_user_ns, evictor_user_ns; /* processor time of the two threads in user mode, a little late */
	struct histogram fault_ns;                 /* durations of far faults */
	struct histogram depths;                   /* of fetched pages, read-ahead included (refault.h); in pages */
};

void counters_read(const struct pager_counters *counters, struct farpage_stats *ret_stats);
/* Returns the bytes of local memory that the pager has given to forked children that live. */
uint64_t counters_children(const struct pager_counters *counters);

/* The report file of one `farpage run`: a header, and one slot for each process that has a pager. `farpage run` makes
   and removes the file. A process claims a free slot by compare-and-swap of `pid` from 0. When the process has ended,
   `farpage run` adds its counters to sums of its own, sets them to 0 except children_stopped, and frees the slot. A
   process that claims a slot sets REPORT_ENDED in the slot of an earlier program with its PID. */
#define REPORT_MAGIC 0x5250414652414651ull
#define REPORT_SLOTS 256
#define REPORT_ENDED (-1)
struct report {
	uint64_t magic;
	char told[32]; /* path of a pipe, to which each process that starts a pager writes a struct report_pager */
	struct {
		int32_t pid; /* 0 for a free slot, or REPORT_ENDED */
		uint32_t reserved;
		struct pager_counters counters;
	} slots[REPORT_SLOTS];
};

/* A process that has started a pager. `pid` is its PID in the namespace of `farpage run`. `uffd` is the number of its
   userfaultfd in that process. */
struct report_pager {
	int32_t pid, uffd;
	uint64_t base, length; /* the window: base address, and length in bytes */
};

#endif
