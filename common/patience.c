/* patience: see patience.h. The loop's thread is the only writer of the sequence lock. */
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

/* Adds @ns to the time that does not count, and sets the limit. */
static void patience_change(struct patience *patience, uint64_t ns, uint64_t limit)
{
	uint32_t version = atomic_load_explicit(&patience->version, memory_order_relaxed);

	atomic_store(&patience->version, version + 1);
	if (ns)
		atomic_store(&patience->lost, atomic_load_explicit(&patience->lost, memory_order_relaxed) + ns);
	atomic_store(&patience->limit, limit);
	atomic_store(&patience->version, version + 2);
}

static uint64_t late(uint64_t ns)
{
	return ns > PATIENCE_LATE_NS ? ns : 0;
}

int patience_sleep(struct patience *patience, uint64_t clock, uint64_t due)
{
	uint64_t ns = patience->woken ? late(clock - patience->woken) : 0, now, ms;

	patience->wanted = UINT64_MAX;
	if (due == UINT64_MAX) {
		patience_change(patience, ns, 0);
		return -1;
	}
	now = clock - (atomic_load_explicit(&patience->lost, memory_order_relaxed) + ns);
	ms = due > now ? (due - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	if (ms > SLEEP_MAX_MS)
		ms = SLEEP_MAX_MS;
	patience->wanted = clock + ms * NS_PER_MS;
	patience_change(patience, ns, patience->wanted + PATIENCE_LATE_NS);
	return (int)ms;
}

void patience_wake(struct patience *patience, uint64_t clock)
{
	patience_change(patience, clock > patience->wanted ? late(clock - patience->wanted) : 0, 0);
	patience->woken = clock;
}
