/*
 * keep: keeps pages local that the kernel uses at a moment when it takes no fault. These are a thread's robust mutexes
 * and the word that pthread_join() waits for. The kernel uses them at the thread's end.
 *
 * A kept page has the mark PAGE_KEPT, which pages_move() honours. If the evictor finds a kept page in the queue of
 * residents, it drops the page from the queue. The page stays until it is discarded.
 */
#ifndef PAGER_KEEP_H
#define PAGER_KEEP_H

#include "pager/core.h"

/* Brings @page in and keeps it. Returns 0, -ENOSPC if a quarter of the budget is kept already, or -EFAULT if the page
   cannot be had. Any thread of the program or of farpage, except the handler and the evictor. */
int keep_page(struct core *core, uint64_t page);
/* Ends the keeping of @page, which is being discarded. */
void keep_forget(struct core *core, uint64_t page);

#endif
