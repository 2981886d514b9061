/*
 * children: answers the faults of forked processes that do not call exec. Such a process still sees the program's
 * memory as it was at the fork.
 *
 * Theory of operation. Each child has an entry, which the handler makes at the fork (forks.h). The entry has the
 * child's *snapshot* (snapshot.h): the pages that are *far* for the child. The *home* of a far page is the page of the
 * store that has its contents. If a child faults on a far page, the handler answers with the contents of the home. If a
 * child faults on any other page, the handler answers with zeroes, because that page was untouched at the fork.
 *
 * The handler also answers faults on memory that the child maps after the fork. The child first tells the pager to
 * forget what was there (PASS_FORGET). Then it registers the memory with its userfaultfd. Such pages are the child's
 * own from the start.
 *
 * Each child has a budget of its own, as large as the program's. The pages that the pager has given to it count. When
 * the budget is nearly used, the pager takes pages back (reclaim.h). When it is used, the child's faults wait for that.
 * farpage *denies* a page beyond the budget if the child cannot give pages back. It also denies a page that there is no
 * memory for, and a lost page. Touching a denied page raises SIGBUS in the child. farpage logs the first page that it
 * denies to a child.
 *
 * When a child has ended or called exec, its descriptor answers ESRCH. The handler then frees the child's entry. After
 * the last child, the handler discards contents that only children could still read.
 *
 * Threads. The handler adds, answers and reaps children. The evictor changes homes. `lock` guards the entries. A thread
 * holds `lock` while it gives one page, records a child's fork, or reaps children.
 */
#ifndef PAGER_CHILDREN_H
#define PAGER_CHILDREN_H

#include "pager/core.h"
#include "pager/farewell.h"
#include "pager/reclaim.h"
#include "pager/snapshot.h"
#include "pager/streams.h"

#include <pthread.h>

#define CHILDREN_MAX 256

struct child {
	int uffd;          /* -1 for a free entry */
	int socket;        /* to the child, for its own forks (pass.h), or -1 */
	unsigned born;     /* serial number, because an entry is reused after its child has ended */
	pid_t pid;         /* the thread of the child that faulted last, or 0 */
	uint64_t capacity; /* pages that its tables have room for */
	struct snapshot snapshot;
	uint64_t *mapped; /* one bit for each page that the child has mapped itself */
	int64_t given;    /* number of pages given to the child */
	struct reclaim reclaim;
	int announced;   /* the pager's end of the socket of the child's next child, or -1 */
	uint64_t tables; /* bytes of memory that its tables use (children_memory()) */
	bool denied;     /* a page was denied and a line was logged */
	/* For farewell.h. */
	uint64_t searched; /* where the search for missing pages continues */
	bool missed;       /* this search has found a page */
	bool told, local;  /* the child has been told that all its pages are local, and knows it */
};

struct children {
	struct core *core;
	int epoll;                 /* the handler waits here for the children's descriptors */
	unsigned top;              /* no entry from here on is in use */
	_Atomic unsigned count;    /* living children */
	unsigned added;            /* total, ever */
	unsigned measured;         /* the entry whose tables were measured last */
	bool hung_up;              /* a child has closed its socket, so it has probably ended */
	_Atomic unsigned answered; /* children whose answers the evictor is to handle (reclaim.h) */
	_Atomic int announced;     /* socket on which to send the next child's descriptor, or -1 */
	_Atomic bool unanswered;   /* a fork was announced, and the new child has no answer yet */
	int spare; /* a descriptor whose number is used for a child if the program uses all others, or -1 */
	_Atomic unsigned reads; /* reads for children in flight; while it is not 0, the evictor changes no contents */
	_Atomic enum farewell farewell;
	_Atomic bool held_back; /* the evictor waits until `reads` is 0, so the handler starts no read for children */
	pthread_mutex_t lock;
	struct child entries[CHILDREN_MAX]; /* read only those before `top`; the others are not initialised */
};

void children_open(struct children *children, struct core *core);
void children_close(struct children *children);
/* Returns the bytes of memory that the children's tables use. Each call measures the tables of one child, so the result
   is a little late. Evictor only. */
uint64_t children_memory(struct children *children);

/* Returns the child that an event of the handler's epoll is about, or NULL if it is about something else. @data is the
   event's data.u64; other events have the number of a descriptor there. *@ret_socket says if the event is about the
   child's socket, and not about its userfaultfd. */
