/*
 * discard: makes pages of the window read as zeroes, and frees their memory here and on the donors. Called for
 * munmap(2) and MADV_DONTNEED, by any thread of the program.
 *
 * While a page is discarded, it is PAGE_DISCARDING. If another thread works on a page, the discarding thread waits
 * until that thread is done. Two threads that discard the same pages cannot deadlock, because each proceeds in
 * ascending order.
 */
#ifndef PAGER_DISCARD_H
#define PAGER_DISCARD_H
#include "pager/core.h"
void discard_pages(struct core *core, uint64_t page, uint64_t count);
#endif
