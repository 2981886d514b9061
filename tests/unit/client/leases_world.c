/* leases_world: see leases_world.h. */
#include "tests/unit/client/leases_world.h"

struct world world;

void world_open(uint64_t chunks, unsigned donors, unsigned replicas, uint64_t seed)
{
	struct leases_config config = {.donor_count = donors,
				       .slab_bytes = SLAB,
				       .timeout_ns = TIMEOUT,
				       .idle_ns = IDLE,
				       .pause_ns = PAUSE,
				       .seed = seed};

	chunk_table_open(&world.table, chunks * CHUNK_PAGES, CHUNK_PAGES, replicas);
	integrity_open(&world.integrity, chunks * CHUNK_PAGES);
	world.leases = (struct leases){0};
	leases_init(&world.leases, &config, &world.table, &world.integrity);
	leases_recalls_open(&world.leases);
}

void world_close(void)
{
	leases_recalls_close(&world.leases);
	chunk_table_close(&world.table);
	integrity_close(&world.integrity);
}

bool world_next(struct leases_action *ret_action)
{
	while (leases_next(&world.leases, ret_action))
		if (ret_action->kind != LEASES_WAKE && ret_action->kind != LEASES_LACKING &&
		    ret_action->kind != LEASES_WHOLE)
			return true;
	return false;
}

bool world_next_is(enum leases_action_kind kind, struct leases_action *ret_action)
{
	return world_next(ret_action) && ret_action->kind == kind;
}

bool world_is_quiet(void)
{
	struct leases_action action;

	return !world_next(&action);
}

int world_ask(uint64_t now, struct leases_action *ret_ask)
{
	leases_tick(&world.leases, now);
	while (world_next(ret_ask))
		if (ret_ask->kind == LEASES_ASK)
			return (int)ret_ask->donor;
	return -1;
}

bool world_grant(const struct leases_action *ask, uint64_t slab, uint64_t now)
{
	/* Each slab is found at an address of its own. */
	const struct chunk_slot slot = {.address = slab << 12, .rkey = 1, .slab = slab};

	return leases_granted(&world.leases, ask->donor, ask->request, &slot, now);
}

int world_join(const struct leases_action *ask, uint64_t slab, uint64_t now)
{
	struct leases_action action;

	world_grant(ask, slab, now);
	while (world_next(&action))
		if (action.kind == LEASES_FILL)
			return (int)action.request;
	return -1;
}

void world_open_donors(unsigned donors, unsigned replicas)
{
	world_open(WORLD_CHUNKS, donors, replicas, 1);
	for (unsigned i = 0; i < donors; i++)
		leases_donor_heard(&world.leases, i, 10 * SLAB);
}

void page_write(uint64_t page)
{
	static const uint64_t data[4096 / 8] = {1};

	integrity_prepare(&world.integrity, page, data);
	integrity_commit(&world.integrity, page, 1);
}

int lowest(unsigned donors)
{
	return __builtin_ctz(donors);
}

int world_fill(uint64_t now, unsigned *ret_donor)
{
	struct leases_action ask;
	int donor = world_ask(now, &ask);

	*ret_donor = (unsigned)donor;
	return donor < 0 ? -1 : world_join(&ask, 200, now);
}

bool chunk_want(uint32_t chunk, uint64_t now)
{
	struct chunk_view view;
	bool asked = chunk_hold(&world.table, chunk, 1, &view) == CHUNK_ASKED;

	leases_scan(&world.leases, now);
	return asked;
}

unsigned chunk_make(uint32_t chunk)
{
	struct leases_action action;
	struct chunk_view view;

	chunk_want(chunk, 0);
	while (world_next_is(LEASES_ASK, &action))
		world_grant(&action, 100 + chunk, 0);
	chunk_hold(&world.table, chunk, 1, &view);
	return chunk_full(chunk);
}

void chunk_place(uint32_t chunk, const struct chunk_slot slots[FAR_REPLICAS_MAX])
{
	struct chunk_view view;

	chunk_hold(&world.table, chunk, 1, &view);
	chunk_publish(&world.table, chunk, slots);
	chunk_hold(&world.table, chunk, 1, &view);
}

void chunk_unhold(uint32_t chunk, uint64_t now)
{
	uint32_t epoch = 0;

	chunk_epoch(&world.table, chunk, &epoch);
	chunk_drop(&world.table, chunk, epoch, 1);
	leases_scan(&world.leases, now);
}

unsigned chunk_full(uint32_t chunk)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	unsigned donors = 0;

	if (chunk_state(&world.table, chunk) != CHUNK_READY)
		return 0;
	chunk_slots(&world.table, chunk, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (slots[i].state == SLOT_FULL)
			donors |= 1u << slots[i].donor;
	return donors;
}
