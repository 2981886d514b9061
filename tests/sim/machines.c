/* machines: see machines.h. */
#include "tests/sim/machines.h"

#include <string.h>

static struct machine machines[MACHINES_MAX];

void machine_spares_all(unsigned host)
{
	machines[host].wants.slabs = UINT32_MAX;
	machines[host].wants.drain = WIRE_DRAIN_END;
}

void machines_open(void)
{
	memset(machines, 0, sizeof machines);
	for (unsigned i = 0; i < MACHINES_MAX; i++)
		machine_spares_all(i);
}

struct machine *machine_at(unsigned host)
{
	return &machines[host];
}

bool machine_is_short(unsigned host)
{
	return machines[host].short_of_memory;
}

uint64_t machine_prepare_ns(unsigned host)
{
	return machines[host].prepare_ns ? world_below(machines[host].prepare_ns) : 0;
}

void machine_cut(unsigned from, unsigned to, uint64_t duration)
{
	uint64_t until = world_now() + duration;

	if (machines[from].cut_until[to] < until)
		machines[from].cut_until[to] = until;
}
