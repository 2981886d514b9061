/*
 * anomaly: what should never be found in a page's place, and what is done about it.
 *
 * A resident page that is not there has been dropped by something farpage did not see: a madvise(2) of the program that
 * did not go through libc, or a bug of ours. It reads as zeroes, as it would without farpage, so the program goes on;
 * the page is counted (dropped_pages), and the log tells of the first one and of every doubling.
 *
 * A page that is there although its contents are elsewhere means that one of the two is wrong, and nobody can tell
 * which. The process is stopped before it reads it.
 *
 * Threads: the handler and the evictor.
 */
#ifndef PAGER_ANOMALY_H
#define PAGER_ANOMALY_H

#include "pager/core.h"

/* Counts @page, which was called resident and is not there. */
void anomaly_dropped(struct core *core, uint64_t page);
/* Logs that @page @what, and ends the process by SIGKILL. */
void anomaly_stop(struct core *core, uint64_t page, const char *what) __attribute__((noreturn));

#endif
