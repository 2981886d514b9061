/*
 * reclaim: takes back the memory of pages that forked children have. So a child can read and write any amount of far
 * memory.
 *
 * Theory of operation. Only a process itself can remove pages from its memory. So when a child has much memory, the
 * pager asks it to remove some (PASS_REMOVE). The child's watcher (preload/child.c) answers for each page:
 * - A *clean copy* is dropped. It is a page that the child has only read, so the donors have it, too. It is
 *   write-protected. If the child writes to it, the handler ends the protection, and the page is the child's own.
 * - The child's *own* page is moved out of the child's reach (take.h), and its contents are sent to the pager
 *   (PASS_CONTENTS). The evictor writes them to a shadow (shadows.h).
 * - A page that a device holds stays. The child is not asked for it again.
 * - A page that the child has replaced by other memory is *gone*.
 *
 * Until the answer has been handled, a page is *asked*: nobody knows if the child has it. All faults on it wait, also
 * those of processes that the child has forked meanwhile.
 *
 * A child may map other memory at the place of an asked page before its answer has been handled. The page is then
 * *forgotten*. Only processes that the child has forked meanwhile may need its old contents.
 *
 * A child removes only pages that it was asked to remove. If another fault arrives for a page with a clean copy, the
 * child has discarded the page by a system call that bypasses libc. Then it reads as zeroes.
 *
 * Threads. The handler asks and receives answers. It also handles answers without contents; the evictor handles the
 * others. All functions are called with children->lock held.
 */
#ifndef PAGER_RECLAIM_H
#define PAGER_RECLAIM_H

#include "pager/pass.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct child;
struct children;

#define RECLAIM_MAX 64u   /* pages per request */
#define RECLAIM_MOVES 16u /* own pages per request */
#define RECLAIM_ASKED 64u /* most children that have been asked and have not answered */
/* This many shadows are kept free, for the pages that asked children can move. */
#define RECLAIM_SHADOWS (RECLAIM_ASKED * RECLAIM_MOVES)

/* The pages of one child that can be taken back, and the request to it. */
struct reclaim {
	uint64_t *clean; /* one bit per page: clean copies */
	uint64_t *own;   /* one bit per page: own pages that may leave */
	int64_t count;   /* pages in both */
	uint64_t hand;   /* where the search for pages continues */
	uint64_t asked[RECLAIM_MAX];
	unsigned asked_count;
	uint64_t forgotten; /* one bit for each asked page */
	unsigned asked_of;  /* serial number of the child that was asked: this one, or one that has forked it */
	struct pass_removed answer;
	char *contents; /* RECLAIM_MOVES pages, which arrive before the answer */
	unsigned content_count;
	bool answered; /* the evictor is to handle the answer */
	bool mute;     /* the child is not asked any more */
};

bool reclaim_is_clean(const struct child *child, uint64_t page);
/* Returns true if the page is a clean copy, or an own page that may leave. */
bool reclaim_has(const struct child *child, uint64_t page);
void reclaim_add_clean(struct child *child, uint64_t page);
void reclaim_add_own(struct child *child, uint64_t page);
/* The page is neither a clean copy nor an own page any more. Returns true if it was one. */
bool reclaim_forget(struct child *child, uint64_t page);
/* The child has other memory at those of these pages that are asked. */
void reclaim_forget_asked(struct child *child, uint64_t first, uint64_t count);
/* Asks @child to remove some pages, unless its last answer is still to come or too many children have been asked.
   Returns false if the child cannot be asked for pages. */
bool reclaim_ask(struct children *children, struct child *child);
/* Returns how many children have not answered yet. */
unsigned reclaim_count_asked(const struct children *children);
bool reclaim_is_asked(const struct child *child, uint64_t page);
/* @child is being forked by @parent, and faults on the pages that @parent is asked for wait in @child, too. */
void reclaim_inherit(struct child *child, const struct child *parent);
/* Takes a PASS_CONTENTS or PASS_REMOVED of the child. */
void reclaim_hear(struct children *children, struct child *child, enum pass what, const struct pass_message *message);
/* Returns a child whose answer the evictor is to handle, or NULL. */
struct child *reclaim_next(struct children *children);
/* Handles the answer of @child. @shadows has the shadow for each of the contents. */
void reclaim_finish(struct children *children, struct child *child, const uint64_t *shadows);
/* The child will not answer any more. Pages that it may have moved are lost for the processes that it has forked. */
void reclaim_abandon(struct children *children, struct child *child);

#endif
