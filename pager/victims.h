/*
 * victims: the buffer that evicted pages leave through. A ring of frames in memory registered with the store: a
 * dirty page is written to its donors straight from its frame, and until the ring comes round again the frame also
 * serves whoever misses the page (PAGE_BUFFERED), without the network.
 *
 * The evictor owns it; the handler only reads the contents of a frame whose page it holds in PAGE_RETURNING.
 */
#ifndef PAGER_VICTIMS_H
#define PAGER_VICTIMS_H

#include "farpage/store.h"
#include "pager/pages.h"

struct victims {
	char *frames;
	uint32_t *page_of; /* which page's contents a frame has */
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

/*
 * The next frame of the ring, emptied: the page that it held is far now. VICTIMS_NONE while that frame is still being
 * written: wait for completions and ask again.
 */
uint32_t victims_allocate(struct victims *victims);
/* Empties one frame, if nothing is reading or writing it: its page is far now. False: not yet. */
bool victims_empty(struct victims *victims, uint32_t frame);

#endif
