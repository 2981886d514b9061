/*
 * copies: clean copies of far pages in the memory of forked children, and how children drop them. So a child can read
 * any amount of far memory.
 *
 * Theory of operation. A page that a child reads stays on the donors, too. So the child gets a write-protected *clean
 * copy*, which it may lose again. If the child writes to the copy, the handler ends the protection, and the page is the
 * child's own. If the evictor is about to change the donors' contents, the copy becomes the child's own, too.
 *
 * Only a process itself can drop pages of its memory. So when children have many copies, the pager asks the child with
 * the most of them to drop some (PASS_DROP). The child's watcher (preload/child.c) drops those that are still
 * write-protected, and answers. Until the answer, a page is *asked*: nobody knows if the child has it. Then all of the
 * child's faults on it wait, and the evictor waits before it changes its contents. A child that is stopped (SIGSTOP)
 * does not answer. After a second the evictor *abandons* the pages: those that the child has dropped are lost for it.
 *
 * A child drops only pages that it was asked to drop. If another fault arrives for a page with a clean copy, the child
 * has discarded the page by a system call that bypasses libc. Then it reads as zeroes.
 *
 * Threads. The handler and the evictor call these functions with children->lock held.
 */
#ifndef PAGER_COPIES_H
#define PAGER_COPIES_H

#include "pager/pass.h"

#include <stdbool.h>
#include <stdint.h>

struct child;
struct children;

/* A child's clean copies. */
struct copies {
	uint64_t *bits; /* one bit per page */
	int64_t count;
	uint64_t hand; /* where the search for pages to drop continues */
	uint64_t asked[PASS_WORDS];
	uint64_t asked_since; /* clock_now() */
	unsigned asked_count;
	uint64_t lost[PASS_WORDS]; /* pages that were abandoned */
	unsigned lost_count;
	bool mute; /* the child is not asked any more */
};

bool copies_has(const struct child *child, uint64_t page);
void copies_add(struct child *child, uint64_t page);
/* Makes the page the child's own, if it was a clean copy. */
void copies_forget(struct child *child, uint64_t page);
/* Asks the child with the most clean copies to drop some. Returns true if a child has been asked, now or less than a
   second ago, and has not answered. */
bool copies_ask(struct children *children);
bool copies_is_asked(const struct child *child, uint64_t page);
/* Takes a PASS_DROPPED of the child. */
void copies_answered(struct children *children, struct child *child, const struct pass_message *message);
/* Abandons the pages that are asked. The child is not asked again. */
void copies_abandon(struct child *child);
bool copies_is_lost(const struct child *child, uint64_t page);

#endif
