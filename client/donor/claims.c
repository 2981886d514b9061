/* claims: see claims.h. */
#include "client/donor/claims.h"

#include <errno.h>

static bool claim_is_ours(const struct chunk_table *table, unsigned donor, uint64_t number, uint64_t *ret_slab)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	uint64_t chunk = number / FAR_SLOTS_MAX, replica = number % FAR_SLOTS_MAX;

	if (chunk >= table->count || chunk_state(table, chunk) != CHUNK_READY)
		return false;
	chunk_slots(table, chunk, slots);
	*ret_slab = slots[replica].slab;
	return slots[replica].state == SLOT_FULL && slots[replica].donor == donor;
}

uint64_t claims_count(const struct chunk_table *table, unsigned donor)
{
	uint64_t count = 0, slab;

	for (uint64_t i = 0; i < table->count * FAR_SLOTS_MAX; i++)
		count += claim_is_ours(table, donor, i, &slab);
	return count;
}

static void claims_seek(struct claims *claims)
{
	uint64_t slab;

	while (claims->next < claims->table->count * FAR_SLOTS_MAX &&
	       !claim_is_ours(claims->table, claims->donor, claims->next, &slab))
		claims->next++;
}

void claims_begin(struct claims *claims, struct chunk_table *table, unsigned donor)
{
	*claims = (struct claims){.table = table, .donor = donor};
	claims_seek(claims);
}

bool claims_next(struct claims *claims, uint32_t *ret_request, uint64_t *ret_slab)
{
	claims_seek(claims); /* the donor may have taken the slab of this slot meanwhile */
	if (claims->under_way == CLAIMS_WINDOW || !claim_is_ours(claims->table, claims->donor, claims->next, ret_slab))
		return false;
	*ret_request = (uint32_t)claims->next++;
	claims->under_way++;
	claims_seek(claims);
	return true;
}

int claims_confirmed(struct claims *claims, uint32_t request, uint64_t slab, uint64_t address, uint32_t rkey)
{
	uint64_t ours;

	if (!claims->under_way || request >= claims->next ||
	    !claim_is_ours(claims->table, claims->donor, request, &ours) || slab != ours)
		return -EPROTO;
	claims->under_way--;
	claims->held++;
	chunk_readdress(claims->table, request / FAR_SLOTS_MAX, request % FAR_SLOTS_MAX, address, rkey);
	return 0;
}

int claims_denied(struct claims *claims, uint32_t request, uint64_t *ret_slab)
{
	if (!claims->under_way || request >= claims->next)
		return -EPROTO;
	claims->under_way--;
	return claim_is_ours(claims->table, claims->donor, request, ret_slab);
}

bool claims_over(const struct claims *claims)
{
	return !claims->under_way && claims->next >= claims->table->count * FAR_SLOTS_MAX;
}
