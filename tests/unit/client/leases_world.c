/* leases_world: see leases_world.h. */
#include "tests/unit/client/leases_world.h"

void world_open(struct world *world, uint64_t chunks, unsigned donors, unsigned replicas, uint64_t seed)
{
	struct leases_config config = {.donor_count = donors,
				       .slab_bytes = SLAB,
				       .timeout_ns = TIMEOUT,
				       .idle_ns = IDLE,
				       .pause_ns = PAUSE,
				       .seed = seed};

	chunk_table_open(&world->table, chunks * CHUNK_PAGES, CHUNK_PAGES, replicas);
	integrity_open(&world->integrity, chunks * CHUNK_PAGES);
	leases_init(&world->leases, &config, &world->table, &world->integrity);
	leases_recalls_open(&world->leases);
}

void world_close(struct world *world)
{
	leases_recalls_close(&world->leases);
	chunk_table_close(&world->table);
	integrity_close(&world->integrity);
}

bool world_next(struct world *world, struct leases_action *ret_action)
{
	while (leases_next(&world->leases, ret_action))
		if (ret_action->kind != LEASES_WAKE)
			return true;
	return false;
}
