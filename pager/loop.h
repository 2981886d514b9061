/*
 * loop: notices that a program uses the same pages again and again in the same order, and chooses the pages to keep.
 *
 * Theory of operation. If the pages of such a loop do not all fit, the order of last use is the worst order of
 * eviction. Each page leaves before the program comes back to it. So every page is fetched in every round, even if
 * nearly all pages would fit.
 *
 * The fetched pages of a loop have nearly the same depth (refault.h): the length of the loop minus local memory. So
 * the program counts as in a loop while the depths of its fetched pages differ little from their mean. Random accesses
 * do not look like this, because their depths lie anywhere between 0 and the number of far pages.
 *
 * In a loop, only one in LOOP_SHARE fetched pages enters the proven queue (residents.h). It stays there for several
 * rounds, because few pages follow it. The other pages enter the young queue and leave soon. This is the bimodal
 * insertion of Qureshi and others, "Adaptive Insertion Policies for High Performance Caching" (2007). Neighbours are
 * chosen together, so that read-ahead finds long runs of far pages.
 *
 * Only the handler's thread uses a struct loop.
 */
#ifndef PAGER_LOOP_H
#define PAGER_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#define LOOP_SHARE 16u
#define LOOP_UNIT 256

struct loop {
	int64_t budget; /* like the fields below, in pages times LOOP_UNIT */
	/* The mean of the depths of the pages fetched last, and their mean distance from it. */
	int64_t mean, deviation;
};

/* The program is in no loop at first. @budget: local memory in pages. */
void loop_open(struct loop *loop, uint64_t budget);
/* Notes the depth, in pages, of a page that was fetched. Returns true if the program is in a loop. */
bool loop_note(struct loop *loop, uint64_t depth);
/* Returns true if the fetched page should be kept in a loop. @stamp is from the page's word (refault.h), so that other
   pages are chosen when the pages have left again. */
bool loop_keeps(uint64_t page, uint32_t stamp);

#endif
