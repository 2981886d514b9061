/* patience: see patience.h. The words that other threads read change together: a sequence lock with one writer. */
#include "common/patience.h"

#define NS_PER_MS UINT64_C(1000000)
#define SLEEP_MAX_MS 3600000u

uint64_t patience_at(const struct patience *patience, uint64_t clock)
{
	uint32_t version;
	uint64_t lost, limit;

	do {
		version = atomic_load(&patience->version);
		lost = atomic_load(&patience->lost);
		limit = atomic_load(&patience->limit);
	} while (version & 1 || version != atomic_load(&patience->version));
	return (limit && clock > limit ? limit : clock) - lost;
}

/* @ns more do not count, unless they are few. */
static void patience_change(struct patience *patience, uint64_t ns, uint64_t limit)
{
	atomic_fetch_add(&patience->version, 1);
	if (ns > PATIENCE_LATE_NS)
		atomic_fetch_add(&patience->lost, ns);
	atomic_store(&patience->limit, limit);
	atomic_fetch_add(&patience->version, 1);
}

int patience_sleep(struct patience *patience, uint64_t clock, uint64_t due)
{
	uint64_t now, ms;

	patience_change(patience, patience->woken ? clock - patience->woken : 0, 0);
	patience->wanted = UINT64_MAX;
	if (due == UINT64_MAX)
		return -1;
	now = patience_at(patience, clock);
	ms = due > now ? (due - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	if (ms > SLEEP_MAX_MS)
		ms = SLEEP_MAX_MS;
	patience->wanted = clock + ms * NS_PER_MS;
	patience_change(patience, 0, patience->wanted + PATIENCE_LATE_NS);
	return (int)ms;
}

void patience_wake(struct patience *patience, uint64_t clock)
{
	uint64_t late = clock > patience->wanted ? clock - patience->wanted : 0;

	patience_change(patience, late, clock + PATIENCE_LATE_NS);
	patience->woken = clock;
}
