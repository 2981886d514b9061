/* donors: see donors.h. */
#include "tests/sim/donors.h"

#include "memserver/connection.h"
#include "memserver/shrink.h"
#include "tests/sim/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The donors, by host. Entries left over from an earlier history with more donors do not run. */
static struct donor_host *hosts[DONORS_MAX];

void donors_open(struct donor_host *donor, unsigned host, const struct donor_config *config)
{
	hosts[host] = donor;
	*donor = (struct donor_host){.host = host, .config = *config, .down = true};
	snprintf(donor->uri, sizeof donor->uri, "tcp://%u:7470", host);
}

/* Opens the donor. If the process before has handed over leases, gives them to the donor. */
static int donor_begin(struct donor_host *host, struct donor **ret_donor)
{
	struct donor_config config = host->config;
	int status;

	if (!host->inherits)
		return donor_open(&config, ret_donor);
	config.slabs.inherited = &host->handover.files;
	status = donor_open(&config, ret_donor);
	task_process()->adopts = true;
	if (!status)
		status = handover_adopt(&host->handover, *ret_donor);
	task_process()->adopts = false;
	handover_free(&host->handover);
	host->inherits = false;
	return status;
}

/* Does what server_run() does before and after its loop. */
static void *donor_main(void *argument)
{
	struct donor_host *host = argument;
	struct process *process = task_process();
	struct server *server = host->server;
	struct fabric_listener *listener;
	int status = donor_begin(host, &server->donor);

	if (!status)
		status = fabric_listen(server->donor->fabric, host->uri, &listener);
	if (!status)
		status = fabric_watch(server->donor->fabric, slab_fd(server->donor->worker), server->donor);
	if (status)
		world_fail("%s: cannot start: %d", process->name, status);
	if (!status) {
		server->shrink = world_memory(sizeof *server->shrink);
		shrink_open(server->shrink, NULL, server->donor);
	}
	host->ready = !status && !process->dead;
	if (!status && server_loop(server))
		world_fail("%s: its loop failed", process->name);
	donor_close(server->donor);
	server->donor = NULL;
	world_tell("%s: has ended", process->name);
	return NULL;
}

void donor_start(struct donor_host *donor)
{
	char name[16];

	snprintf(name, sizeof name, "donor%u.%u", donor->host, ++donor->starts);
	world_tell("%s: starts", name);
	machine_at(donor->host)->off = false;
	donor->down = donor->ready = false;
	donor->process = process_create(name, donor->host);
	donor->server = world_memory(sizeof *donor->server);
	donor->server->signals = -1;
	donor->server->replace_at = UINT64_MAX;
	task_create(donor->process, "server", donor_main, donor);
}

void donor_crash(struct donor_host *donor, bool machine)
{
	world_tell("%s: is killed%s", donor->process->name, machine ? ", and its machine with it" : "");
	donor->down = true;
	donor->ready = false;
	donor->server->stop = true;
	net_kill(donor->process, machine);
	machine_at(donor->host)->off = machine;
}

void donor_stop(struct donor_host *donor)
{
	donor->inherits = false;
	if (donor->down)
		return;
	world_tell("%s: is told to stop", donor->process->name);
	donor->down = true;
	donor->ready = false;
	donor->server->stop = true;
	net_interrupt(donor->process);
}

/* --- Upgrades, in place of memserver/upgrade.c -------------------------------------------------------------------- */

void upgrade_expire(struct upgrade *upgrade, uint64_t now)
{
	(void)upgrade, (void)now;
}

uint64_t upgrade_due(const struct upgrade *upgrade)
{
	(void)upgrade;
	return UINT64_MAX;
}

bool upgrade_is_outdated(const struct upgrade *upgrade, const struct donor *donor)
{
	(void)upgrade, (void)donor;
	return false;
}

void upgrade_open(struct upgrade *upgrade, char *const *argv)
{
	(void)upgrade, (void)argv; /* no command line in the simulator */
}

void upgrade_close(struct upgrade *upgrade)
{
	(void)upgrade;
}

void upgrade_try(struct upgrade *upgrade, const struct donor *donor)
{
	(void)upgrade, (void)donor; /* no signals in the simulator */
}

bool upgrade_has_succeeded(struct upgrade *upgrade)
{
	(void)upgrade;
	return false;
}

/* Copies the memory of the slabs that are handed over, because the killed process still clears its slabs. */
static int memory_copy(const struct handover *handover)
{
	static char page[4096];
	int copy = memfd_create("slabs", MFD_CLOEXEC);

	for (uint32_t i = 0; i < handover->slab_count; i++) {
		const off_t start = (off_t)(handover->slabs[i].index * handover->slab_bytes);

		for (off_t at = start; handover->slabs[i].client >= 0 && at < start + (off_t)handover->slab_bytes;
		     at += sizeof page)
			if (pread(handover->files.plain, page, sizeof page, at) != sizeof page ||
			    pwrite(copy, page, sizeof page, at) != sizeof page)
				world_fail("cannot copy a slab");
	}
	return copy;
}

static void donor_next(void *what, uint64_t token)
{
	struct donor_host *host = what;

	(void)token;
	if (host->inherits)
		donor_start(host);
}

/* Kills the calling process. The next one starts a moment later and takes over the leases. */
void upgrade_replace(struct upgrade *upgrade, const struct donor *donor)
{
	struct donor_host *host = hosts[task_process()->host];
	char text[16];

	(void)upgrade;
	if (task_process()->dead)
		return;
	snprintf(text, sizeof text, "%d", handover_write(donor));
	setenv(HANDOVER_VARIABLE, text, 1);
	if (handover_read(&host->handover) < 0)
		world_fail("%s: cannot hand over its leases", host->process->name);
	host->handover.files.plain = memory_copy(&host->handover);
	host->inherits = true;
	donor_crash(host, false);
	world_at(world_now() + (1 + world_below(100)) * MS, donor_next, host, 0);
}

