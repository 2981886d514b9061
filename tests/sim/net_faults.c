/* net_faults: the faults of wires, and the effects of a process's faults on the network. See net.h. */
#include "tests/sim/net.h"

#include <errno.h>
#include <string.h>

static bool wire_is_between(const struct wire *wire, unsigned one, unsigned other)
{
	return (wire->hosts[0] == one && wire->hosts[1] == other) || (wire->hosts[0] == other && wire->hosts[1] == one);
}

struct wire *net_pick(unsigned one, unsigned other)
{
	struct wire *found = NULL;
	unsigned count = 0;

	for (struct wire *wire = net.wires; wire; wire = wire->next)
		if (wire_is_between(wire, one, other) && net_end_lives(wire->ends[0]) && net_end_lives(wire->ends[1]) &&
		    world_below(++count) == 0)
			found = wire;
	return found;
}

void net_reset(struct wire *wire)
{
	world_tell("w%u: is reset", wire->number);
	for (unsigned side = 0; side < 2; side++) {
		net_lose(wire, side, true);
		if (net_end_lives(wire->ends[1 - side]))
			net_answer(wire, side, PACKET_END);
	}
}

void net_cut(struct wire *wire, unsigned side, uint64_t duration)
{
	if (wire->pipes[side].cut_until < world_now() + duration)
		wire->pipes[side].cut_until = world_now() + duration;
}

void net_kill(struct process *process, bool silent)
{
	for (struct wire *wire = net.wires; wire; wire = wire->next) {
		for (unsigned side = 0; side < 2; side++) {
			struct fabric_conn *conn = wire->ends[side];

			if (!net_end_lives(conn) || conn->process != process)
				continue;
			net_depart(conn);
			if (silent)
				wire->pipes[side].ended = true;
			else
				net_end(conn);
			net_break(conn, -ECONNRESET, -ECONNRESET, NULL, 0);
		}
	}
	process_kill(process);
	net_interrupt(process);
}

bool net_corrupt(struct process *process)
{
	struct fabric_region *found = NULL;
	unsigned count = 0;
	size_t offset;

	for (struct fabric_region *region = process->region_list; region; region = region->next)
		if (region->access && world_below(++count) == 0)
			found = region;
	if (!found)
		return false;
	offset = world_below(found->length);
	world_tell("%s: a bit of key %u flips at %zu", process->name, found->key, offset);
	found->base[offset] ^= (uint8_t)(1 << world_below(8));
	return true;
}

void net_interrupt(struct process *process)
{
	for (struct fabric *fabric = net.fabrics; fabric; fabric = fabric->next) {
		if (fabric->process != process || fabric->closed)
			continue;
		fabric->interrupted = true;
		task_wake(fabric->waiter);
	}
}
