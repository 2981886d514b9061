/*
 * children: answers the faults of forked processes that do not call exec. Such a process still sees the program's
 * memory as it was at the fork.
 *
 * Theory of operation. At a fork the kernel gives the child copies of the resident pages. The kernel also sends the
 * event UFFD_EVENT_FORK, with a new descriptor on which the child's faults arrive. The handler then takes the child's
 * *snapshot*: a bitmap of the pages that were far at the fork. These pages get the mark PAGE_SNAPSHOT.
 *
 * If a child faults on a page of its snapshot, the handler answers with the donors' contents, which have not changed
 * since the fork. The child can drop such a page again (copies.h). Before the evictor changes these contents, it hands
 * the old contents to every child whose snapshot has the page. If a child faults on any other page, the handler answers
 * with zeroes, because that page was untouched at the fork.
 *
 * Pages given to children count against the program's budget. Clean copies use at most half of this budget, and
 * children drop some when they use three eighths. A child's own pages cannot be dropped: the child has written to them,
 * or their contents on the donors have changed. They may use half of the budget for each child, and three quarters for
 * all. farpage *denies* a page beyond that, a page that there is no memory for, and a lost page. Touching a denied page
 * raises SIGBUS in the child. farpage logs the first page that it denies to a child.
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
 * - If a child forks, the new child inherits the snapshot of the forking child. The handler holds `lock` from the
 *   read of the fork's event until the new child has an entry. Otherwise the evictor could hand a page to the forking
 *   child and miss the new child.
 *
 * If the parent ends first, its children lose their snapshots. The preload library handles that (preload/child.c). For
 * this, each child gets its descriptor through a socket (pass.h).
 *
 * Threads. The handler adds, answers and reaps children. The evictor hands pages over. `lock` guards the entries. A
 * thread holds `lock` while it gives one page, records a child's fork, or reaps children.
 */
#ifndef PAGER_CHILDREN_H
#define PAGER_CHILDREN_H

#include "pager/copies.h"
#include "pager/core.h"

#include <pthread.h>

#define CHILDREN_MAX 64

struct child {
	int uffd;           /* -1 for a free entry */
	int socket;         /* to the child, for its own forks (pass.h), or -1 */
	unsigned born;      /* serial number, because an entry is reused after its child has ended */
	pid_t pid;          /* the thread of the child that faulted last, or 0 */
	uint64_t *snapshot; /* one bit per page: was far at the fork, and not yet handed over */
	uint64_t pages;     /* number of bits in the snapshot */
	int64_t given;      /* number of pages given to the child, which core->resident includes */
	struct copies copies;
	int announced; /* the pager's end of the socket of the child's next child, or -1 */
	bool denied;   /* a page was denied and a line was logged */
};

struct children {
	struct core *core;
	int epoll; /* the handler waits here for the children's descriptors */
	struct child entries[CHILDREN_MAX];
	_Atomic unsigned count; /* living children */
	int64_t given;          /* the sum of the children's */
	struct child *asked;    /* the child that was asked last to drop pages (copies.h), or NULL */
	unsigned added;         /* total, ever */
	_Atomic int announced;  /* socket on which to send the next child's descriptor, or -1 */
	_Atomic unsigned reads; /* reads for children in flight; while it is not 0, the evictor changes no contents */
	_Atomic bool held_back; /* the evictor waits until `reads` is 0, so the handler starts no read for children */
	pthread_mutex_t lock;
};

void children_open(struct children *children, struct core *core);
void children_close(struct children *children);

/* A thread of the program calls this when it is about to fork. See pager_fork_announce(). */
bool children_announce(struct children *children, int socket);
/* Adds a forked child, and owns @uffd from now on. @parent is the child that forked, or NULL for the program itself.
   The caller holds `lock` if @parent is a child, or `core->evict_lock` if @parent is NULL. If no entry is free, the far
   pages of the new child raise SIGBUS. Without UFFDIO_POISON, the new child is told to end instead.
   Handler only. */
void children_add(struct children *children, struct child *parent, int uffd);
/* How to answer a fault of @child on @page. */
enum child_fault {
	CHILD_ZEROES, /* by children_answer() with zeroes: the page was untouched at the fork, or the child has discarded it */
	CHILD_FAR,   /* by children_answer() with the donors' contents */
	CHILD_ASKED, /* later, when the child has answered (copies.h) */
	CHILD_LOST   /* by children_deny() */
};
/* Handler only. */
enum child_fault children_look(struct children *children, const struct child *child, uint64_t page);
/* Called when @child wants to write to a write-protected page. The page becomes the child's own, so the handler may end
   the protection. Returns false if the page is asked. Handler only. */
bool children_write(struct children *children, struct child *child, uint64_t page);
/* Reads the messages that @child has sent over its socket. The caller holds `lock`. Handler only. */
void children_hear(struct children *children, struct child *child);
/* Takes @page out of the child's snapshot, so that it is never answered with the donors' contents. The caller holds
   `lock`. */
void children_disown(struct child *child, uint64_t page);
/* Takes back the memory of @count pages that @child has dropped. The caller holds `lock`. */
void children_take_back(struct children *children, struct child *child, int64_t count);
/* Places @page in @child and wakes the threads that wait for it. @data is the contents, or NULL for zeroes. Denies
   the page if the machine has no memory or the children have used their share. Returns 0, or -EAGAIN if the budget has
   no free page yet, if children drop pages, or if an event of the child must be read first. Handler only. */
int children_answer(struct children *children, struct child *child, uint64_t page, const void *data);
/* Hands the donors' contents of @page to all children whose snapshot has the page. The evictor calls this before it
   changes these contents. @data is NULL if the contents could not be read; the page is then denied. Returns true if a
   child took over the claim (core.h) of the parent's page, which is being evicted. Evictor only. */
bool children_hand_over(struct children *children, uint64_t page, const void *data);
/* Removes children that have ended or called exec. The handler calls it after each sleep, which lasts at most 0.1 s
   while there are children. */
void children_reap(struct children *children);
/* Denies @page to @child. Logs @why for a child's first denied page. Returns 0, or -EAGAIN if an event of the child
   must be read first. */
int children_deny(struct children *children, struct child *child, uint64_t page, const char *why);

#endif
