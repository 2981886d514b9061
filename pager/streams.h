/*
 * streams: finds sequential runs among faults and says how far to read ahead.
 *
 * Theory of operation. A fault on the page where a stream was expected to go on doubles that stream's read-ahead, up
 * to the limit; a fault next to a recent one starts a stream; any other is remembered and gets no read-ahead, so that
 * random access costs nothing extra. Ascending order only. Pure; one owner.
 */
#ifndef PAGER_STREAMS_H
#define PAGER_STREAMS_H

#include <stdint.h>

#define STREAMS_MAX 16

struct streams {
	unsigned limit; /* pages */
	uint64_t clock;
	struct {
		uint64_t next;   /* the page at which it would go on */
		unsigned length; /* read-ahead of the last time, pages; 0: a single fault so far */
		uint64_t used;
	} entries[STREAMS_MAX];
};

void streams_init(struct streams *streams, unsigned limit);
/* A fault on @page: how many of the pages after it to read as well, 0 .. limit. */
unsigned streams_note(struct streams *streams, uint64_t page);
/* @count pages after the last noted @page are read: the stream goes on after them. */
void streams_extend(struct streams *streams, uint64_t page, unsigned count);

#endif
