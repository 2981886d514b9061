/* capacity: see capacity.h. */
#include "blockdev/capacity.h"

#include "client/far.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>

/* Whether @chunks chunks fit: no donor holds a chunk twice, so that it counts for no more than @chunks. */
static int chunks_fit(const struct capacity *donors, unsigned count, unsigned replicas, uint64_t chunks)
{
	uint64_t room = 0;

	for (unsigned i = 0; i < count; i++) {
		uint64_t slabs = donors[i].slab ? donors[i].free / donors[i].slab : 0;

		room += slabs < chunks ? slabs : chunks;
	}
	return room >= chunks * replicas;
}

uint64_t capacity_most(const struct capacity *donors, unsigned count, unsigned replicas)
{
	uint64_t low = 0, high = 0, slab = 0;

	for (unsigned i = 0; i < count; i++) {
		if (!donors[i].slab)
			continue;
		slab = donors[i].slab; /* donors of a store agree on it */
		high += donors[i].free / slab;
	}
	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;

		if (chunks_fit(donors, count, replicas, middle))
			low = middle;
		else
			high = middle - 1;
	}
	return low * slab;
}

int capacity_check(const struct store *store, uint64_t bytes, unsigned replicas)
{
	char wanted[SIZE_TEXT_MAX], have[SIZE_TEXT_MAX];
	struct far_donor donors[FAR_DONORS_MAX];
	struct capacity capacities[FAR_DONORS_MAX];
	unsigned count = far_donors(store, donors, FAR_DONORS_MAX);
	uint64_t most;

	for (unsigned i = 0; i < count; i++) {
		uint64_t unused = donors[i].donated > donors[i].leased ? donors[i].donated - donors[i].leased : 0;

		capacities[i] =
		    (struct capacity){.free = donors[i].status < 0 ? 0 : unused, .slab = donors[i].slab_bytes};
	}
	most = capacity_most(capacities, count, replicas);
	if (bytes <= most)
		return 0;
	if (most)
		log_error("--size %s: the donors have only %s free%s; give at most that, add donors, or --overcommit",
			  size_format(bytes, wanted), size_format(most, have),
			  replicas > 1 ? " for as many replicas" : "");
	else
		log_error("--size %s: the donors have nothing free; add donors, or --overcommit",
			  size_format(bytes, wanted));
	return -ENOSPC;
}
