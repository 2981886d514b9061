/*
 * placement: which donor is asked for the next slab.
 *
 * Theory of operation. The power of two choices (Mitzenmacher 2001): of two donors drawn at random, the one with more
 * free memory. Nearly as even as asking for the fullest picture, and clients with equal stale pictures do not all run
 * to the same donor. Pure; chance comes in as a generator, so that a history replays.
 */
#ifndef CLIENT_PLACEMENT_H
#define CLIENT_PLACEMENT_H

#include "common/random.h"

#include <stdint.h>

/* Returns a donor below @count with @free[donor] > 0 that is not in @excluded (a bit each), or -ENOSPC. */
int placement_choose(struct random_state *random, const uint64_t free[], unsigned count, uint64_t excluded);

#endif
