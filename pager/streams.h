/*
 * streams: finds sequential runs among faults, and says how far to read ahead.
 *
 * Theory of operation. A fault on the page where a stream is expected to continue doubles that stream's read-ahead, up
 * to the limit. A fault next to a recent one starts a stream. Any other fault is remembered and gets no read-ahead, so
 * random access costs nothing extra. Streams ascend. The functions change only their struct streams, which has one
 * owner.
 */
#ifndef PAGER_STREAMS_H
#define PAGER_STREAMS_H

#include <stdint.h>

#define STREAMS_MAX 16

struct streams {
	unsigned limit; /* pages */
	uint64_t clock;
	struct {
		uint64_t next;   /* the page where the stream continues */
		unsigned length; /* the last read-ahead in pages; 0 after a single fault */
		uint64_t used;
	} entries[STREAMS_MAX];
};

void streams_init(struct streams *streams, unsigned limit);
/* Records a fault on @page. Returns how many of the pages after it to read as well, 0 to `limit`. */
unsigned streams_note(struct streams *streams, uint64_t page);
/* Records that @count pages after @page, the last noted page, are read. The stream continues after them. */
void streams_extend(struct streams *streams, uint64_t page, unsigned count);

#endif
