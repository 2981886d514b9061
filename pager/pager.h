/* pager: functions of libfarpage for the preload library only. The public header (include/farpage/farpage.h) does not
   have them. */
#ifndef PAGER_PAGER_H
#define PAGER_PAGER_H

#include "farpage/farpage.h"
#include "pager/counters.h"
#include "pager/window.h"

struct store;

/* Connects to the donors of @options for a window of @window_bytes bytes. Logs the reason of a failure. @donors_file
   is NULL, or the absolute path of the file that the store follows (far.h). @user is the name of the user that donors
   are told, or NULL if it is unknown. The caller owns the store. Returns 0 or -errno. */
int pager_connect(const struct farpage_options *options, const char *donors_file, const char *user,
		  uint64_t window_bytes, struct store **ret_store);

/* Does the same as farpage_open(), but with the caller's @store, @window and @counters. All three must outlive the
   pager. @window is reserved, and its pages may already have contents. @counters is zeroed, or NULL if the pager
   shall use its own. Returns 0 or -errno. */
int pager_open_store(const struct farpage_options *options, struct store *store, struct window *window,
		     struct pager_counters *counters, struct farpage **ret_farpage);

/* Returns the smallest local budget that is allowed, in bytes. Sets *@ret_with to the options that make it larger,
   for messages: "", " with --backup", and so on. */
static inline size_t pager_local_least(bool backup, bool encrypt, const char **ret_with)
{
	*ret_with = backup && encrypt ? " with --backup and --encrypt"
		    : backup          ? " with --backup"
		    : encrypt         ? " with --encrypt"
				      : "";
	return FARPAGE_LOCAL_MIN + (backup ? FARPAGE_LOCAL_BACKUP : 0) + (encrypt ? FARPAGE_LOCAL_ENCRYPT : 0);
}

/* Returns NULL if this kernel can protect pages that a device holds (UFFDIO_MOVE). Also returns NULL if the caller
   promises with @unsafe_dio (farpage.h) that there are no such pages. Also returns NULL without userfaultfd, because
   uffd_open() reports this error. Otherwise returns a message with the reason and a remedy. Any thread. */
const char *pager_kernel_lacks(bool unsafe_dio);

/* Returns true if forked children can use far memory. Otherwise the window is not mapped in children. */
bool pager_follows_forks(const struct farpage *farpage);

/*
 * Announces that the calling thread is about to fork. The process must not fork in another thread until
 * pager_fork_await() has returned. The pager owns @socket from then on, and sends the child's userfaultfd over it
 * (pass.h). If the child keeps this userfaultfd open, its far pages do not turn into zeroes when this process ends.
 *
 * Returns false if this pager does not follow forks (see farpage doctor). The caller then still owns @socket.
 */
bool pager_fork_announce(struct farpage *farpage, int socket);
/* Must be called in the parent after an announced fork. Waits until the pager has answered the child. So a program that
   ends as soon as it has forked does not leave the child without an answer. A fork that has failed gets no answer, so
   this function waits for at most about 0.2 s. */
void pager_fork_await(struct farpage *farpage);

/* Must be called when the process is about to exit. Brings all far pages of forked children back, so that these can do
   without this pager (farewell.h). Safe in a signal handler. Any thread of the program. */
void pager_farewell(struct farpage *farpage);

/* Keeps the page at @address in local memory; see keep_page() in pager/keep.h. Any thread of the program. */
int pager_keep(struct farpage *farpage, const void *address);

/* Returns the window's userfaultfd. The caller may poll it, but must not read from it. */
int pager_descriptor(const struct farpage *farpage);

#endif
