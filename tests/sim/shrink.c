/*
 * shrink: replaces memserver/shrink.c. It reports to a donor how many slabs it may lend, and drains it.
 *
 * The `wants` in machines.h say what the machine and the operator want at present. This file reports them to the
 * donor, in the donor's own thread, whenever the donor wakes. If a drained donor is started again, it is drained from
 * its start, as with a drain file.
 */
#include "memserver/shrink.h"

#include "tests/sim/machines.h"

void shrink_open(struct shrink *shrink, const struct pressure_config *config, struct donor *donor)
{
	struct machine *machine = machine_at(task_process()->host);

	(void)config;
	*shrink = (struct shrink){.donor = donor};
	machine->told.slabs = UINT32_MAX;
	machine->told.drain = donor->book->draining ? WIRE_DRAIN_WAIT : WIRE_DRAIN_END;
}

void shrink_reload(struct shrink *shrink, uint32_t slabs, uint64_t reserve)
{
	(void)shrink, (void)slabs, (void)reserve; /* no SIGHUP in the simulator */
}

void shrink_close(struct shrink *shrink)
{
	(void)shrink;
}

int shrink_fd(const struct shrink *shrink)
{
	(void)shrink;
	return -1;
}

void shrink_stalled(struct shrink *shrink)
{
	(void)shrink;
}

void shrink_look(struct shrink *shrink, uint64_t now)
{
	struct machine *machine = machine_at(task_process()->host);
	struct donor *donor = shrink->donor;

	if (machine->told.slabs != machine->wants.slabs) {
		machine->told.slabs = machine->wants.slabs;
		donor_target(donor, now, machine->wants.slabs, machine->wants.slabs != UINT32_MAX);
	}
	if (machine->told.drain == machine->wants.drain)
		return;
	machine->told.drain = machine->wants.drain;
	lease_drain(donor->book, now, machine->wants.drain, donor->config.limits.revoke_ns);
	donor_settle(donor);
}

uint64_t shrink_due(const struct shrink *shrink)
{
	(void)shrink;
	return UINT64_MAX;
}
