/*
 * take: gets pages out of the program's reach, so that nothing it does can change them any more.
 *
 * Theory of operation. By UFFDIO_MOVE into a landing area where the kernel can; else, and for pages that MOVE refuses
 * (read-only, execute), by write-protecting them, copying them through the kernel and dropping them: a writer then
 * waits for userfaultfd, so that nothing is lost in between either. Pages next to each other go in one call.
 *
 * Owned by the evictor.
 */
#ifndef PAGER_TAKE_H
#define PAGER_TAKE_H

#include "pager/uffd.h"
#include <stdint.h>

#define TAKE_MAX 64

struct take {
	const struct uffd *uffd;
	char *base;    /* of the window */
	char *landing; /* TAKE_MAX pages, registered with the mover */
	char *scratch; /* TAKE_MAX pages, for copies */
	int memory;    /* /proc/self/mem: reads what the program may not */
	int pagemap;   /* /proc/self/pagemap: tells what is there */
};

enum take_result {
	TAKE_TAKEN,  /* data is its contents, the page is gone from the window */
	TAKE_ABSENT, /* there was none: it had been dropped, and reads as zeroes */
	TAKE_BUSY,   /* it cannot be taken now (pinned); it is where it was */
};

struct taken {
	uint64_t page;
	enum take_result result;
	const char *data; /* valid until take_release() */
};

/* @landing: as given to uffd_open. */
int take_open(struct take *take, const struct uffd *uffd, void *base, void *landing);
void take_close(struct take *take);
/* Takes @count (at most TAKE_MAX) pages, whose numbers ascend. */
void take_pages(struct take *take, struct taken *taken, unsigned count);
/* Frees the memory of what was taken. */
void take_release(struct take *take, unsigned count);

#endif
