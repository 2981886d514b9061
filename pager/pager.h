/* pager: what libfarpage offers to the preload library beyond its public header (include/farpage/farpage.h). */
#ifndef PAGER_PAGER_H
#define PAGER_PAGER_H

#include "farpage/farpage.h"
#include "pager/counters.h"
#include "pager/window.h"

/*
 * As farpage_open, but over @window (reserved, possibly with allocations and contents in it; it stays the caller's
 * and outlives the pager), and counting into @counters (zeroed; NULL: counters of its own).
 */
int pager_open(const struct farpage_options *options, struct window *window, struct pager_counters *counters,
	       struct farpage **ret_farpage);

/* The same over any store, which stays the caller's and outlives the pager (tests, benchmarks). */
struct store;
int pager_open_store(const struct farpage_options *options, struct store *store, struct window *window,
		     struct pager_counters *counters, struct farpage **ret_farpage);

#endif
