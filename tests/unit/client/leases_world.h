/*
 * leases_world: the client's leases with their tables, for tests that play the donors, queues and clock themselves.
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
#define WORLD_CHUNKS 8u

struct world {
	struct chunk_table table;
	struct integrity integrity;
	struct leases leases;
};
extern struct world world;

/* Opens @chunks chunks, all NONE. No donor has answered yet. */
void world_open(uint64_t chunks, unsigned donors, unsigned replicas, uint64_t seed);
void world_close(void);
/* Opens WORLD_CHUNKS chunks and donors that have answered, each with room for ten slabs. */
void world_open_donors(unsigned donors, unsigned replicas);
/* Returns the next action that is not a wake-up and not a report, or false if there is none. */
bool world_next(struct leases_action *ret_action);
/* Returns true if there is a next action, and it is of this kind. */
bool world_next_is(enum leases_action_kind kind, struct leases_action *ret_action);
/* Returns true if there is no next action. */
bool world_is_quiet(void);
/* Returns the donor that is asked for a slab at @now, or -1. *@ret_ask is the action that asks it. */
int world_ask(uint64_t now, struct leases_action *ret_ask);
/* Lets the donor of @ask grant a slab. Returns false if the donor was not asked. */
bool world_grant(const struct leases_action *ask, uint64_t slab, uint64_t now);
/* Does the same as world_grant(). Returns the join that must fill the slab, or -1. */
int world_join(const struct leases_action *ask, uint64_t slab, uint64_t now);
/* Grants the slab for which a donor is asked. Returns the join to fill, or -1 if there is none. */
int world_fill(uint64_t now, unsigned *ret_donor);

/* Holds a page of the chunk. Returns true if this asks for slabs. */
bool chunk_want(uint32_t chunk, uint64_t now);
/*
 * Makes a READY chunk with one held page. The names of its slabs are 100 + chunk. Returns the donors with a slab of the
 * chunk, as a bit mask.
 */
unsigned chunk_make(uint32_t chunk);
/* Makes a READY chunk with these slots and one held page. */
void chunk_place(uint32_t chunk, const struct chunk_slot slots[FAR_REPLICAS_MAX]);
/* Drops the page that chunk_make() holds. The chunk is idle from @now on. */
void chunk_unhold(uint32_t chunk, uint64_t now);
/* Returns the donors that have a FULL slot of the chunk, as a bit mask. */
unsigned chunk_full(uint32_t chunk);
/* Writes the page, so that it has contents. */
void page_write(uint64_t page);
/* Returns the lowest donor of a bit mask. */
int lowest(unsigned donors);

#endif
