/*
 * streams: detects sequential access among faults, and says how many pages to read ahead.
 *
 * Theory of operation. A stream is a run of faults on ascending or on descending pages. A stream begins when a fault
 * hits the page after, or before, a recently faulted page. Each further fault on the page where the stream continues
 * doubles the read-ahead, up to the limit. Any other fault is only remembered and gets no read-ahead. So random access
 * costs no extra reads.
 *
 * Descending faults are common: memcpy() of glibc begins at the end if the two buffers have the same offset in their
 * pages, as large blocks of a heap have.
 *
 * Threads: only the thread that owns a struct streams uses it.
 */
#ifndef PAGER_STREAMS_H
#define PAGER_STREAMS_H

#include <stdint.h>

#define STREAMS_MAX 16

/* The pages to read ahead of a fault: @count pages after the faulted page if @step is 1, before it if @step is -1. */
struct ahead {
	unsigned count;
	int step;
};

struct streams {
	unsigned limit; /* pages */
	uint64_t clock;
	unsigned noted; /* the stream of the last noted fault */
	struct {
		uint64_t last;   /* the last page that faulted or was read ahead */
		int step;        /* 1 or -1, or 0 after a single fault */
		unsigned length; /* pages of the last read-ahead */
		uint64_t used;
	} entries[STREAMS_MAX];
};

void streams_init(struct streams *streams, unsigned limit);
/* Records a fault on @page. Returns the pages to read ahead, at most `limit`. Some of them may not exist. */
struct ahead streams_note(struct streams *streams, uint64_t page);
/* Records that the first @count of the pages that the last streams_note() returned are being read. The stream continues
   behind them. */
void streams_extend(struct streams *streams, unsigned count);

/* Returns the page of number @index, 0 to @ahead.count - 1, of those @ahead of @page. The nearest page is number 0. */
static inline uint64_t ahead_page(struct ahead ahead, uint64_t page, unsigned index)
{
	return ahead.step > 0 ? page + 1 + index : page - 1 - index;
}

/* Returns how many pages of @ahead exist, if @page has faulted and the pages have the numbers 0 to @pages - 1. */
static inline unsigned ahead_within(struct ahead ahead, uint64_t page, uint64_t pages)
{
	uint64_t most = ahead.step > 0 ? pages - 1 - page : page;

	return ahead.count < most ? ahead.count : (unsigned)most;
}

#endif
