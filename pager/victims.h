/*
 * victims: the victim buffer, through which evicted pages leave. It is a ring of frames in memory registered with the
 * store. A dirty page is written to its donors straight from its frame. Until the frame is reused, it also answers
 * faults on the page (PAGE_BUFFERED), without the network.
 *
 * The landing area (take.h) cannot be registered in place of the frames. UFFDIO_MOVE exchanges a page's memory, and a
 * device would continue to use the old memory. So pages are copied from there into frames.
 *
 * The evictor owns the buffer. The handler only reads a frame whose page it has moved to PAGE_RETURNING.
 */
#ifndef PAGER_VICTIMS_H
#define PAGER_VICTIMS_H

#include "client/store.h"
#include "pager/pages.h"

struct victims {
	char *frames;
	uint32_t *page_of; /* the page whose contents a frame has */
	uint8_t *writing;  /* 1 while the store reads from the frame */
	uint32_t count, next;
	uint32_t in_flight; /* frames being written */
	struct pages *pages;
};

#define VICTIMS_NONE UINT32_MAX

int victims_open(struct victims *victims, struct pages *pages, uint32_t count);
void victims_close(struct victims *victims);
uint64_t victims_memory(const struct victims *victims);

static inline char *victims_frame(const struct victims *victims, uint32_t frame)
{
	return victims->frames + (size_t)frame * STORE_PAGE;
}

/* Empties the next frame of the ring and returns it. The page that the frame had is far now. Skips frames whose pages
   the handler is copying back. Returns VICTIMS_NONE while the next frame is being written: wait for completions and
   call again. */
uint32_t victims_allocate(struct victims *victims);
/* Empties @frame; its page is far now. Returns false if the frame is still being read or written. */
bool victims_empty(struct victims *victims, uint32_t frame);

#endif
