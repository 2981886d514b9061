/*
 * discard: makes pages of the window read as zeroes again and gives back what they cost, here and on the donors
 * (munmap, MADV_DONTNEED). Any thread of the program; waits while a page is on its way somewhere.
 *
 * Pages are held as PAGE_DISCARDING while they are dropped, in portions from the lowest on, so that two threads
 * discarding the same pages cannot wait for each other in a circle.
 */
#ifndef PAGER_DISCARD_H
#define PAGER_DISCARD_H
#include "pager/core.h"
void discard_pages(struct core *core, uint64_t page, uint64_t count);
#endif
