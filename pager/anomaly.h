/*
 * anomaly: handles pages that are not where their state (pages.h) says.
 *
 * A page is absent although its state is "resident". The program made the madvise(2) system call itself, or farpage has
 * a bug. The page reads as zeroes, as it would without farpage, and the program continues. `dropped_pages` counts such
 * pages. farpage logs the first such page.
 *
 * A page is present although its state says that its contents are elsewhere. One of the two copies is wrong, and
 * farpage cannot know which. So farpage kills the process before the process reads the page.
 *
 * Threads: the handler and the evictor.
 */
#ifndef PAGER_ANOMALY_H
#define PAGER_ANOMALY_H

#include "pager/core.h"

void anomaly_dropped(struct core *core);
/* Logs a line about @page that contains @what, and kills the process by SIGKILL. */
void anomaly_stop(struct core *core, uint64_t page, const char *what) __attribute__((noreturn));

#endif
