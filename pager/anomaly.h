/*
 * anomaly: pages that are not where their state says.
 *
 * A page that is called resident may be absent, because something dropped it unseen. Either the program called
 * madvise(2) past libc, or farpage has a bug. The page reads as zeroes, as it would without farpage, so the program
 * continues. `dropped_pages` counts such pages. The log reports the first one and every doubling.
 *
 * A page may be present although its contents are elsewhere. Then one of the two copies is wrong, and nothing tells
 * which. The process is stopped before it reads the page.
 *
 * Threads: handler and evictor.
 */
#ifndef PAGER_ANOMALY_H
#define PAGER_ANOMALY_H

#include "pager/core.h"

/* Counts @page, which is called resident and is absent. */
void anomaly_dropped(struct core *core, uint64_t page);
/* Logs that @page @what, and kills the process by SIGKILL. */
void anomaly_stop(struct core *core, uint64_t page, const char *what) __attribute__((noreturn));

#endif
