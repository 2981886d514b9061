/*
 * machines: what the simulated machines are like just now: whether they run, and how the ways between them are.
 *
 * Threads: one.
 */
#ifndef SIM_MACHINES_H
#define SIM_MACHINES_H

#include "farpage/wire.h"
#include "tests/sim/task.h"

#define MACHINES_MAX 12u

struct machine {
	bool off;                         /* nothing that is sent to it arrives, nothing answers */
	bool short_of_memory;             /* no slab can be had */
	uint64_t prepare_ns;              /* making a slab ready takes up to so long */
	uint64_t cut_until[MACHINES_MAX]; /* what it sends there waits until then */
	uint64_t slow_ns, slow_until;     /* until then, what it sends takes so much longer */
	bool device;                      /* requests for pages are a device's to serve, not the process's */
	/* What the donor there is told by shrink.c, and has been. */
	struct {
		uint32_t slabs;        /* that can be spared */
		enum wire_drain drain; /* what an operator wants */
	} wants, told;
};

struct machine *machine_at(unsigned host);
/* All are well. */
void machines_open(void);

/* It needs none of its memory, and nobody drains the donor there. */
void machine_spares_all(unsigned host);
bool machine_is_short(unsigned host);
uint64_t machine_prepare_ns(unsigned host);
/* Nothing passes from the one to the other for so long. */
void machine_cut(unsigned from, unsigned to, uint64_t duration);

#endif
