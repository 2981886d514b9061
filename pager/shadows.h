/*
 * shadows: the pages of the store beyond those of the window. A shadow has contents that only forked children need: a
 * page that a child has written, or what a page was before its parent changed it.
 *
 * Theory of operation. The contents of a shadow never change. Several children can use one shadow, and a read of it is
 * a user, too. The last user to leave frees the shadow. While a write of the shadow is in flight, the shadow stays
 * until the write is complete.
 *
 * The word of a shadow (pages.h) stays in the state PAGE_UNTOUCHED. A shadow in use has the mark PAGE_SNAPSHOT, so that
 * the writer repeats a failed write.
 *
 * Threads. The evictor allocates shadows and writes them. The handler and the evictor share and drop them.
 */
#ifndef PAGER_SHADOWS_H
#define PAGER_SHADOWS_H

#include "client/store.h"
#include "pager/pages.h"

#include <pthread.h>

struct shadows {
	struct store *store;
	struct pages *pages;
	uint64_t first, count; /* the shadows are the pages [first, first + count) of the store */
	uint32_t *entries;     /* for a shadow in use: the number of its users; for a free one: the next free one */
	uint32_t free;         /* the first of the list of free shadows, or SHADOWS_NONE */
	uint32_t fresh;        /* no shadow from here on was ever used */
	uint32_t used;
	pthread_mutex_t lock;
};

#define SHADOWS_NONE UINT32_MAX

/* All pages of @store from @first on become shadows. @pages has a word for each. Returns 0 or -ENOMEM. */
int shadows_open(struct shadows *shadows, struct store *store, struct pages *pages, uint64_t first);
void shadows_close(struct shadows *shadows);
/* Returns the bytes of memory of the tables of the shadows that were ever used. */
uint64_t shadows_memory(const struct shadows *shadows);
/* Returns true if @page of the store is a shadow. */
static inline bool shadows_has(const struct shadows *shadows, uint64_t page)
{
	return page - shadows->first < shadows->count;
}
/* Returns how many shadows are free. */
uint32_t shadows_left(struct shadows *shadows);
/* Returns a shadow with one user, or 0 if only @kept shadows are free. Evictor only. */
uint64_t shadows_allocate(struct shadows *shadows, uint32_t kept);
/* Adds a user of @page. If @page is not a shadow, this function does nothing. */
void shadows_share(struct shadows *shadows, uint64_t page);
/* Removes a user of @page. If @page is not a shadow, this function does nothing. */
void shadows_drop(struct shadows *shadows, uint64_t page);
/* Clears the mark PAGE_WRITING of @page, whose write has completed. Evictor only. */
void shadows_written(struct shadows *shadows, uint64_t page);

#endif
