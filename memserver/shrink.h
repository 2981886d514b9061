/*
 * shrink: keeps what a donor lends within what its machine can spare.
 *
 * Theory of operation. The I/O around pressure.h: reads how much memory there is (machine.h) when that is due, or at
 * once when tasks stall (stall.h), and tells the donor how many slabs may be in use. While nothing is lent nothing is
 * due: it is read anew before the next client is answered.
 *
 * Threads. The donor's.
 */
#ifndef MEMSERVER_SHRINK_H
#define MEMSERVER_SHRINK_H

#include "memserver/donor.h"
#include "memserver/pressure.h"
#include "memserver/stall.h"

struct shrink {
	struct donor *donor;
	struct pressure pressure;
	struct stall *stall; /* NULL: there is no PSI */
	bool stalled;        /* since the last reading */
	bool blind;          /* the last reading failed */
};

/* Reads for the first time. Logs one line where there is no PSI. */
void shrink_open(struct shrink *shrink, const struct pressure_config *config, struct donor *donor);
/* Lends at most so many slabs from now on, and keeps so many bytes available. */
void shrink_reload(struct shrink *shrink, uint32_t slabs, uint64_t reserve);
void shrink_close(struct shrink *shrink);
/* -1: there is nothing to watch. */
int shrink_fd(const struct shrink *shrink);
/* shrink_fd() is readable. */
void shrink_stalled(struct shrink *shrink);
/* Before an event is handled, and when time has passed: reads if that is due. */
void shrink_look(struct shrink *shrink, uint64_t now);
/* When shrink_look() is next worth calling without any event, ns; UINT64_MAX: never. */
uint64_t shrink_due(const struct shrink *shrink);

#endif
