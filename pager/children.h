/*
 * children: answers the faults of forked processes that do not call exec. Such a process still sees the program's
 * memory as it was at the fork.
 *
 * Theory of operation. At a fork the kernel gives the child copies of the resident pages. The kernel also sends the
 * event UFFD_EVENT_FORK, with a new descriptor on which the child's faults arrive. The handler then takes the child's
 * *snapshot*: the pages that were far at the fork are *far* for the child, too. In the program these pages get the mark
 * PAGE_SNAPSHOT.
 *
 * The *home* of a far page is the page of the store that has its contents. At first it is the program's page. Before
 * the evictor changes the contents of that page, it copies the old contents to a shadow (shadows.h). The shadow then
 * becomes the home for all children that have the page. If a child faults on a far page, the handler answers with the
 * contents of the home. If a child faults on any other page, the handler answers with zeroes, because that page was
 * untouched at the fork.
 *
 * Pages given to children count against the program's budget. When children use three eighths of it, the pager takes
 * pages back (reclaim.h). At a half, faults of children wait for that. If no child can give pages back, children may
 * use three quarters. farpage *denies* a page beyond that, a page that there is no memory for, and a lost page. Touching
 * a denied page raises SIGBUS in the child. farpage logs the first page that it denies to a child.
 *
 * When a child has ended or called exec, its descriptor answers ESRCH. The handler then releases the memory that the
 * child's pages used. After the last child, the handler discards contents that only children could still read.
 *
 * PAGE_SNAPSHOT is about the donors' contents, not about the parent's page. When the parent discards a page, the mark
 * and the old contents stay for earlier children. A child that is forked later must read zeroes in this page. So
 * pages_state_is_far() is false for a discarded page, even while the handler fills the page with zeroes again
 * (PAGE_FILLING).
 *
 * Races.
 * - The handler adds a child of the program with `core->evict_lock` held. No page is being evicted then, so every
 *   page is either in the child's memory or in its snapshot.
 * - Until the handler has read the fork's event, UFFDIO_COPY fails with EAGAIN. So nobody can place a page in that
 *   time.
 * - Once the handler has read the event, fork() returns in the parent. The parent could then discard pages before the
 *   handler has taken the snapshot. So discards wait while `core->looks` is odd.
 * - If a child forks, the new child inherits the far pages of the forking child and their homes. The handler holds
 *   `lock` from the read of the fork's event until the new child has an entry. Otherwise the evictor could change the
 *   home of a page for the forking child and miss the new child.
 *
 * If the parent ends first, its children lose their snapshots. The preload library handles that (preload/child.c). For
 * this, each child gets its descriptor through a socket (pass.h).
 *
 * Threads. The handler adds, answers and reaps children. The evictor changes homes. `lock` guards the entries. A thread
 * holds `lock` while it gives one page, records a child's fork, or reaps children.
 */
#ifndef PAGER_CHILDREN_H
#define PAGER_CHILDREN_H

#include "pager/core.h"
#include "pager/reclaim.h"

#include <pthread.h>

#define CHILDREN_MAX 256
#define CHILDREN_LOST UINT64_MAX /* the home of a page whose contents are lost */

struct child {
	int uffd;         /* -1 for a free entry */
	int socket;       /* to the child, for its own forks (pass.h), or -1 */
	unsigned born;    /* serial number, because an entry is reused after its child has ended */
	pid_t pid;        /* the thread of the child that faulted last, or 0 */
	uint64_t pages;   /* pages of the window that can be far for the child */
	uint64_t *far;    /* one bit per page: is far, or is a clean copy (reclaim.h) */
	uint32_t *homes;  /* of each far page: 0 for the program's page, HOME_LOST, or 1 + the number of a shadow */
	uint64_t rehomed; /* far pages whose home is not the program's page */
	int64_t given;    /* number of pages given to the child, which core->resident includes */
	struct reclaim reclaim;
	int announced;   /* the pager's end of the socket of the child's next child, or -1 */
	uint64_t tables; /* bytes of memory that its tables use (children_memory()) */
	bool denied;     /* a page was denied and a line was logged */
};

struct children {
	struct core *core;
	int epoll;                 /* the handler waits here for the children's descriptors */
	unsigned top;              /* no entry from here on is in use */
	_Atomic unsigned count;    /* living children */
	int64_t given;             /* the sum of the children's */
	struct child *asked;       /* the child that was asked last to remove pages (reclaim.h), or NULL */
	unsigned added;            /* total, ever */
	unsigned measured;         /* the entry whose tables were measured last */
	bool hung_up;              /* a child has closed its socket, so it has probably ended */
	_Atomic unsigned answered; /* children whose answers the evictor is to handle (reclaim.h) */
	_Atomic int announced;     /* socket on which to send the next child's descriptor, or -1 */
	int spare; /* a descriptor whose number is used for a child if the program uses all others, or -1 */
	_Atomic unsigned reads; /* reads for children in flight; while it is not 0, the evictor changes no contents */
	_Atomic bool held_back; /* the evictor waits until `reads` is 0, so the handler starts no read for children */
	pthread_mutex_t lock;
	struct child entries[CHILDREN_MAX]; /* read only those before `top`; the others are not initialised */
};

