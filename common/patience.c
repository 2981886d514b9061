/* patience: see patience.h. */
#include "common/patience.h"

#define NS_PER_MS UINT64_C(1000000)
#define SLEEP_MAX_MS 3600000u

uint64_t patience_at(const struct patience *patience, uint64_t clock)
{
	return clock - atomic_load_explicit(&patience->lost, memory_order_relaxed);
}

static void patience_lose(struct patience *patience, uint64_t ns)
{
	if (ns > PATIENCE_LATE_NS)
		atomic_fetch_add_explicit(&patience->lost, ns, memory_order_relaxed);
}

int patience_sleep(struct patience *patience, uint64_t clock, uint64_t due)
{
	uint64_t now, ms;

	if (patience->woken)
		patience_lose(patience, clock - patience->woken);
	patience->wanted = UINT64_MAX;
	if (due == UINT64_MAX)
		return -1;
	now = patience_at(patience, clock);
	ms = due > now ? (due - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	if (ms > SLEEP_MAX_MS)
		ms = SLEEP_MAX_MS;
	patience->wanted = clock + ms * NS_PER_MS;
	return (int)ms;
}

void patience_wake(struct patience *patience, uint64_t clock)
{
	if (clock > patience->wanted)
		patience_lose(patience, clock - patience->wanted);
	patience->woken = clock;
}
