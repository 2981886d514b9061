/*
 * children: serves forked processes that do not call exec. They still see the program's memory as it was at the fork.
 *
 * Theory of operation. The kernel copies all resident pages to the child. The kernel announces the child by
 * UFFD_EVENT_FORK with a new descriptor, on which the child's faults arrive. The pages that were far at the fork form
 * the child's *snapshot*, a bitmap. These pages carry the mark PAGE_SNAPSHOT. As long as the donors have the contents
 * of the fork, they answer a child's fault. Before the evictor overwrites such contents, it hands them to every child
 * whose snapshot has the page. Any other page that a child misses was never touched and reads as zeroes.
 *
 * Pages handed to children count against the same budget. A child gets at most half of it. If the child has used up its
 * share, or there is no room, a page is *denied*: touching it raises SIGBUS in the child. The first denial is logged.
 * The descriptor of a child that has ended or called exec answers ESRCH. The handler then releases the room of the
 * child's pages. Once no child is left, it discards the contents that were kept for children only.
 *
 * PAGE_SNAPSHOT marks the donors' contents, not the page itself. A page that the parent has discarded keeps the mark as
 * long as an earlier child may ask for its old contents. A later child must not see these contents. So
 * pages_state_is_far() is false for a discarded page, also while the page is being filled with zeroes (PAGE_FILLING).
 *
 * Races.
 * - The handler adds a child of the program with `core->evict_lock` held, so no page is half way out. Every page is
 *   then either in the child's memory or in its snapshot.
 * - From the fork until its event is read, UFFDIO_COPY answers EAGAIN. So no page comes in between the two.
 * - When the event is read, fork() returns, and its caller may discard pages before the snapshot is taken. Discards
 *   wait while `core->looks` is odd.
 * - A child's own child inherits its parent's snapshot. `lock` is held from the read of that fork until the new child
 *   has an entry. Otherwise the evictor could hand a page to the parent and miss the new child.
 *
 * A child that outlives its parent loses its snapshot. The preload library handles that (preload/child.c).
 *
 * Threads. The handler adds, answers and reaps children. The evictor hands pages over. `lock` guards the entries. It is
 * held for one page, or while a child's fork is recorded or children are reaped.
 */
#ifndef PAGER_CHILDREN_H
#define PAGER_CHILDREN_H

#include "pager/core.h"
#include <pthread.h>

#define CHILDREN_MAX 64

struct child {
	int uffd;           /* -1 for a free entry */
	unsigned born;      /* serial number, because entries are reused */
	pid_t pid;          /* the child's thread that faulted last, or 0 */
	uint64_t *snapshot; /* one bit per page that was far at the fork and is not handed over yet */
	uint64_t pages;     /* bits in the snapshot */
	int64_t given;      /* pages handed over, counted in core->resident */
	bool denied;        /* a page was denied, and this was logged */
};

struct children {
	struct core *core;
	int epoll; /* the handler's; the children's descriptors are added to it */
	struct child entries[CHILDREN_MAX];
	_Atomic unsigned count; /* living children */
	unsigned added;         /* number of children added so far */
	_Atomic int announced;  /* socket that waits for the next child's descriptor, or -1 */
	_Atomic unsigned reads; /* reads for children in flight; the evictor overwrites nothing meanwhile */
	_Atomic bool held_back; /* the evictor waits until `reads` is 0, so no more reads begin */
	pthread_mutex_t lock;
};

void children_open(struct children *children, struct core *core);
void children_close(struct children *children);

/* Announces a fork of the calling thread, which belongs to the program. See pager_fork_announce(). */
bool children_announce(struct children *children, int socket);
/*
 * Adds a forked child and takes over @uffd. @parent is the child that forked, or NULL for the program itself. The
 * caller holds `lock` for a child's fork, or `core->evict_lock` for the program's. If all entries are taken, the new
 * child is refused: its far pages raise SIGBUS, or it must end. Handler only.
 */
void children_add(struct children *children, const struct child *parent, int uffd);
/* Returns true if @child still needs the donors' contents of @page. Handler only. */
bool children_want(struct children *children, const struct child *child, uint64_t page);
/*
 * Gives @child its missing page @page and wakes the threads that wait for it. @data is the contents, or NULL for
 * zeroes. Denies the page if there is no memory or the child's share is used up. Returns 0, or -EAGAIN if an event must
 * be read first, or if there is no room yet. Handler only.
 */
int children_answer(struct children *children, struct child *child, uint64_t page, const void *data);
/*
 * Hands the donors' contents of a PAGE_SNAPSHOT page to all children that need them, before they change. If the
 * contents could not be read, @data is NULL and the page is denied. Returns true if a child took over the room of the
 * parent's page, which is leaving. Evictor only.
 */
bool children_hand_over(struct children *children, uint64_t page, const void *data);
/* Forgets children that have ended or called exec. Handler only; it calls this now and then. */
void children_reap(struct children *children);
/* Denies @page to @child: touching it raises SIGBUS. The first denial of a child logs @why. Returns 0, or -EAGAIN if an
   event of the child must be read first. */
int children_deny(struct children *children, struct child *child, uint64_t page, const char *why);

#endif