void children_open(struct children *children, struct core *core);
void children_close(struct children *children);
/* Makes `spare` if there is none, and if there is room. */
void children_make_spare(struct children *children);
/* Returns the bytes of memory that the children's tables use. Each call measures the tables of one child, so the result
   is a little late. Evictor only. */
uint64_t children_memory(struct children *children);

/* A thread of the program calls this when it is about to fork. See pager_fork_announce(). */
bool children_announce(struct children *children, int socket);
/* Reads messages of the userfaultfd @fd, as uffd_read() does. A fork's message comes with a descriptor, and the forking
   thread waits until the message is read. If the program uses all its numbers, this function raises the limit for a
   moment. If the limit cannot be raised, `spare` makes room. Handler only. */
int children_read(struct children *children, int fd, struct uffd_message *messages, unsigned max);
/* Returns the child that an event of the handler's epoll is about, or NULL if it is about something else. @data is the
   event's data.u64; other events have the number of a descriptor there. *@ret_socket says if the event is about the
   child's socket, and not about its userfaultfd. */
struct child *children_of_event(struct children *children, uint64_t data, bool *ret_socket);
/* Adds a forked child, and owns @uffd from now on. @parent is the child that forked, or NULL for the program itself.
   The caller holds `lock`, and `core->evict_lock` if @parent is NULL. If no entry is free, or there would be no room for
   the next child's descriptor, the far pages of the new child raise SIGBUS. Without UFFDIO_POISON, the new child is told
   to end instead. Handler only. */
void children_add(struct children *children, struct child *parent, int uffd);
/* How to answer a fault of @child on @page. */
enum child_fault {
	CHILD_ZEROES, /* by children_answer() with zeroes: the page was untouched at the fork, or the child has discarded it */
	CHILD_FAR,   /* by children_answer() with the contents of the page's home */
	CHILD_ASKED, /* later, when the child has answered (reclaim.h) */
	CHILD_LOST   /* by children_deny() */
};
/* If it returns CHILD_FAR, sets *@ret_home to the page of the store to read. The caller is a user of this page until it
   calls children_drop_home(). Handler only. */
enum child_fault children_look(struct children *children, const struct child *child, uint64_t page, uint64_t *ret_home);
void children_drop_home(struct children *children, uint64_t home);
/* @child wants to write to a write-protected page. Returns false if the fault must wait, because the page is asked.
   Otherwise the handler ends the protection, and then calls children_written(). Handler only. */
bool children_may_write(struct children *children, const struct child *child, uint64_t page);
/* The page is not write-protected any more, so it is the child's own. While a page is protected, it stays far, because
   the child may drop it. If the page has been asked meanwhile, the child's answer says what becomes of it. */
void children_written(struct children *children, struct child *child, uint64_t page);
/* Reads the messages that @child has sent over its socket. The caller holds `lock`. Handler only. */
void children_hear(struct children *children, struct child *child);
/* Places @page in @child and wakes the threads that wait for it. @data is the contents, or NULL for zeroes. The page
   becomes a clean copy if @clean is true, and otherwise the child's own. Denies
   the page if the machine has no memory or the children have used their share. Returns 0, or -EAGAIN if the budget has
   no free page yet, if a child removes pages, or if an event of the child must be read first. Handler only. */
int children_answer(struct children *children, struct child *child, uint64_t page, const void *data, bool clean);
/* Returns true if the home of @page is the program's page, for any child. */
bool children_need(struct children *children, uint64_t page);
/* Makes @home the home of @page for all children whose home it was till now. @home is a shadow. If the old contents
   could not be read, or there is no shadow, it is CHILDREN_LOST. Evictor only, before the program's page changes. */
void children_rehome(struct children *children, uint64_t page, uint64_t home);
/* Removes children that have ended or called exec. The handler calls it ten times a second, and when a child has closed
   its socket. */
void children_reap(struct children *children);
/* Denies @page to @child. Logs @why for a child's first denied page. Returns 0, or -EAGAIN if an event of the child
   must be read first. */
int children_deny(struct children *children, struct child *child, uint64_t page, const char *why);

/* For reclaim.c. The caller holds `lock`. */
bool children_is_far(const struct child *child, uint64_t page);
/* Makes @page far for @child. @home is a shadow, whose use the child takes over from the caller, or CHILDREN_LOST. */
void children_set_home(struct children *children, struct child *child, uint64_t page, uint64_t home);
/* Adds a user of @home. */
void children_share_home(struct children *children, uint64_t home);
/* @page is not far for @child any more. */
void children_disown(struct children *children, struct child *child, uint64_t page);
/* Takes back the memory of @count pages that @child has removed. */
void children_take_back(struct children *children, struct child *child, int64_t count);

#endif
