/*
 * drain: carries out requests of operators to a donor: drain, lend again, report progress, list the holders of slabs.
 * With a drain file (drain_file.h), a drained donor stays drained when its program restarts. drain.c says which clients
 * may do what.
 *
 * Threads. All functions run in the donor's thread.
 */
#ifndef MEMSERVER_DRAIN_H
#define MEMSERVER_DRAIN_H

#include "memserver/donor.h"

/* Performs and answers a DRAIN or HOLDER message of @session. */
void drain_take(struct donor *donor, uint32_t session, const struct wire_message *message);

#endif
