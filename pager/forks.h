/*
 * forks: what happens at a fork of the program, or of one of its forked children, until the new child has an entry in
 * children.h, or is refused.
 *
 * Theory of operation. At a fork the kernel gives the child copies of the resident pages. The kernel also sends the
 * event UFFD_EVENT_FORK, with a new descriptor on which the child's faults arrive. The handler then takes the child's
 * snapshot (snapshot.h): the pages that were far at the fork are far for the child, too. In the program these pages get
 * the mark PAGE_SNAPSHOT. If a child forks, the new child inherits the snapshot of the forking child.
 *
 * A child is refused if it could not be served. Its far pages are then poisoned.
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
 * - If a child forks, the handler holds `children->lock` from the read of the fork's event until the new child has an
 *   entry. Otherwise the evictor could change the home of a page for the forking child and miss the new child.
 *
 * If the parent exits first, it brings all far pages of its children back (farewell.h). If it is killed, its children
 * lose their snapshots. The preload library handles that (preload/child.c). For this, each child gets its descriptor
 * through a socket (pass.h).
 */
#ifndef PAGER_FORKS_H
#define PAGER_FORKS_H

#include "pager/children.h"

/* A thread of the program calls these functions before and after a fork. See pager_fork_announce(). */
bool forks_announce(struct children *children, int socket);
void forks_await(struct children *children);
/* Reads messages of the userfaultfd @fd, as uffd_read() does. A fork's message comes with a descriptor, and the forking
   thread waits until the message is read. If the program uses all its numbers, this function raises the limit for a
   moment. If the limit cannot be raised, `children->spare` makes room. Handler only. */
int forks_read(struct children *children, int fd, struct uffd_message *messages, unsigned max);
/* Makes `children->spare` if there is none, and if there is room. */
void forks_make_spare(struct children *children);
/* Adds a forked child, and owns @uffd from now on. @parent is the child that forked, or NULL for the program itself.
   The caller holds `children->lock`, and `core->evict_lock` if @parent is NULL. If no entry is free, or there would be
   no room for the next child's descriptor, the far pages of the new child raise SIGBUS. Without UFFDIO_POISON, the new
   child is told to end instead. Handler only. */
void forks_add(struct children *children, struct child *parent, int uffd);

#endif
