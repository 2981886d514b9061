/*
 * placement: chooses the donor that is asked for the next slab.
 *
 * Theory of operation. Two donors are drawn at random, and the donor with more free memory is chosen. So slabs are
 * spread nearly as evenly as if the freest donor were always chosen (the power of two choices, Mitzenmacher 2001).
 * But many clients that have the same outdated figures do not all choose the same donor. The random generator is
 * passed in, so that a test can repeat a history.
 */
#ifndef CLIENT_PLACEMENT_H
#define CLIENT_PLACEMENT_H

#include "common/random.h"

#include <stdint.h>

/* Returns a donor below @count that has @free[donor] > 0. Returns -ENOSPC if there is none. @count is at most
   FAR_DONORS_MAX. */
int placement_choose(struct random_state *random, const uint64_t free[], unsigned count);

#endif
