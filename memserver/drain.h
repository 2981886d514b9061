/*
 * drain: what operators ask a donor: to be emptied, to lend again, how far that is, and who holds what. Drained, it
 * stays so when its program is started again, if there is a drain file (drain_file.h). Any session
 * may: whoever has the key, or, of a donor without one, whoever reaches it.
 *
 * Threads. The donor's.
 */
#ifndef MEMSERVER_DRAIN_H
#define MEMSERVER_DRAIN_H

#include "memserver/donor.h"

/* Carries out a DRAIN or a HOLDER of @session, and answers it. */
void drain_take(struct donor *donor, uint32_t session, const struct wire_message *message);

#endif
