/*
 * snapshot: the pages that are *far* for one forked child, and the home of each.
 *
 * Theory of operation. The *home* of a far page is the page of the store that has its contents. At first it is the
 * program's page. Before the evictor changes the contents of that page, it copies the old contents to a shadow
 * (shadows.h). The shadow then becomes the home for all children that have the page (children_rehome()). Own pages that
 * a child has sent to the pager are at shadows, too (reclaim.h).
 *
 * A snapshot is a user of each shadow that is a home in it.
 *
 * Threads. The handler and the evictor call these functions with children->lock held.
 */
#ifndef PAGER_SNAPSHOT_H
#define PAGER_SNAPSHOT_H

#include "pager/bitmap.h"
#include "pager/shadows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNAPSHOT_LOST UINT64_MAX /* the home of a page whose contents are lost */

struct snapshot {
	struct shadows *shadows;
	uint64_t pages;   /* pages of the window that can be far; grows, up to the size of the tables */
	uint64_t *far;    /* one bit per page: is far, or is a clean copy (reclaim.h) */
	uint32_t *homes;  /* of each far page: 0 for the program's page, or a code for another home (snapshot.c) */
	uint64_t rehomed; /* far pages whose home is not the program's page */
};

/* Returns the bytes of the tables of @pages pages. */
size_t snapshot_bytes(uint64_t pages);
/* @tables is zeroed memory of snapshot_bytes(@most) bytes, which the caller owns. No page is far. `pages` is 0, and the
   caller raises it to at most @most. */
void snapshot_open(struct snapshot *snapshot, struct shadows *shadows, uint64_t most, void *tables);
/* Ends the use of all shadows. */
void snapshot_close(struct snapshot *snapshot);
/* Makes the pages of @from far in the new @snapshot, with the same homes. */
void snapshot_inherit(struct snapshot *snapshot, const struct snapshot *from);

static inline bool snapshot_is_far(const struct snapshot *snapshot, uint64_t page)
{
	return page < snapshot->pages && bitmap_has(snapshot->far, page);
}

/* Returns true if @page is far, and its home is the program's page. */
static inline bool snapshot_needs(const struct snapshot *snapshot, uint64_t page)
{
	return snapshot_is_far(snapshot, page) && snapshot->homes[page] == 0;
}

/* Makes @page far. Its home is the program's page. @page was not far. */
static inline void snapshot_add(struct snapshot *snapshot, uint64_t page)
{
	bitmap_set(snapshot->far, page, 1, true);
}

/* Returns how many pages are far. */
uint64_t snapshot_count(const struct snapshot *snapshot);
/* @page is not far any more. */
void snapshot_remove(struct snapshot *snapshot, uint64_t page);
/* Returns the page of the store that has the contents of the far @page, or SNAPSHOT_LOST. */
uint64_t snapshot_home(const struct snapshot *snapshot, uint64_t page);
/* Makes @page far. @home is a shadow, or SNAPSHOT_LOST. The snapshot takes over a use of the shadow from the caller. */
void snapshot_set_home(struct snapshot *snapshot, uint64_t page, uint64_t home);

#endif
