/*
 * discard: makes pages of the window read as zeroes, and frees their memory here and on the donors (munmap,
 * MADV_DONTNEED). Called by any thread of the program. Waits while a page is in transit.
 *
 * Pages are PAGE_DISCARDING while they are dropped, in portions of ascending order. So two threads that discard the
 * same pages cannot wait for each other in a circle.
 */
#ifndef PAGER_DISCARD_H
#define PAGER_DISCARD_H
#include "pager/core.h"
void discard_pages(struct core *core, uint64_t page, uint64_t count);
#endif