struct child *children_of_event(struct children *children, uint64_t data, bool *ret_socket);
/* Returns true if the entry @child is still that of the child with the serial number @born. Handler only. */
static inline bool children_has(const struct child *child, unsigned born)
{
	return child->uffd >= 0 && child->born == born;
}

/* How to answer a fault of @child on @page. */
enum child_fault {
	CHILD_ZEROES, /* by children_answer() with zeroes: untouched at the fork, or discarded by the child */
	CHILD_FAR,    /* by children_answer() with the contents of the page's home */
	CHILD_ASKED,  /* later, when the child has answered (reclaim.h) */
	CHILD_LOST    /* by children_deny() */
};
/* If it returns CHILD_FAR, sets *@ret_home to the page of the store to read. The caller is a user of this page, and
   calls shadows_drop() later. Handler only. */
enum child_fault children_look(struct children *children, const struct child *child, uint64_t page, uint64_t *ret_home);
/* Returns true if the page @home of the store can be read for children now. The caller has added to `reads` before.
   Handler only. */
bool children_may_read(const struct children *children, uint64_t home);
/* @child wants to write to a write-protected page. Returns false if the fault must wait, because the page is asked.
   Otherwise the handler ends the protection, and then calls children_written(). Handler only. */
bool children_may_write(struct children *children, const struct child *child, uint64_t page);
/* The page is not write-protected any more, so it is the child's own. While a page is protected, it stays far, because
   the child may drop it. If the page has been asked meanwhile, the child's answer says what becomes of it. */
void children_written(struct children *children, struct child *child, uint64_t page);
/* Reads the messages that @child has sent over its socket. The caller holds `lock`. Handler only. */
void children_hear(struct children *children, struct child *child);
/* Places @page in @child and wakes the threads that wait for it. @data is the contents, or NULL for zeroes. The page
   becomes a clean copy if @clean is true, and otherwise the child's own. Denies the page if the machine has no memory
   or the children have used their share. Returns 0, or -EAGAIN if the budget has no free page yet, if a child removes
   pages, or if an event of the child must be read first. Handler only. */
int children_answer(struct children *children, struct child *child, uint64_t page, const void *data, bool clean);
/* Places @page of a read-ahead in @child, as a clean copy. @data is the contents of @home. Returns false if that is not
   the home of the page any more, if the child has the page, or if it cannot get it now. The caller then wakes the
   threads that wait for the page. Handler only. */
bool children_offer(struct children *children, struct child *child, uint64_t page, uint64_t home, const void *data);
/* Fills the pages @ahead of @page with zeroes for @child, up to the first that the child has touched. @zero_pages has
   as many pages of zeroes. Returns the number of pages. The others can wait for their faults. Handler only. */
unsigned children_fill_ahead(struct children *children, struct child *child, uint64_t page, struct ahead ahead,
			     const char *zero_pages);
/* Returns true if the home of @page is the program's page, for any child. */
bool children_need(struct children *children, uint64_t page);
/* Makes @home the home of @page for all children whose home it was till now. @home is a shadow. If the old contents
   could not be read, or there is no shadow, it is SNAPSHOT_LOST. Evictor only, before the program's page changes. */
void children_rehome(struct children *children, uint64_t page, uint64_t home);
/* Removes children that have ended or called exec. The handler calls it ten times a second, and when a child has closed
   its socket. */
void children_reap(struct children *children);
/* Denies @page to @child. Logs @why for a child's first denied page. Returns 0, or -EAGAIN if an event of the child
   must be read first. */
int children_deny(struct children *children, struct child *child, uint64_t page, const char *why);

/* For forks.c and reclaim.c. The caller holds `lock`. */

/* Makes an entry for a new child, which has a snapshot of @pages pages. None of them is far. The entry owns @uffd then.
   Returns 0, -EUSERS if CHILDREN_MAX children live, or -errno. Handler only. */
int children_enter(struct children *children, uint64_t pages, int uffd, struct child **ret_child);
/* @child gets @socket, and owns it. Handler only. */
void children_connect(struct children *children, struct child *child, int socket);
/* Removes children that have ended, except the child whose userfaultfd is @except. Returns true if this function
   removed any child. Handler only. */
bool children_remove_ended(struct children *children, int except);
/* @child has @change more pages that the pager has given to it. */
void children_count(struct children *children, struct child *child, int64_t change);
/* Measures the tables of @child. */
void children_measure(struct child *child);

#endif
