/* pager: what libfarpage offers the preload library beyond its public header (include/farpage/farpage.h). */
#ifndef PAGER_PAGER_H
#define PAGER_PAGER_H

#include "farpage/farpage.h"
#include "pager/counters.h"
#include "pager/window.h"

struct store;

/* Connects to the donors of @options for a window of @window_bytes bytes, and logs the reason of a failure. @donors_file
   is NULL, or the absolute path of the file that the store follows (far.h). The caller owns the store. Returns 0 or
   -errno. */
int pager_connect(const struct farpage_options *options, const char *donors_file, uint64_t window_bytes,
		  struct store **ret_store);

/*
 * Does the same as farpage_open(), but over @store and @window, and counts into @counters. @window is reserved, and may
 * have allocations and contents. @counters is zeroed, or NULL for counters of the pager's own. The caller keeps all
 * three, and they must outlive the pager.
 */
int pager_open_store(const struct farpage_options *options, struct store *store, struct window *window,
		     struct pager_counters *counters, struct farpage **ret_farpage);

/* Returns the smallest local budget that works, in bytes. Sets *@ret_with to the options that enlarge the budget: "", "
   with --backup", and so on. */
static inline size_t pager_local_least(bool backup, bool encrypt, const char **ret_with)
{
	*ret_with = backup && encrypt ? " with --backup and --encrypt"
		    : backup          ? " with --backup"
		    : encrypt         ? " with --encrypt"
				      : "";
	return FARPAGE_LOCAL_MIN + (backup ? FARPAGE_LOCAL_BACKUP : 0) + (encrypt ? FARPAGE_LOCAL_ENCRYPT : 0);
}

/*
 * A kernel may lack what is needed to detect pages that a device holds. If so, returns a line that says what it lacks
 * and what to do. Otherwise returns NULL, also if the caller promises that there are no such pages (@unsafe_dio, see
 * farpage.h). Returns NULL for kernels without userfaultfd, because uffd_open() reports that. Any thread.
 */
const char *pager_kernel_lacks(bool unsafe_dio);

/* Returns true if forked children keep far memory. Otherwise forked children have no memory of the window. */
bool pager_follows_forks(const struct farpage *farpage);

/*
 * Announces that the calling thread is about to fork. No other fork may happen in between. The pager sends the child's
 * userfaultfd over @socket and closes @socket. If the child keeps its userfaultfd open, it does not end with this
 * process. The socket carries one of:
 * - one byte with SCM_RIGHTS: the userfaultfd
 * - one byte alone: there are too many children, and this child must end
 * - nothing: the child's far memory is poisoned
 *
 * Returns false if forks are not followed here (see farpage doctor). The caller then keeps @socket.
 */
bool pager_fork_announce(struct farpage *farpage, int socket);

/*
 * Keeps the page at @address in local memory until it is discarded. The kernel uses such a page when a thread ends, and
 * takes no fault then. Returns 0, -ENOSPC if a quarter of the budget is kept already, or -EFAULT if the page cannot be
 * had. Any thread of the program.
 */
int pager_keep(struct farpage *farpage, const void *address);

/* Returns the window's userfaultfd. The caller may watch it, but must never answer its faults. */
int pager_descriptor(const struct farpage *farpage);

#endif
