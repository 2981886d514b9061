/*
 * victims: the victim buffer, a ring of frames through which evicted pages leave.
 *
 * Theory of operation. The evictor copies an evicted page into the next frame. If the page is dirty, the store
 * writes it to the donors straight from the frame, because the frames are registered with the store. Until the frame
 * is reused, a fault on the page (PAGE_BUFFERED) is answered from the frame, without the network. When the frame is
 * reused, the page becomes PAGE_FAR, and its word gets a stamp (refault.h) in place of the frame. A page that is in the
 * program when its frame is reused has *returned*: the program needed it again soon (residents.h).
 *
 * The copy from the landing area (take.h) is necessary. UFFDIO_MOVE replaces the memory of the landing area, but an
 * RDMA device would continue to use the memory that was registered.
 *
 * Only the evictor changes the buffer. The handler only reads a frame, and only after it has moved the page to
 * PAGE_RETURNING.
 */
#ifndef PAGER_VICTIMS_H
#define PAGER_VICTIMS_H

#include "client/store.h"
#include "pager/pages.h"
#include "pager/refault.h"

struct victims {
	char *frames;
	uint32_t *page_of; /* for each frame: the page, or shadow, whose contents the frame has */
	uint8_t *writing;  /* 1 while the store reads from the frame */
	bool *proven;      /* for each frame: the page was in the proven queue (residents.h) */
	uint32_t young_returned, proven_returned; /* pages that have returned, since the evictor last set these to 0 */
	uint32_t count, next;
	uint32_t in_flight; /* number of frames being written */
	struct pages *pages;
	struct refault *refault;
};

#define VICTIMS_NONE UINT32_MAX

int victims_open(struct victims *victims, struct pages *pages, struct refault *refault, uint32_t count);
void victims_close(struct victims *victims);
uint64_t victims_memory(const struct victims *victims);

static inline char *victims_frame(const struct victims *victims, uint32_t frame)
{
	return victims->frames + (size_t)frame * STORE_PAGE;
}

/* Empties the next frame of the ring and returns it. The page that was in the frame becomes PAGE_FAR. Skips frames
   that the handler is reading. Returns VICTIMS_NONE if the next frame is still being written; the caller then waits
   for a write to complete and calls again. */
uint32_t victims_allocate(struct victims *victims);
/* Empties @frame, whose page becomes PAGE_FAR. Returns false if the frame is still being read or written. */
bool victims_empty(struct victims *victims, uint32_t frame);

#endif
