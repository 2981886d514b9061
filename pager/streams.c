#include "pager/streams.h"

#include <string.h>

#define FIRST_LENGTH 4
#define NO_PAGE (UINT64_MAX - 1) /* neither this number nor its neighbours are a page */

void streams_init(struct streams *streams, unsigned limit)
{
	memset(streams, 0, sizeof *streams);
	streams->limit = limit;
	for (unsigned i = 0; i < STREAMS_MAX; i++)
		streams->entries[i].last = NO_PAGE;
}

/* Returns the step from the last page of entry @i to @page, or 0 if the entry does not continue there. */
static int step_to(const struct streams *streams, unsigned i, uint64_t page)
{
	uint64_t last = streams->entries[i].last;
	int step = page == last + 1 ? 1 : page == last - 1 ? -1 : 0;

	return streams->entries[i].step == 0 || streams->entries[i].step == step ? step : 0;
}

/* Returns the entry that continues at @page, or STREAMS_MAX. A stream is preferred to a single fault. */
static unsigned find(const struct streams *streams, uint64_t page)
{
	unsigned found = STREAMS_MAX;

	for (unsigned i = 0; i < STREAMS_MAX; i++) {
		if (step_to(streams, i, page) == 0)
			continue;
		found = i;
		if (streams->entries[i].step)
			break;
	}
	return found;
}

static unsigned least_recently_used(const struct streams *streams)
{
	unsigned oldest = 0;

	for (unsigned i = 1; i < STREAMS_MAX; i++)
		if (streams->entries[i].used < streams->entries[oldest].used)
			oldest = i;
	return oldest;
}

struct ahead streams_note(struct streams *streams, uint64_t page)
{
	unsigned found = find(streams, page), length = 0;
	int step = 0;

	if (found == STREAMS_MAX) {
		found = least_recently_used(streams);
	} else {
		step = step_to(streams, found, page);
		length = streams->entries[found].step ? 2 * streams->entries[found].length : FIRST_LENGTH;
		if (length > streams->limit)
			length = streams->limit;
	}
	streams->noted = found;
	streams->entries[found].last = page;
	streams->entries[found].step = step;
	streams->entries[found].length = length;
	streams->entries[found].used = ++streams->clock;
	return (struct ahead){length, step};
}

void streams_extend(struct streams *streams, unsigned count)
{
	uint64_t *last = &streams->entries[streams->noted].last;

	*last = streams->entries[streams->noted].step < 0 ? *last - count : *last + count;
}
