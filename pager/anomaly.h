/*
 * anomaly: handles pages that are not where their state says.
 *
 * A page in state "resident" may be absent, because it was dropped without farpage's knowledge. Either the program
 * called madvise(2) past libc, or farpage has a bug. The page reads as zeroes, as it would without farpage, so the
 * program continues. `dropped_pages` counts such pages. The log reports the first one and every doubling.
 *
 * A page may be present although its contents are elsewhere. Then one of the two copies is wrong, and farpage cannot
 * know which. The process is stopped before it reads the page.
 *
 * Threads: the handler and the evictor.
 */
#ifndef PAGER_ANOMALY_H
#define PAGER_ANOMALY_H

#include "pager/core.h"

/* Counts @page, which is absent although its state is "resident". */
void anomaly_dropped(struct core *core, uint64_t page);
/* Logs a line about @page that ends in @what, and kills the process by SIGKILL. */
void anomaly_stop(struct core *core, uint64_t page, const char *what) __attribute__((noreturn));

#endif
