#include "pager/snapshot.h"

#include <assert.h>
#include <string.h>

/* The codes of homes: 0 for the program's page, 1 + the number of a shadow, or this. */
#define CODE_LOST UINT32_MAX

size_t snapshot_bytes(uint64_t pages)
{
	return bitmap_bytes(pages) + pages * sizeof(uint32_t);
}

void snapshot_open(struct snapshot *snapshot, struct shadows *shadows, uint64_t most, void *tables)
{
	*snapshot = (struct snapshot){
	    .shadows = shadows,
	    .far = tables,
	    .homes = (void *)((char *)tables + bitmap_bytes(most)),
	};
}

/* Returns the first far page from @page on whose home is not the program's page. There is one. */
static uint64_t next_rehomed(const struct snapshot *snapshot, uint64_t page)
{
	while (!snapshot_is_far(snapshot, page) || !snapshot->homes[page])
		page++;
	return page;
}

void snapshot_close(struct snapshot *snapshot)
{
	for (uint64_t page = 0; snapshot->rehomed; page++) {
		page = next_rehomed(snapshot, page);
		snapshot_remove(snapshot, page);
	}
}

void snapshot_inherit(struct snapshot *snapshot, const struct snapshot *from)
{
	assert(snapshot->pages == from->pages && snapshot->rehomed == 0);
	memcpy(snapshot->far, from->far, bitmap_bytes(from->pages));
	for (uint64_t page = 0; snapshot->rehomed < from->rehomed; page++) {
		page = next_rehomed(from, page);
		shadows_share(snapshot->shadows, snapshot_home(from, page));
		snapshot->homes[page] = from->homes[page];
		snapshot->rehomed++;
	}
}

uint64_t snapshot_count(const struct snapshot *snapshot)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < bitmap_bytes(snapshot->pages) / sizeof *snapshot->far; i++)
		count += (unsigned)__builtin_popcountll(snapshot->far[i]);
	return count;
}

uint64_t snapshot_home(const struct snapshot *snapshot, uint64_t page)
{
	uint32_t code = snapshot->homes[page];

	return code == 0 ? page : code == CODE_LOST ? SNAPSHOT_LOST : snapshot->shadows->first + code - 1;
}

void snapshot_remove(struct snapshot *snapshot, uint64_t page)
{
	if (!snapshot_is_far(snapshot, page))
		return;
	shadows_drop(snapshot->shadows, snapshot_home(snapshot, page));
	bitmap_set(snapshot->far, page, 1, false);
	if (snapshot->homes[page]) {
		snapshot->homes[page] = 0;
		snapshot->rehomed--;
	}
}

void snapshot_set_home(struct snapshot *snapshot, uint64_t page, uint64_t home)
{
	assert(home == SNAPSHOT_LOST || shadows_has(snapshot->shadows, home));
	snapshot_remove(snapshot, page);
	snapshot->homes[page] = home == SNAPSHOT_LOST ? CODE_LOST : (uint32_t)(home - snapshot->shadows->first) + 1;
	snapshot->rehomed++;
	snapshot_add(snapshot, page);
}
