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
	bool short_of_memory;             /* there is no memory for a slab */
	uint64_t prepare_ns;              /* longest time to make a slab ready */
	uint64_t cut_until[MACHINES_MAX]; /* when packets to each machine may go on */
	uint64_t slow_ns, slow_until;     /* until slow_until, each packet takes slow_ns longer */
	bool device;                      /* a device serves requests for pages, also while the process is stopped */
	/* The wants that shrink.c must tell the donor, and the wants that it has told. */
	struct {
		uint32_t slabs;        /* slabs that the donor may lend */
		enum wire_drain drain; /* the wish of the operator */
	} wants, told;
};

struct machine *machine_at(unsigned host);
/* Resets all machines to a state without faults. */
void machines_open(void);

/* Lets the donor there lend all slabs, and ends a drain. */
void machine_spares_all(unsigned host);
bool machine_is_short(unsigned host);
uint64_t machine_prepare_ns(unsigned host);
/* Holds all packets from one machine to the other for @duration. */
void machine_cut(unsigned from, unsigned to, uint64_t duration);

#endif
