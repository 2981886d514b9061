#include "pager/streams.h"

#include <string.h>

#define FIRST_LENGTH 4

void streams_init(struct streams *streams, unsigned limit)
{
	memset(streams, 0, sizeof *streams);
	streams->limit = limit;
	for (unsigned i = 0; i < STREAMS_MAX; i++)
		streams->entries[i].next = UINT64_MAX;
}

unsigned streams_note(struct streams *streams, uint64_t page)
{
	unsigned oldest = 0;

	streams->clock++;
	for (unsigned i = 0; i < STREAMS_MAX; i++) {
		if (streams->entries[i].next == page) {
			unsigned length = streams->entries[i].length ? 2 * streams->entries[i].length : FIRST_LENGTH;

			if (length > streams->limit)
				length = streams->limit;
			streams->entries[i].length = length;
			streams->entries[i].next = page + 1;
			streams->entries[i].used = streams->clock;
			return length;
		}
		if (streams->entries[i].used < streams->entries[oldest].used)
			oldest = i;
	}
	streams->entries[oldest].next = page + 1;
	streams->entries[oldest].length = 0;
	streams->entries[oldest].used = streams->clock;
	return 0;
}

void streams_extend(struct streams *streams, uint64_t page, unsigned count)
{
	for (unsigned i = 0; i < STREAMS_MAX; i++) {
		if (streams->entries[i].next == page + 1) {
			streams->entries[i].next += count;
			return;
		}
	}
}
