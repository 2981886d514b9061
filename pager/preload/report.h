/* report: this process's slot in the report of its `farpage run` (pager/counters.h). */
#ifndef PAGER_PRELOAD_REPORT_H
#define PAGER_PRELOAD_REPORT_H
#include "pager/counters.h"
#include "pager/window.h"
/* A slot of the file at @path, for the life of the process, or NULL when there is none to be had: then nothing is
   reported, and nothing else is amiss. */
struct pager_counters *report_claim(const char *path);
/* Tells the `farpage run` whose report was claimed that this process has a pager over @window, which hears faults by
   @uffd. */
void report_pager(int uffd, const struct window *window);
#endif
