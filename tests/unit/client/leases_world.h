/*
 * leases_world: a planner with its tables, for tests that play the donors, queues and clock themselves.
 *
 * Threads: none.
 */
#ifndef TESTS_UNIT_CLIENT_LEASES_WORLD_H
#define TESTS_UNIT_CLIENT_LEASES_WORLD_H

#include "client/lease/leases.h"

#define CHUNK_PAGES 4u
#define SLAB (CHUNK_PAGES * 4096u)
#define TIMEOUT 1000u
#define IDLE 100u
#define PAUSE 60u

struct world {
	struct chunk_table table;
	struct integrity integrity;
	struct leases leases;
};

/* Opens @chunks chunks, all NONE. No donor is heard yet. */
void world_open(struct world *world, uint64_t chunks, unsigned donors, unsigned replicas, uint64_t seed);
void world_close(struct world *world);
/* Returns the next action that is not a wake-up, or false if there is none. */
bool world_next(struct world *world, struct leases_action *ret_action);

#endif
