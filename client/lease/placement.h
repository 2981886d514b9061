/*
 * placement: chooses the donor that is asked for the next slab.
 *
 * Theory of operation. This is the power of two choices (Mitzenmacher 2001): of two donors drawn at random, the freer
 * one is chosen. The load is nearly as even as if the freest donor were always chosen. But clients with equally
 * outdated figures do not all choose the same donor. The function is pure: randomness comes from a generator that is
 * passed in, so that a history can be replayed.
 */
#ifndef CLIENT_PLACEMENT_H
#define CLIENT_PLACEMENT_H

#include "common/random.h"

#include <stdint.h>

/* Returns a donor below @count that has @free[donor] > 0 and whose bit is not set in @excluded. Returns -ENOSPC if
   there is none. */
int placement_choose(struct random_state *random, const uint64_t free[], unsigned count, uint64_t excluded);

#endif
