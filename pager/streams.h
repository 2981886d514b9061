/*
 * streams: detects sequential access among faults, and says how many pages to read ahead.
 *
 * Theory of operation. A stream is a run of faults on ascending pages. A stream begins when a fault hits the page after
 * a recently faulted page. Each further fault on the page where the stream continues doubles the read-ahead, up to the
 * limit. Any other fault is only remembered and gets no read-ahead. So random access costs no extra reads.
 *
 * Threads: only the thread that owns a struct streams uses it.
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
		unsigned length; /* pages of the last read-ahead, or 0 after a single fault */
		uint64_t used;
	} entries[STREAMS_MAX];
};

void streams_init(struct streams *streams, unsigned limit);
/* Records a fault on @page. Returns the number of pages after @page to read ahead, 0 to `limit`. */
unsigned streams_note(struct streams *streams, uint64_t page);
/* Records that @count pages after @page, the last noted page, are being read. The stream continues after them. */
void streams_extend(struct streams *streams, uint64_t page, unsigned count);

#endif
