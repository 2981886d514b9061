/* report: this process's slot in the report of its `farpage run` (pager/counters.h). */
#ifndef PAGER_PRELOAD_REPORT_H
#define PAGER_PRELOAD_REPORT_H
#include "pager/counters.h"
#include "pager/window.h"
/* Claims a slot of the report at @path for the life of this program. @pids is the PID namespace of `farpage run`, as in
   struct settings. Returns the slot's counters. Returns NULL if there is no report or no free slot; the process then
   works, but is not in the report. Logs a line if the process cannot report. */
struct pager_counters *report_claim(const char *path, const char *pids);
/* Reports to `farpage run` that this process has started a pager over @window, with the userfaultfd @uffd. Must be
   called after report_claim(). */
void report_pager(int uffd, const struct window *window);
#endif
