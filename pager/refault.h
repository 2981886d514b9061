/*
 * refault: computes for each fetched page how many more pages of local memory would have kept the page here. This
 * number is the page's *depth*. Linux's mm/workingset.c has a similar number, the refault distance.
 *
 * Theory of operation. Imagine all far pages in a row. The page that became far last is in front. A fetched page leaves
 * the row. Its depth is its place in the row. If local memory were larger by this depth, and pages used longest ago
 * were evicted first, the fetched page would still be here. A page has only one place in the row, however often it
 * becomes far.
 *
 * The row is stored as one counter for each *generation*. A generation is a number of pages that became far in
 * succession: between a 32nd and a sixteenth of the budget. The word of a far page has a stamp, the number of the
 * page's generation. The stamp is in the bits that a buffered page uses for its frame (pages.h). The depth is the sum
 * of the counters from the page's generation on. Sums of 64 counters are kept, too, so that a depth is a sum of some
 * 100 numbers at most. All this costs no system call and no lock.
 *
 * Generations whose counters are no longer kept count as one generation, the oldest. Stamps have 24 bits. After 2^24
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
	uint64_t departed; /* how many times a page became far */
	int32_t far[REFAULT_GENERATIONS], sums[REFAULT_BLOCKS];
	int32_t oldest; /* far pages of older generations */
};

/* @depths gets the depths of fetched pages, in pages. @budget: local memory in pages. */
void refault_open(struct refault *refault, struct histogram *depths, uint64_t budget);
/* Returns the stamp of the next page that becomes far. refault_count() counts the page after it has become far. */
uint32_t refault_stamp(const struct refault *refault);
void refault_count(struct refault *refault);
/* Records the depth of a page that was fetched, and forgets the page. @stamp is from its word. Returns the depth. */
uint64_t refault_record(struct refault *refault, uint32_t stamp);
/* Forgets a page that is no longer far, because it was discarded or is lost. */
void refault_forget(struct refault *refault, uint32_t stamp);

#endif
