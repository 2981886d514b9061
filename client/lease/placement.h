/*
 * placement: chooses the donor that is asked for the next slab.
 *
 * Theory of operation. Two donors are drawn at random, and the one with more free memory is chosen. This spreads
 * slabs nearly as evenly as always choosing the freest donor (the power of two choices, Mitzenmacher 2001). But
 * many clients that have the same outdated figures do not all choose the same donor. The random generator is passed
 * in, so that a test can repeat a history.
 */
#ifndef CLIENT_PLACEMENT_H
#define CLIENT_PLACEMENT_H

#include "common/random.h"

#include <stdint.h>

/* Returns a donor below @count that has @free[donor] > 0 and whose bit in @excluded is clear. Returns -ENOSPC if
   there is none. */
int placement_choose(struct random_state *random, const uint64_t free[], unsigned count, uint64_t excluded);

#endif
