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

/*
 * A fork is about to happen in the calling thread, and no other until it has: the child's userfaultfd is sent over
 * @socket (one byte with SCM_RIGHTS), which is then closed. So the child can keep it from ending with this process. A
 * byte alone: there are too many children, this one has to end; nothing: its far memory is poisoned. False: forks are
 * not followed here (see farpage doctor), and the socket stays the caller's.
 */
bool pager_fork_announce(struct farpage *farpage, int socket);

#endif
