/*
 * fetch: the handler's reads from the store, and what becomes of their answers.
 *
 * A demanded page is read alone; a read-ahead goes in pieces, behind it, into frames of its own. When an answer is
 * here, its pages are copied into the program and whoever waits for them is woken. Handler thread only.
 */
#ifndef PAGER_FETCH_H
#define PAGER_FETCH_H

#include "pager/handler.h"

/* Where the pages being placed come from, and where each goes back to if the program has unmapped it meanwhile. */
struct origin {
	enum page_state from, otherwise;
	uint32_t frame; /* of otherwise */
};
extern const struct origin fetch_from_donor, fetch_from_nowhere;
extern const struct origin fetch_resident; /* nowhere, for a page that should be here already */

/*
 * Copies @count pages into the program, wakes who waits for them, and calls them resident. An untouched page that is
 * there already stays as it is. If contents from elsewhere are to go where a page is already, one of the two is wrong:
 * the process is stopped. Pages that are filled with zeroes ahead of a demand end at the edge of the demand's mapping.
 */
void fetch_place(struct handler *handler, uint64_t page, const char *data, uint32_t count, const struct origin *origin);
/* Reads one page, which is PAGE_FETCHING (or wanted by @child), for @thread, which faulted at @started. */
void fetch_page(struct handler *handler, uint64_t page, struct child *child, pid_t thread, uint64_t started);
/* Reads up to @length pages from @page on, as long as they are far and there is room beyond what demands need. */
unsigned fetch_ahead(struct handler *handler, uint64_t page, unsigned length);
/* Takes the answers that are here: how many. */
unsigned fetch_poll(struct handler *handler);
/* A fault that cannot be answered yet: tried again when something has settled. */
void fetch_park(struct handler *handler, uint64_t page, struct child *child, pid_t thread, uint64_t started);

#endif
