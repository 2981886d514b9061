/* report: this process's slot in the report of its `farpage run` (pager/counters.h). */
#ifndef PAGER_PRELOAD_REPORT_H
#define PAGER_PRELOAD_REPORT_H
#include "pager/counters.h"
#include "pager/window.h"
/* Claims a slot of the report at @path for the life of the process. Returns its counters, or NULL if there is none.
   Without counters the process reports nothing, and all else works. */
struct pager_counters *report_claim(const char *path);
/* Tells the `farpage run` whose report was claimed that this process has a pager over @window. @uffd is the window's
   userfaultfd. */
void report_pager(int uffd, const struct window *window);
#endif
