/*
 * fetch: the handler's reads from the store. All functions run in the handler thread.
 *
 * A page that a thread waits for (a demanded page) is read alone, so that nothing delays it. The pages of a read-ahead
 * follow in pieces of 16, into other frames. When a read completes, its pages are copied into the program, and the
 * threads that wait for them are woken.
 *
 * Reads are staged, and then sent together, because each sending costs a system call. The handler sends them before it
 * places a page, reads ahead, polls, or sleeps. So a read waits only while the handler looks at other faults.
 *
 * Pages are also read ahead for a forked child. If such a page cannot be placed in the child, it stays far, and the
 * threads that wait for it fault again.
 *
 * A frame gets its memory when it is used for the first time, unless an RDMA device has pinned all frames. The handler
 * claims this memory from the local budget, and never releases it (core->frames).
 */
#ifndef PAGER_FETCH_H
#define PAGER_FETCH_H

#include "pager/handler.h"

/* The state of pages that are about to be placed, and the state that they return to if the program has unmapped
   them. */
struct origin {
	enum page_state from, otherwise;
	uint32_t frame; /* the page's frame in state `otherwise` */
};
extern const struct origin fetch_from_donor, fetch_from_nowhere;
extern const struct origin fetch_resident; /* zeroes for a page that is absent although its state is "resident" */

/*
 * Copies @count pages into the program, makes them resident, and wakes the threads that wait for them. If a page
 * that shall be filled with zeroes is already present, its contents stay. If any other page is already present, one
 * of the two copies is wrong, so the process is stopped.
 */
void fetch_place(struct handler *handler, uint64_t page, const char *data, uint32_t count, const struct origin *origin);
/* Fills @count pages, from @page on, with zeroes, as fetch_place() does. One of them, @demanded, has faulted. If the
   pages are not all in one mapping, only @demanded is sure to be placed. */
void fetch_place_zeroes(struct handler *handler, uint64_t page, uint32_t count, uint64_t demanded);
/* Moves @page from PAGE_FAR to PAGE_FETCHING. Returns false if the page is not far. Handler only. */
bool fetch_begin(struct core *core, uint64_t page);
/* Claims the first frame, or all frames if a device has pinned them. Must be called when the frames are registered. */
void fetch_claim_first(struct handler *handler);
/* Returns true if a frame for a demanded page is free. */
bool fetch_has_frame(struct handler *handler);
/* Sends the staged reads, or as many as the store takes. */
void fetch_send(struct handler *handler);
/* Reads the page of @fault, whose contents are at the page @home of the store. For a fault of the program, @home is the
   same page, which is PAGE_FETCHING. For a fault of a child, the fetch takes over the caller's use of @home
   (children_look()). */
void fetch_page(struct handler *handler, const struct fault *fault, uint64_t home);
/* Reads the pages @ahead of @page, at most the handler's `ahead`. Stops before the first page that is not far, or when
   only memory for demanded pages is left. Returns the number of pages. */
unsigned fetch_ahead(struct handler *handler, uint64_t page, struct ahead ahead);
/* Reads the pages @ahead of the page of @fault for the child that faulted. @home is the page of the store that has the
   contents of that page. Stops before the first page that is not far for the child, or whose contents are not at the
   next page of the store in that direction. Returns the number of pages. */
unsigned fetch_ahead_for_child(struct handler *handler, const struct fault *fault, uint64_t home, struct ahead ahead);
/* Returns true if @page is part of a read-ahead for @child in flight. When it has been read, threads that wait for it
   are woken. */
bool fetch_comes(const struct handler *handler, const struct child *child, uint64_t page);
/* Processes the answers that have arrived. Returns their number. */
unsigned fetch_poll(struct handler *handler);
/* Parks a fault that cannot be answered yet. The handler retries it after the next core_settled(). */
void fetch_park(struct handler *handler, const struct fault *fault);

#endif
