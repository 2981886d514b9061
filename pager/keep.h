/*
 * keep: keeps in local memory the pages that the kernel accesses when a thread ends: the thread's robust mutexes,
 * and the word that pthread_join() waits for. At that moment the kernel does not wait for a missing page. The kernel
 * skips the access without an error. Then pthread_join() never returns, for example.
 *
 * A kept page has the mark PAGE_KEPT. pages_move() refuses to evict such a page, and the evictor removes it from its
 * queue. The page stays resident until it is discarded.
 */
#ifndef PAGER_KEEP_H
#define PAGER_KEEP_H

#include "pager/core.h"

/* Makes @page resident and keeps it. Returns 0, -ENOSPC if a quarter of the budget is already kept, or -EFAULT if
   the page cannot be read. Any thread except the handler and the evictor. */
int keep_page(struct core *core, uint64_t page);
/* Clears the mark of @page, which is being discarded. */
void keep_forget(struct core *core, uint64_t page);

#endif
