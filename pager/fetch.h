/*
 * fetch: the handler's reads from the store.
 *
 * A demanded page is read alone. A read-ahead follows behind it in pieces, into frames of its own. When an answer
 * arrives, its pages are copied into the program, and the threads that wait for them are woken. Handler thread only.
 */
#ifndef PAGER_FETCH_H
#define PAGER_FETCH_H

#include "pager/handler.h"

/* The state of pages that are being placed, and the state they return to if the program has unmapped them meanwhile. */
struct origin {
	enum page_state from, otherwise;
	uint32_t frame; /* frame that belongs to `otherwise` */
};
extern const struct origin fetch_from_donor, fetch_from_nowhere;
extern const struct origin fetch_resident; /* zeroes, for a page that should be present already */

/*
 * Copies @count pages into the program, wakes the threads that wait for them, and makes them resident. An untouched
 * page that is present already stays as it is. If a page is present although its contents come from elsewhere, one of
 * the two is wrong, and the process is stopped. Pages that are filled with zeroes ahead of a demand end at the edge of
 * the demand's mapping.
 */
void fetch_place(struct handler *handler, uint64_t page, const char *data, uint32_t count, const struct origin *origin);
/* Reads @page for @thread, which faulted at @started (ns). The page is PAGE_FETCHING, or @child needs it. */
void fetch_page(struct handler *handler, uint64_t page, struct child *child, pid_t thread, uint64_t started);
/* Reads up to @length pages (at most the handler's `ahead`) from @page on, while they are far and there is room beyond what demands need. Returns the
   number of pages. */
unsigned fetch_ahead(struct handler *handler, uint64_t page, unsigned length);
/* Processes the answers that have arrived. Returns their number. */
unsigned fetch_poll(struct handler *handler);
/* Parks a fault that cannot be answered yet. The handler tries it again after the next core_settled(). */
void fetch_park(struct handler *handler, uint64_t page, struct child *child, pid_t thread, uint64_t started);

#endif