void donor_upgrade(struct donor_host *donor)
{
	if (!donor->ready)
		return;
	world_tell("%s: is told to replace its program", donor->process->name);
	donor->server->replace = true;
	net_interrupt(donor->process);
}

/* ------------------------------------------------------------------------------------------------------------------ */

void donor_hint(const struct donor_host *donor)
{
	if (!donor->down)
		net_interrupt(donor->process);
}

unsigned donor_slabs_used(const struct donor_host *donor)
{
	const struct donor *open = donor->server->donor;

	return open && !donor->down ? open->config.limits.slabs - open->book->free_count : 0;
}

unsigned donors_lend_to(const uint8_t id[WIRE_ID_SIZE])
{
	unsigned slabs = 0;

	for (unsigned i = 0; i < DONORS_MAX && hosts[i]; i++) {
		const struct donor *donor = hosts[i]->ready ? hosts[i]->server->donor : NULL;
		uint32_t session = donor ? lease_session_find(donor->book, id) : LEASE_NO_SESSION;

		slabs += session == LEASE_NO_SESSION ? 0 : donor->book->sessions[session].slabs;
	}
	return slabs;
}

/* --- Checks ----------------------------------------------------------------------------------------------------- */

/* The longest delay that a scheduler may cause. */
#define OVER_NS (600 * MS)

/* Checks that each leased slab, and no other, is registered for the client that leases it. */
static void slabs_check(struct donor_host *host, const struct donor *donor)
{
	for (uint32_t i = 0; i < donor->config.limits.slabs; i++) {
		const struct lease_slab *slab = &donor->book->slabs[i];
		const struct fabric_region *region = donor->regions[i];

		host->warm += slab->warmth != 0;
		if (lease_slab_is_held(slab) ? !region || region->domain != donor->sessions[slab->session].domain
					     : region != NULL)
			world_fail("%s: slab %u is in state %d, and %s", host->process->name, i, slab->state,
				   region ? "registered for somebody" : "not registered");
	}
}

static void sessions_check(const struct donor_host *host, const struct donor *donor)
{
	for (uint32_t i = 0; i < donor->config.limits.sessions; i++) {
		const struct lease_session *session = &donor->book->sessions[i];
		unsigned slabs = 0, conns = 0;

		for (uint32_t j = 0; j < donor->config.limits.slabs; j++)
			slabs +=
			    donor->book->slabs[j].session == i && donor->book->slabs[j].state != LEASE_SLAB_CLEARING;
		for (const struct connection *peer = donor->sessions[i].data; peer; peer = peer->next)
			conns++;
		if (slabs != session->slabs || conns != session->conns)
			world_fail("%s: session %u is said to have %u slabs and %u connections, and has %u and %u",
				   host->process->name, i, session->slabs, session->conns, slabs, conns);
	}
}

/* Checks that the donor grants no slab while it wants slabs back, and has these back at its deadline. */
static void wants_check(struct donor_host *host, const struct lease_book *book)
{
	const struct machine *machine = machine_at(host->host);
	const uint32_t allowed = machine->told.drain == WIRE_DRAIN_FORCE ? 0 : machine->told.slabs;
	unsigned lent = 0, kept = 0, counted = 0;

	for (uint32_t i = 0; i < book->limits.slabs; i++) {
		const struct lease_slab *slab = &book->slabs[i];
		const bool stays =
		    slab->state == LEASE_SLAB_LEASED || (slab->state == LEASE_SLAB_PREPARING && !slab->unwanted);

		lent += lease_slab_is_held(slab);
		kept += stays;
		counted += stays || (slab->state == LEASE_SLAB_REVOKING && slab->drained);
	}
	if (counted > machine->told.slabs || (kept && machine->told.drain != WIRE_DRAIN_END))
		world_fail("%s: lends %u slabs and wants %u of them back", host->process->name, lent, lent - kept);
	if (lent <= allowed || allowed != host->over_slabs || host->process->stalled_until > world_now())
		host->over_since = world_now();
	else if (world_now() > host->over_since + book->limits.revoke_ns + OVER_NS)
		world_fail("%s: lends %u slabs long after it may lend %u", host->process->name, lent, allowed);
	host->over_slabs = allowed;
}

void donor_check(struct donor_host *host)
{
	const struct donor *donor = host->server->donor;

	/* Until all actions of an event are carried out, the lease book may disagree with the donor. */
	if (!host->ready || !donor || donor->book->action_count)
		return;
	if (donor->lines[DONOR_MISTAKES].lines)
		world_fail("%s: a client broke the protocol", host->process->name);
	slabs_check(host, donor);
	sessions_check(host, donor);
	wants_check(host, donor->book);
}

bool donor_is_empty(const struct donor_host *donor)
{
	const struct donor *open = donor->server->donor;

	return donor->ready && open && !donor_slabs_used(donor) && !open->book->session_count &&
	       !donor->process->regions;
}

void donor_check_empty(const struct donor_host *donor)
{
	const struct donor *open = donor->server->donor;

	if (donor_is_empty(donor))
		return;
	if (!donor->ready || !open)
		world_fail("%s: does not run", donor->process->name);
	else
		world_fail("%s: keeps %u slabs, %u sessions and %u regions", donor->process->name,
			   donor_slabs_used(donor), open->book->session_count, donor->process->regions);
}
