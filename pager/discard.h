/*
 * discard: makes pages of the window read as zeroes, and frees their memory here and on the donors. Any thread of the
 * program calls discard_pages(), for munmap(2) and MADV_DONTNEED.
 *
 * A page that is being discarded is PAGE_DISCARDING. If another thread works on a page, the discarding thread waits
 * until that thread is done. Two threads that discard the same pages cannot deadlock, because each takes its pages in
 * ascending order.
 */
#ifndef PAGER_DISCARD_H
#define PAGER_DISCARD_H
#include "pager/core.h"
void discard_pages(struct core *core, uint64_t page, uint64_t count);
#endif
