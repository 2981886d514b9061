/* turn: gives other threads of a race their turn. */
#ifndef TESTS_UNIT_CLIENT_TURN_H
#define TESTS_UNIT_CLIENT_TURN_H

#include "common/random.h"

#include <sched.h>

/* Yields to another thread now and then, so that the race also happens on one processor, and nobody waits long for
   it. */
static inline void turn(struct random_state *random)
{
	if (!random_below(random, 3))
		sched_yield();
}

#endif
