/*
 * donors: farpage-memserver in a simulated process.
 *
 * Theory of operation. The process runs the real memserver (server.c's loop, donor.c, connection.c, lease.c,
 * handshake.c, slab.c with its worker), without command line and signals. When a donor is started again, it has no
 * slabs and no sessions, unless its program was replaced (memserver/upgrade.h).
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
	struct process *process; /* the running process, or the last one if none runs */
	struct server *server;
	struct handover handover; /* the leases for the next process */
	bool inherits;            /* `handover` has leases */
	unsigned starts;
	bool down;           /* no process runs */
	bool ready;          /* it listens */
	uint64_t over_since; /* the time since which it has lent more than `over_slabs`, the most that it may lend */
	uint32_t over_slabs;
	uint64_t warm; /* number of checks that found a slab with a reported warmth */
};

/* Initializes the donor of a host. Does not start it. */
void donors_open(struct donor_host *donor, unsigned host, const struct donor_config *config);
void donor_start(struct donor_host *donor);
/* Kills the process. With @machine its machine dies, too, so that no peer gets the end of a connection. */
void donor_crash(struct donor_host *donor, bool machine);
/* Tells the donor to stop, as SIGTERM does. The donor ends some time later. After an upgrade, no other starts. */
void donor_stop(struct donor_host *donor);

/* Makes the donor replace its program by another that takes over its leases. Does nothing if the donor is not ready. */
void donor_upgrade(struct donor_host *donor);

/* Wakes the donor, because the `wants` of its machine have changed (machines.h). */
void donor_hint(const struct donor_host *donor);

/*
 * Fails the history if the donor's records of slabs and sessions contradict each other, or if a client broke the
 * protocol. Fails it also if the donor has lent too many slabs for too long (`over_since`).
 */
void donor_check(struct donor_host *donor);
/* Returns true if the donor runs and has no leases, sessions or regions. */
bool donor_is_empty(const struct donor_host *donor);
/* Fails the history if the donor is not empty. The failure's text names the leases, sessions or regions that are
   left. */
void donor_check_empty(const struct donor_host *donor);
/* Returns the number of slabs that are not free. */
unsigned donor_slabs_used(const struct donor_host *donor);
/* Returns the number of slabs that all donors lend to the client with this id, which must be connected. */
unsigned donors_lend_to(const uint8_t id[WIRE_ID_SIZE]);

#endif
