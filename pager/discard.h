/*
 * discard: makes pages of the window read as zeroes, and frees their memory here and on the donors (munmap,
 * MADV_DONTNEED). Any thread of the program may call it. It waits for pages that another thread is moving.
 *
 * Pages are PAGE_DISCARDING while they are dropped, in portions of ascending order. So two threads that discard the
 * same pages cannot wait for each other.
 */
#ifndef PAGER_DISCARD_H
#define PAGER_DISCARD_H
#include "pager/core.h"
void discard_pages(struct core *core, uint64_t page, uint64_t count);
#endif
