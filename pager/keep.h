/*
 * keep: pages that must not leave, because the kernel uses them at a moment when it takes no fault: at the end of a
 * thread, its robust mutexes and the word that pthread_join() waits for.
 *
 * A kept page is marked PAGE_KEPT, which pages_move() honours, and stands in no queue of residents. It stays until it
 * is discarded.
 */
#ifndef PAGER_KEEP_H
#define PAGER_KEEP_H

#include "pager/core.h"

/*
 * Brings the page in and keeps it. -ENOSPC: a quarter of the budget is kept already; -EFAULT: the page cannot be had. A
 * thread of the program, or of farpage; not the handler or the evictor.
 */
int keep_page(struct core *core, uint64_t page);
/* The page is being discarded. */
void keep_forget(struct core *core, uint64_t page);

#endif
