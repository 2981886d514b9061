/* pager: what libfarpage offers to the preload library beyond its public header (include/farpage/farpage.h). */
#ifndef PAGER_PAGER_H
#define PAGER_PAGER_H

#include "farpage/farpage.h"
#include "pager/counters.h"
#include "pager/window.h"

struct store;

/* Connects to the donors of @options, for a window of @window_bytes; says why not. The store is the caller's. -errno.
 */
int pager_connect(const struct farpage_options *options, uint64_t window_bytes, struct store **ret_store);

/*
 * As farpage_open, but over @store and @window (reserved, possibly with allocations and contents in it), and counting
 * into @counters (zeroed; NULL: counters of its own). They stay the caller's and outlive the pager.
 */
int pager_open_store(const struct farpage_options *options, struct store *store, struct window *window,
		     struct pager_counters *counters, struct farpage **ret_farpage);

/* The smallest local budget that works, bytes, and of what that is: "", " with --backup", ... */
static inline size_t pager_local_least(bool backup, bool encrypt, const char **ret_with)
{
	*ret_with = backup && encrypt ? " with --backup and --encrypt"
		    : backup          ? " with --backup"
		    : encrypt         ? " with --encrypt"
				      : "";
	return FARPAGE_LOCAL_MIN + (backup ? FARPAGE_LOCAL_BACKUP : 0) + (encrypt ? FARPAGE_LOCAL_ENCRYPT : 0);
}

/*
 * What this kernel lacks to tell pages that a device holds, and what to do: one line; or NULL: nothing, or the caller
 * says that there are no such pages (@unsafe_dio: see farpage.h). Kernels without userfaultfd pass: what opens one
 * tells of that. Any thread.
 */
const char *pager_kernel_lacks(bool unsafe_dio);

/* Whether forked children keep far memory; else they have nothing of the window. */
bool pager_follows_forks(const struct farpage *farpage);

/*
 * A fork is about to happen in the calling thread, and no other until it has: the child's userfaultfd is sent over
 * @socket (one byte with SCM_RIGHTS), which is then closed. So the child can keep it from ending with this process. A
 * byte alone: there are too many children, this one has to end; nothing: its far memory is poisoned. False: forks are
 * not followed here (see farpage doctor), and the socket stays the caller's.
 */
bool pager_fork_announce(struct farpage *farpage, int socket);

/*
 * Keeps the page at @address in local memory until it is discarded, for the kernel uses it when a thread ends and takes
 * no fault then. -ENOSPC: a quarter of the budget is kept already; -EFAULT: the page cannot be had. Any thread of the
 * program.
 */
int pager_keep(struct farpage *farpage, const void *address);

/* The userfaultfd of the window: for others to watch over, never to answer. */
int pager_descriptor(const struct farpage *farpage);

#endif
