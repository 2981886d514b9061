/*
 * donors: farpage-memserver in a simulated process.
 *
 * Theory of operation. This is the real memserver (server.c's loop, donor.c, connection.c, lease.c, handshake.c, slab.c with
 * its worker), without command line and signals. A donor that is started again has lost all its slabs and sessions,
 * unless its program was replaced (memserver/upgrade.h).
 *
 * Threads: one.
 */
#ifndef SIM_DONORS_H
#define SIM_DONORS_H

#include "memserver/handover.h"
#include "memserver/server.h"
#include "tests/sim/task.h"

#define DONORS_MAX 5u

struct donor_host {
	unsigned host;
	char uri[64];
	struct donor_config config;
	struct process *process;  /* the running process, or the last that was killed */
	struct server *server;    /* the process's server */
	struct handover handover; /* the leases for the next process */
	bool inherits;            /* there are some */
	unsigned starts;
	bool down;           /* no process runs */
	bool ready;          /* it listens */
	uint64_t over_since; /* since when it has run and lent more than `over_slabs`, the most that it may lend */
	uint32_t over_slabs;
	uint64_t warm; /* number of looks that found a slab with a reported warmth */
};

/* Sets up the donor of a host. Does not start it. */
void donors_open(struct donor_host *donor, unsigned host, const struct donor_config *config);
void donor_start(struct donor_host *donor);
/* Kills the process. With @machine its machine dies, too, so that no peer notices the end. */
void donor_crash(struct donor_host *donor, bool machine);
/* Tells the donor to stop, as SIGTERM does. The donor ends some time later. After an upgrade, no other starts. */
void donor_stop(struct donor_host *donor);

/* Makes the donor replace its program by another that takes over its leases. Does nothing if the donor is not ready. */
void donor_upgrade(struct donor_host *donor);

/* Tells the donor that the wants of its machine have changed (machines.h). */
void donor_hint(const struct donor_host *donor);

/*
 * Fails the history if the donor's books of slabs and sessions disagree, if it lends slabs although it wants slabs
 * back, or if a client broke the protocol.
 */
void donor_check(struct donor_host *donor);
/* Returns true if the donor runs and has no leases, sessions or regions. */
bool donor_is_empty(const struct donor_host *donor);
/* Fails the history with the remains of the donor if it is not empty. */
void donor_check_empty(const struct donor_host *donor);
/* Returns the number of slabs that are not free. */
unsigned donor_slabs_used(const struct donor_host *donor);
/* Returns the number of slabs that all donors lend to the client of this id, which is connected. */
unsigned donors_lend_to(const uint8_t id[WIRE_ID_SIZE]);

#endif
