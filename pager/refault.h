/*
 * refault: for each page that is fetched, how much more local memory would have kept the page here. This number of
 * pages is the page's *depth*. Linux's mm/workingset.c has a similar number, the refault distance.
 *
 * Theory of operation. Imagine all far pages in a row, the one that became far last in front. A fetched page leaves the
 * row. Its depth is its place in the row. With as many more pages of local memory, an order of eviction by last use
 * would not have made the page far. So a page counts once, however often it becomes far.
 *
 * The row is stored as one counter for each *generation*. A generation is a sixteenth to a 32nd of the budget, in pages
 * that became far in succession. The word of a far page has a stamp, the number of its generation, in the bits that a
 * buffered page uses for its frame (pages.h). The depth is the sum of the counters from the page's generation on.
 * Sums of 64 counters are kept, too, so that a depth is a sum of some 100 numbers at most. All this costs no system
 * call and no lock.
 *
 * Pages of generations that are no longer kept count as one generation, the oldest. Stamps have 24 bits. After 2^24
 * generations, which is 500,000 times the budget, the stamp of a page that is still far looks young again. Such pages
 * are too rare to matter.
 *
 * Threads. Only the evictor calls refault_stamp() and refault_count(), only the handler calls refault_record(). Any
 * thread calls refault_forget(). Threads that touch the same counter at the turn of a generation may miscount a page.
 */
#ifndef PAGER_REFAULT_H
#define PAGER_REFAULT_H

#include "common/histogram.h"
#include <stdint.h>

#define REFAULT_BLOCK 64u /* counters per sum */
#define REFAULT_BLOCKS 32u
#define REFAULT_GENERATIONS (REFAULT_BLOCK * REFAULT_BLOCKS) /* 64 to 128 times the budget */

struct refault {
	struct histogram *depths;
	unsigned shift;    /* a generation has 2^shift pages */
	uint64_t departed; /* pages that became far, each time */
	int32_t far[REFAULT_GENERATIONS], sums[REFAULT_BLOCKS];
	int32_t oldest; /* far pages of older generations */
};

/* @depths gets the depths of fetched pages, in pages. @budget: local memory in pages. */
void refault_open(struct refault *refault, struct histogram *depths, uint64_t budget);
/* Returns the stamp of the next page that becomes far. refault_count() counts the page after it has become far. */
uint32_t refault_stamp(const struct refault *refault);
void refault_count(struct refault *refault);
/* Records the depth of a page that was fetched, and forgets the page. @stamp is from its word. */
void refault_record(struct refault *refault, uint32_t stamp);
/* Forgets a page that is no longer far, because it was discarded or is lost. */
void refault_forget(struct refault *refault, uint32_t stamp);

#endif
