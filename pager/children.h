/*
 * children: processes forked from the program that go on without exec, and see its memory as it was.
 *
 * Theory of operation. The kernel gives each child a copy of what is resident and tells us (UFFD_EVENT_FORK) by a new
 * descriptor on which the child's faults arrive. The pages that were far at the fork are the child's *snapshot*: a
 * bitmap. They are marked PAGE_SNAPSHOT, and while the parent has not changed what its donors hold, a child's fault is
 * answered from there. Before the evictor overwrites such a page, it hands the old contents to every child that may
 * still want them. Every other page a child misses is one it never touched: zeroes.
 *
 * What is handed to children counts against the same budget. A child gets at most half of it; a page beyond that, or
 * one that there is no room to keep, is *denied*: touching it stops the child by SIGBUS, and one line says so. When a
 * child is gone (or has called exec) its descriptor answers ESRCH, its pages are counted free again, and discards that
 * waited for it are done.
 *
 * The mark PAGE_SNAPSHOT speaks of the donors' contents, not of the page. A page the parent has thrown away keeps its
 * mark while an earlier child may ask for those contents. A later child must not see them: page_state_is_far() is false
 * for such a page, also while it is being filled with zeroes (PAGE_FILLING).
 *
 * Races. A child is added by the handler with `core->evict_lock` held, so that no page is half way out: every page is
 * then either in the child's memory or in the snapshot. UFFDIO_COPY answers EAGAIN from the fork until its event has
 * been read, so that no page can come in unseen in between. With that read fork() returns, and its caller may discard
 * pages at once: `core->looks` says that the snapshot is not taken yet, and discards wait for it. A child's own child
 * takes over what its parent still wants; from the read of that fork until then the lock is held, or the evictor could
 * hand a page over to the one and miss the other.
 *
 * A child cannot outlive its parent: the snapshot would be gone. The preload library arranges for that.
 *
 * Threads. The handler adds, answers and reaps; the evictor hands over; a lock for the entries, held for one page.
 */
#ifndef PAGER_CHILDREN_H
#define PAGER_CHILDREN_H

#include "pager/core.h"
#include <pthread.h>

#define CHILDREN_MAX 64

struct child {
	int uffd;           /* -1: free entry */
	unsigned born;      /* the how-manieth child it is: entries are used again */
	pid_t pid;          /* a thread of it that faulted; 0 until one has */
	uint64_t *snapshot; /* one bit a page: far at the fork and not handed over yet */
	uint64_t pages;     /* bits in it */
	int64_t given;      /* pages handed over, all counted in core->resident */
	bool denied;        /* some page could not be kept for it: said once */
};

struct children {
	struct core *core;
	int epoll; /* the handler's: children's descriptors are added to it */
	struct child entries[CHILDREN_MAX];
	_Atomic unsigned count; /* living */
	unsigned added;         /* so far */
	_Atomic int announced;  /* a socket that waits for the next child's descriptor, or -1 */
	_Atomic unsigned reads; /* of pages for children, in flight: nothing may be overwritten meanwhile */
	pthread_mutex_t lock;
};

void children_open(struct children *children, struct core *core);
void children_close(struct children *children);

/* The program's thread that is about to fork: see pager_fork_announce(). */
bool children_announce(struct children *children, int socket);
/* Handler: a fork happened in @parent, whose lock is held; or (NULL) in the program itself, with core->evict_lock held.
   Takes @uffd over. */
void children_add(struct children *children, const struct child *parent, int uffd);
/* Handler: whether @child still wants what the donors hold of @page. */
bool children_want(struct children *children, const struct child *child, uint64_t page);
/*
 * Handler: @data (NULL: zeroes) is @page of @child, which waits for it. -EAGAIN: not now, an event must be read or room
 * be made first.
 */
int children_answer(struct children *children, struct child *child, uint64_t page, const void *data);
/*
 * Evictor: contents of a PAGE_SNAPSHOT page, as its donors have them, before they change; NULL: they could not be had.
 * The parent's page is leaving: true when a child has taken over its room.
 */
bool children_hand_over(struct children *children, uint64_t page, const void *data);
/* Handler, now and then: forgets children that are gone. */
void children_reap(struct children *children);
/* @child can never have @page: touching it is SIGBUS. The first time for a child, one line says why. Returns 0, or
   -EAGAIN if an event of the child must be read first. */
int children_deny(struct children *children, struct child *child, uint64_t page, const char *why);

#endif
