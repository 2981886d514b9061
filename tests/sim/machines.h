/*
 * machines: the present state of the simulated machines and of the network between them.
 *
 * Threads: one.
 */
#ifndef SIM_MACHINES_H
#define SIM_MACHINES_H

#include "tests/sim/task.h"
#include "wire/wire.h"

#define MACHINES_MAX 12u

struct machine {
	bool off;                         /* the machine is off: no packet to it arrives */
	bool short_of_memory;             /* the machine has no memory for a slab */
	uint64_t prepare_ns;              /* longest time to make a slab ready */
	uint64_t cut_until[MACHINES_MAX]; /* no packet to each machine arrives before this time */
	uint64_t slow_ns, slow_until;     /* until slow_until, each packet takes slow_ns longer */
	bool device;                      /* as with RDMA, peers can reach a stopped process's memory */
	/* The state that shrink.c must report to the donor, and the state that it has reported. */
	struct {
		uint32_t slabs;        /* slabs that the donor may lend */
		enum wire_drain drain; /* the operator's last request */
	} wants, told;
};

struct machine *machine_at(unsigned host);
/* Ends all faults of all machines. */
void machines_open(void);

/* Lets the machine's donor lend all slabs, and ends its drain. */
void machine_spares_all(unsigned host);
bool machine_is_short(unsigned host);
uint64_t machine_prepare_ns(unsigned host);
/* Delays all packets from one machine to the other by up to @duration. */
void machine_cut(unsigned from, unsigned to, uint64_t duration);

#endif
