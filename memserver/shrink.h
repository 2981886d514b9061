/*
 * shrink: lets a donor lend only as many slabs as its machine can spare.
 *
 * Theory of operation. This module does the I/O for pressure.h. It reads the machine's memory (machine.h) when a
 * reading is due, or at once when tasks stall (stall.h). It then tells the donor how many slabs may be in use. While no
 * slab is lent, the loop does not wake for a reading. A reading that is due is then taken before the next client is
 * answered.
 *
 * Threads. All functions run in the donor's thread.
 */
#ifndef MEMSERVER_SHRINK_H
#define MEMSERVER_SHRINK_H

#include "memserver/donor.h"
#include "memserver/pressure.h"
#include "memserver/stall.h"

struct shrink {
	struct donor *donor;
	struct pressure pressure;
	struct stall *stall; /* NULL if there is no PSI */
	uint64_t stalls;     /* reports of stalls since the start */
	bool stalled;        /* tasks stalled since the last reading */
	bool blind;          /* the last reading failed */
};

/* Opens @shrink and takes the first reading. Logs one line if there is no PSI. */
void shrink_open(struct shrink *shrink, const struct pressure_config *config, struct donor *donor);
/* Sets the maximum number of slabs and the reserve in bytes, and takes a reading. */
void shrink_reload(struct shrink *shrink, uint32_t slabs, uint64_t reserve);
void shrink_close(struct shrink *shrink);
/* Returns a descriptor to watch, or -1 if there is none. */
int shrink_fd(const struct shrink *shrink);
/* Takes a report of stalls. Call it when shrink_fd() is readable. */
void shrink_stalled(struct shrink *shrink);
/* Takes a reading if one is due. Call it before an event is handled, and when time has passed. */
void shrink_look(struct shrink *shrink, uint64_t now);
/* Returns when to call shrink_look() without any event, in ns, or UINT64_MAX for never. */
uint64_t shrink_due(const struct shrink *shrink);

#endif
