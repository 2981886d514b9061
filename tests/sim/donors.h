/*
 * donors: farpage-memserver in a simulated process.
 *
 * Theory of operation. The real one (memserver/server.c's loop, donor.c, peer.c, lease.c, handshake.c, slab.c with its
 * worker) but for its command line and signals. A donor that is started again has nothing of what it had.
 *
 * Threads: one.
 */
#ifndef SIM_DONORS_H
#define SIM_DONORS_H

#include "memserver/server.h"
#include "tests/sim/task.h"

#define DONORS_MAX 5u

struct donor_host {
	unsigned host;
	char uri[64];
	struct donor_config config;
	struct process *process; /* the one that runs, or that was killed last */
	struct server *server;   /* of it; NULL until it is open */
	unsigned starts;
	bool down;  /* no process runs */
	bool ready; /* it listens */
};

/* The donor on this host, not started. */
void donors_open(struct donor_host *donor, unsigned host, const struct donor_config *config);
void donor_start(struct donor_host *donor);
/* The process is killed; @machine: with its machine, of which nobody hears. */
void donor_crash(struct donor_host *donor, bool machine);
/* It is told to stop (SIGTERM), and does in its own time. */
void donor_stop(struct donor_host *donor);

/* Its machine wants something else of it (machines.h). */
void donor_hint(const struct donor_host *donor);

/* It runs, nothing is leased there and nobody has a session. */
bool donor_is_empty(const struct donor_host *donor);
/* Says of one that is not what it still has: world_fail(). */
void donor_check_empty(const struct donor_host *donor);
/* Slabs that are not free. */
unsigned donor_slabs_used(const struct donor_host *donor);

#endif
