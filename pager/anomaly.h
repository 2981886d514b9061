/*
 * anomaly: handles pages that are not where their state says.
 *
 * Absent although resident. Something dropped the page without farpage's knowledge: the program made the madvise(2)
 * system call itself, or farpage has a bug. The page reads as zeroes, as it would without farpage, and the program
 * continues. `dropped_pages` counts such pages. The first one is logged, and then each time the count has doubled.
 *
 * Present although its contents are elsewhere. One of the two copies is wrong, and farpage cannot know which. The
 * process is stopped before it reads the page.
 *
 * Threads: the handler and the evictor.
 */
#ifndef PAGER_ANOMALY_H
#define PAGER_ANOMALY_H

#include "pager/core.h"

void anomaly_dropped(struct core *core, uint64_t page);
/* Logs a line about @page that contains @what, and kills the process by SIGKILL. */
void anomaly_stop(struct core *core, uint64_t page, const char *what) __attribute__((noreturn));

#endif
