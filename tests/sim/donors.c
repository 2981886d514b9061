/* donors: see donors.h. */
#include "tests/sim/donors.h"

#include "memserver/shrink.h"
#include "tests/sim/net.h"

#include <stdio.h>
#include <string.h>

void donors_open(struct donor_host *donor, unsigned host, const struct donor_config *config)
{
	*donor = (struct donor_host){.host = host, .config = *config, .down = true};
	snprintf(donor->uri, sizeof donor->uri, "tcp://%u:7470", host);
}

/* Does what server_run() does around the loop. */
static void *donor_main(void *argument)
{
	struct donor_host *host = argument;
	struct process *process = task_process();
	struct server *server = host->server;
	struct fabric_listener *listener;
	int status = donor_open(&host->config, &server->donor);

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
	world_tell("%s: is told to stop", donor->process->name);
	donor->down = true;
	donor->ready = false;
	donor->server->stop = true;
	net_interrupt(donor->process);
}

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
