/*
 * children: answers the faults of forked processes that do not call exec. Such a process still sees the program's
 * memory as it was at the fork.
 *
 * Theory of operation. At a fork the kernel copies the resident pages to the child. It reports the fork by
 * UFFD_EVENT_FORK, with a new descriptor on which the child's faults arrive. The handler then takes the child's
 * *snapshot*: a bitmap of the pages that were far at the fork. These pages get the mark PAGE_SNAPSHOT.
 *
 * A child's fault on a page of its snapshot is answered with the donors' contents, which have not changed since the
 * fork. Before the evictor changes these contents, it hands the old ones to every child whose snapshot has the
 * page. A child's fault on any other page is answered with zeroes, because nobody had touched that page before the
 * fork.
 *
 * Pages handed to children count against the program's budget. A child may use at most half of it. If a child has
 * used its half, or if no local memory is free, the page is *denied*: touching it raises SIGBUS in the child. A
 * child's first denied page is logged.
 *
 * When a child has ended or called exec, its descriptor answers ESRCH. The handler then releases the memory that the
 * child's pages used. After the last child, the handler discards contents that only children could still read.
 *
 * PAGE_SNAPSHOT speaks of the donors' contents, not of the parent's page. When the parent discards a page, the mark
 * and the old contents stay for earlier children. A later child must read zeroes there. So pages_state_is_far() is
 * false for discarded pages, also while they are filled with zeroes again (PAGE_FILLING).
 *
 * Races.
 * - The handler adds a child of the program with `core->evict_lock` held. No page is being evicted then, so every
 *   page is either in the child's memory or in its snapshot.
 * - Between the fork and the read of its event, UFFDIO_COPY answers EAGAIN. So no page can be placed in that time.
 * - Once the event is read, fork() returns in the parent, which may discard pages before the snapshot is taken. So
 *   discards wait while `core->looks` is odd.
 * - A child's own child inherits the snapshot of its parent. `lock` is held from the read of the fork's event until
 *   the new child has an entry. Otherwise the evictor could hand a page to the parent and miss the new child.
 *
 * If the parent ends first, its children lose their snapshots. The preload library handles that (preload/child.c).
 *
 * Threads. The handler adds, answers and reaps children. The evictor hands pages over. `lock` guards the entries. It
 * is held while one page is given, a child's fork is recorded, or children are reaped.
 */
#ifndef PAGER_CHILDREN_H
#define PAGER_CHILDREN_H

#include "pager/core.h"
#include <pthread.h>

#define CHILDREN_MAX 64

struct child {
	int uffd;           /* -1 for a free entry */
	unsigned born;      /* serial number, because an entry is reused after its child has ended */
	pid_t pid;          /* the thread of the child that faulted last, or 0 */
	uint64_t *snapshot; /* one bit per page: was far at the fork, and not yet handed over */
	uint64_t pages;     /* number of bits in the snapshot */
	int64_t given;      /* number of pages handed over, which core->resident includes */
	bool denied;        /* a page was denied and a line was logged */
};

struct children {
	struct core *core;
	int epoll; /* the handler's; watches the children's descriptors */
	struct child entries[CHILDREN_MAX];
	_Atomic unsigned count; /* living children */
	unsigned added;         /* total, ever */
	_Atomic int announced;  /* socket on which to send the next child's descriptor, or -1 */
	_Atomic unsigned reads; /* reads for children in flight; while it is not 0, the evictor changes no contents */
	_Atomic bool held_back; /* the evictor waits until `reads` is 0, so the handler starts no read for children */
	pthread_mutex_t lock;
};

void children_open(struct children *children, struct core *core);
void children_close(struct children *children);

/* Expects a fork of the calling thread, which belongs to the program. See pager_fork_announce(). */
bool children_announce(struct children *children, int socket);
/* Adds a forked child, and owns @uffd from now on. @parent is the child that forked, or NULL for the program itself.
   The caller holds `lock` if a child has forked, or `core->evict_lock` if the program has. If there is no free
   entry, the new child is refused: its far pages raise SIGBUS, or it is told to end. Handler only. */
void children_add(struct children *children, const struct child *parent, int uffd);
/* Returns true if @page is in @child's snapshot and was not handed over yet. Handler only. */
bool children_want(struct children *children, const struct child *child, uint64_t page);
/* Places @page in @child and wakes the threads that wait for it. @data is the contents, or NULL for zeroes. Denies
   the page if the machine has no memory or the child has used its share. Returns 0, or -EAGAIN if the budget has no
   free page yet or an event of the child must be read first. Handler only. */
int children_answer(struct children *children, struct child *child, uint64_t page, const void *data);
/* Hands the donors' contents of @page to all children whose snapshot has it. Must be called before the contents
   change. @data is NULL if the contents could not be read; the page is then denied. Returns true if a child took
   over the claim of the parent's page, which is being evicted. Evictor only. */
bool children_hand_over(struct children *children, uint64_t page, const void *data);
/* Removes children that have ended or called exec. The handler calls it after each sleep, which lasts at most 0.1 s
   while there are children. */
void children_reap(struct children *children);
/* Denies @page to @child. Logs @why for a child's first denied page. Returns 0, or -EAGAIN if an event of the child
   must be read first. */
int children_deny(struct children *children, struct child *child, uint64_t page, const char *why);

#endif
