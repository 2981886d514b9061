/* leases_joins: gives a new replica to each chunk that lacks a replica. See leases.h and internal.h. */
#include "client/lease/internal.h"

#include <assert.h>

/* --- Slots of donors that are away ----------------------------------------------------------------------------- */

static bool donor_is_up(const struct leases *leases, unsigned donor)
{
	return leases->donors[donor].live && !leases->donors[donor].away;
}

void leases_detach_away(struct leases *leases, uint32_t index)
{
	struct chunk_table *table = leases->table;
	struct chunk_slot slots[FAR_SLOTS_MAX];
	bool up = false, later = false;

	if (!chunk_hindered(table, index))
		return;
	if (chunk_state(table, index) != CHUNK_READY)
		return;
	chunk_slots(table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		up |= slots[i].state == SLOT_FULL && donor_is_up(leases, slots[i].donor);
	for (unsigned i = 0; i < FAR_SLOTS_MAX && up; i++) {
		struct leases_donor *donor = &leases->donors[slots[i].donor];

		if (slots[i].state != SLOT_FULL || !donor->away)
			continue;
		if (donor->claiming) {
			later = true;
			continue;
		}
		chunk_detach(table, index, i);
		leases_release(leases, &slots[i]); /* the donor takes the slab back when it returns */
		leases->lacking = true;
	}
	if (later)
		chunk_hinder(table, index);
	/* Wakes the waiting queues even if an earlier call has detached the slot. If no replica's donor is up, the
	   queues continue to wait, and are woken when a donor returns or is lost. */
	else if (up)
		leases_act(leases, (struct leases_action){.kind = LEASES_WAKE});
}

/* --- Joins ---------------------------------------------------------------------------------------------------- */

struct leases_join *leases_join_find(struct leases *leases, unsigned donor, uint32_t request)
{
	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++) {
		struct leases_join *join = &leases->joins[i];

		if (join->state == JOIN_ASKING && join->request == request && join->slot.donor == donor)
			return join;
	}
	return NULL;
}

static bool join_is_for(const struct leases *leases, uint32_t index)
{
	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++)
		if (leases->joins[i].state != JOIN_FREE && leases->joins[i].chunk == index)
			return true;
	return false;
}

static bool join_is_current(const struct leases *leases, const struct leases_join *join)
{
	uint32_t epoch;

	return chunk_epoch(leases->table, join->chunk, &epoch) && epoch == join->epoch;
}

/* Returns true if two of the chunk's replicas are on mates. This happens if a recall was withdrawn after its
   replacement was FULL, or if a donor has returned with another failure domain. */
static bool chunk_is_mated(const struct leases *leases, uint32_t index)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];

	/* As long as a donor's failure domain is unknown, its mates are, too. */
	if (chunk_state(leases->table, index) != CHUNK_READY || !donor_set_is_empty(&leases->failure_domains.unknown))
		return false;
	chunk_slots(leases->table, index, slots);
	return !leases_slots_apart(leases, slots);
}

/* Returns true if the chunk has too few replicas, not counting recalled replicas. */
static bool chunk_lacks_replicas(const struct leases *leases, uint32_t index)
{
	return chunk_replicas_missing(leases->table, index) || leases_recalled_slots(leases, index);
}

/* Returns true if the chunk has too few replicas, too many, or two on mates. */
static bool chunk_lacks(const struct leases *leases, uint32_t index)
{
	return chunk_lacks_replicas(leases, index) || chunk_has_spare(leases->table, index) ||
	       chunk_is_mated(leases, index);
}

/* Returns how many of the chunk's replicas can be read now. */
static unsigned replicas_up(const struct leases *leases, uint32_t index)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	unsigned up = 0;

	chunk_slots(leases->table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		up += slots[i].state == SLOT_FULL && donor_is_up(leases, slots[i].donor);
	return up;
}

static void join_act(struct leases *leases, const struct leases_join *join, enum leases_action_kind kind)
{
	leases_act(leases, (struct leases_action){.kind = kind,
						  .donor = join->slot.donor,
						  .request = (uint32_t)(join - leases->joins),
						  .chunk = join->chunk,
						  .epoch = join->epoch});
}

/* Requests a slab of a donor that was not tried yet. Excludes donors that have a slot of the chunk, and their
   mates. Returns false if no donor is left, or if a surplus slot must be detached first. */
static bool join_ask(struct leases *leases, struct leases_join *join)
{
	struct donor_set excluded = join->tried;
	struct few_donors used = leases_used(leases, join->chunk, FAR_SLOTS_MAX, &excluded);
	int donor;

	if (chunk_has_spare(leases->table, join->chunk))
		return false;
	donor = leases_choose(leases, &excluded, &used, false);
	if (donor < 0)
		donor = leases_choose(leases, &excluded, &used, true);
	if (donor < 0)
		return false;
	join->slot.donor = (uint32_t)donor;
	join->request = leases_ask(leases, (unsigned)donor);
	join->state = JOIN_ASKING;
	return true;
}

/* Detaches one surplus slot of the chunk, if it has one. The join then owns the slab, and releases it after
   LEASES_DRAIN. If the donor is away, the join does not release the slab, because the donor takes it back when it
   returns. Returns true if a slot was detached. */
static bool join_replaces(struct leases *leases, struct leases_join *join)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	const struct leases_donor *donor;
	unsigned replica;

	if (!leases_spare(leases, join->chunk, &replica))
		return false;
	chunk_slots(leases->table, join->chunk, slots);
	donor = &leases->donors[slots[replica].donor];
	/* The slot stays while its slab is being claimed, or while no other replica can be read. */
	if (donor->claiming || replicas_up(leases, join->chunk) <= donor_is_up(leases, slots[replica].donor))
		return false;
	chunk_detach(leases->table, join->chunk, replica);
	join->slot = slots[replica];
	join->cut = donor->away;
	if (join->cut)
		leases_release(leases, &join->slot);
	join->state = JOIN_DRAINING;
	join_act(leases, join, LEASES_DRAIN);
	return true;
}

/* Returns true if all FULL slots of the chunk are recalled, and the donors of all its slots are up. */
static bool chunk_can_leave(const struct leases *leases, uint32_t index)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	unsigned full = 0;
	bool up = true;

	chunk_slots(leases->table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		full += slots[i].state == SLOT_FULL;
		up &= slots[i].state == SLOT_EMPTY || donor_is_up(leases, slots[i].donor);
	}
	return up && leases_recalled_slots(leases, index) == full;
}

/* Called if no donor has a free slab for the join. Lets the chunk leave for the backup if there is a backup and all
   slabs of the chunk are recalled. Returns true if the chunk leaves. */
static bool join_leaves(struct leases *leases, struct leases_join *join)
{
	struct chunk_view view;

	/* The chunk's count is raised so that the chunk does not become idle while its slabs may be in use. */
	if (!leases->config.backup || !chunk_can_leave(leases, join->chunk) ||
	    !chunk_hold_ready(leases->table, join->chunk, 1, &view))
		return false;
	join->epoch = view.epoch;
	join->state = JOIN_LEAVING;
	chunk_leave(leases->table, join->chunk);
	join_act(leases, join, LEASES_LEAVE);
	return true;
}

/* Returns true if the chunk is still in the join's epoch and still needs a join. */
static bool join_is_wanted(const struct leases *leases, const struct leases_join *join)
{
	return join_is_current(leases, join) && chunk_lacks(leases, join->chunk);
}

/* Returns true if the join's donor is no mate of the donors of the chunk's slots. Slot @replica and recalled slots do
   not count. The result may have changed since the donor was asked, if a donor has returned with another failure
   domain or withdrawn a recall. */
static bool join_is_apart(const struct leases *leases, const struct leases_join *join, unsigned replica)
{
	struct few_donors used = leases_used(leases, join->chunk, replica, NULL);

	return !leases_has_mate_in(leases, join->slot.donor, &used);
}

void leases_join_granted(struct leases *leases, struct leases_join *join, const struct chunk_slot *slot, uint64_t now)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	struct chunk_view view;

	join->state = JOIN_FREE;
	leases->join_at = now;
	/* The chunk's count is raised so that the chunk does not become idle while it is filled. */
	if (!join_is_wanted(leases, join) || !join_is_apart(leases, join, FAR_SLOTS_MAX) ||
	    !chunk_hold_ready(leases->table, join->chunk, 1, &view)) {
		leases_release(leases, slot);
		return;
	}
	chunk_slots(leases->table, join->chunk, slots);
	join->replica = 0;
	while (slots[join->replica].state != SLOT_EMPTY)
		join->replica++;
	join->slot = *slot;
	join->cut = false;
	join->state = JOIN_FILLING;
	leases_recall_void(leases, join->chunk, join->replica);
	chunk_join(leases->table, join->chunk, join->replica, slot);
	if (!leases->mending && chunk_replicas_missing(leases->table, join->chunk)) {
		leases_act(leases, (struct leases_action){.kind = LEASES_LACKING});
		leases->mending = true;
	}
	join_act(leases, join, LEASES_FILL);
}

void leases_join_denied(struct leases *leases, struct leases_join *join, uint64_t now)
{
	donor_set_add(&join->tried, join->slot.donor);
	if (join_is_wanted(leases, join) && (join_ask(leases, join) || join_leaves(leases, join)))
		return;
	join->state = JOIN_FREE;
	leases->join_any = true;
	leases->join_at = now + leases->config.pause_ns;
}

bool leases_joins_drain(const struct leases *leases, unsigned donor, uint64_t slab)
{
	bool drains = false;

	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++) {
		const struct leases_join *join = &leases->joins[i];

		drains |= join->state == JOIN_DRAINING && join->slot.donor == donor && join->slot.slab == slab;
	}
	return drains;
}

bool leases_joins_use(const struct leases *leases, unsigned donor)
{
	bool uses = false;

	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++) {
		const struct leases_join *join = &leases->joins[i];

		uses |= join->slot.donor == donor &&
			(join->state == JOIN_ASKING || join->state == JOIN_FILLING || join->state == JOIN_DRAINING);
	}
	return uses;
}

bool leases_is_moving(const struct leases *leases)
{
	bool moving = false;

	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++)
		moving |= leases->joins[i].state != JOIN_FREE;
	return moving;
}

void leases_joins_cut(struct leases *leases, uint32_t index, unsigned replica)
{
	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++) {
		struct leases_join *join = &leases->joins[i];

		if (join->state == JOIN_FILLING && join->chunk == index && join->replica == replica)
			join->cut = true;
	}
}

void leases_joins_drop(struct leases *leases, unsigned donor, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++) {
		struct leases_join *join = &leases->joins[i];

		/* A chunk that leaves for the backup may continue. If its pages cannot be read any more, the rebuild
		   thread reports this. */
		if (join->state == JOIN_FREE || join->state == JOIN_LEAVING || join->state == JOIN_EMPTYING ||
		    join->slot.donor != donor)
			continue;
		if (join->state == JOIN_ASKING) {
			join->state = JOIN_FREE;
			leases->join_at = now;
			continue;
		}
		if (join->cut)
			continue;
		if (join->state == JOIN_FILLING && join_is_current(leases, join))
			chunk_detach(leases->table, join->chunk, join->replica);
		leases_release(leases, &join->slot);
		join->cut = true;
	}
}

/* Subtracts the join's page from the chunk's count. The chunk may be empty then. */
static void join_let_go(struct leases *leases, const struct leases_join *join, uint64_t now)
{
	if (chunk_drop(leases->table, join->chunk, join->epoch, 1) &&
	    leases->table->chunks[join->chunk].list == LEASES_UNLISTED)
		leases_sort(leases, join->chunk, now);
}

void leases_filled(struct leases *leases, unsigned index, bool good, uint64_t now)
{
	struct leases_join *join = &leases->joins[index];
	bool current = join_is_current(leases, join), replaced = false;

	assert(join->state == JOIN_FILLING);
	/* The new slot may not be needed any more, because a recall was withdrawn. */
	good = good && (!current || (chunk_lacks(leases, join->chunk) && join_is_apart(leases, join, join->replica)));
	if (good && current && !join->cut) {
		chunk_promote(leases->table, join->chunk, join->replica);
		replaced = join_replaces(leases, join);
	}
	join_let_go(leases, join, now);
	leases->join_at = good ? now : now + leases->config.pause_ns;
	if (replaced)
		return;
	if (join->cut || (good && current)) {
		join->state = JOIN_FREE;
		return;
	}
	/* A queue that has seen the slot may still write to the slab, so the slab is drained. If the chunk was
	   lost, it has no slot to detach. */
	if (current)
		chunk_detach(leases->table, join->chunk, join->replica);
	join->state = JOIN_DRAINING;
	join_act(leases, join, LEASES_DRAIN);
}

/* The chunk has left for the backup, and no operation uses its slabs. Releases them without waiting for idle_ns. */
static void join_emptied(struct leases *leases, const struct leases_join *join, uint64_t now)
{
	const struct chunk *chunk = &leases->table->chunks[join->chunk];
	struct chunk_slot slots[FAR_SLOTS_MAX];

	leases->join_at = now;
	if (!join_is_current(leases, join))
		return;
	join_let_go(leases, join, now);
	if (chunk->list == LEASES_FRESH) {
		leases_list_remove(leases, join->chunk);
		leases_sort(leases, join->chunk, now);
	}
	/* While a donor is away, an idle chunk keeps its slabs, because a claim may name these slabs. idle_release()
	   releases them later. */
	if (chunk->list == LEASES_IDLE && !leases_donors_away(leases) &&
	    leases_take_idle(leases, join->chunk, now, slots))
		leases_release_slots(leases, slots);
	else
		chunk_stay(leases->table, join->chunk);
}

void leases_drained(struct leases *leases, unsigned index, uint64_t now)
{
	struct leases_join *join = &leases->joins[index];

	assert(join->state == JOIN_DRAINING || join->state == JOIN_EMPTYING);
	if (join->state == JOIN_EMPTYING)
		join_emptied(leases, join, now);
	else if (!join->cut)
		leases_release(leases, &join->slot);
	join->state = JOIN_FREE;
}

void leases_left(struct leases *leases, unsigned index, bool good, uint64_t now)
{
	struct leases_join *join = &leases->joins[index];

	assert(join->state == JOIN_LEAVING);
	if (good && join_is_current(leases, join)) {
		chunk_empty(leases->table, join->chunk);
		join->state = JOIN_EMPTYING;
		join_act(leases, join, LEASES_DRAIN);
		return;
	}
	if (join_is_current(leases, join))
		chunk_stay(leases->table, join->chunk);
	join_let_go(leases, join, now);
	join->state = JOIN_FREE;
	leases->join_at = now + leases->config.pause_ns;
}

/* --- Looking for chunks --------------------------------------------------------------------------------------- */

/*
 * Looks for chunks for which chunk_lacks() is true. Such a chunk must have pages, a readable replica and no join.
 * Chooses the chunk with the fewest readable replicas. If no donor had a slab for the last chosen chunk (`join_any`),
 * chooses the next such chunk instead. Otherwise the same chunk might be chosen for ever. Sets *ret_lacking if
 * chunk_lacks() is true for any chunk. Returns false if no chunk was found.
 */
static bool joins_seek(struct leases *leases, uint32_t *ret_index, bool *ret_lacking)
{
	const struct chunk_table *table = leases->table;
	unsigned least = UINT32_MAX;

	*ret_lacking = false;
	for (uint64_t i = 0; i < table->count && least > 1; i++) {
		uint32_t index = (uint32_t)((leases->join_next + i) % table->count);
		unsigned up;

		if (!chunk_lacks(leases, index))
			continue;
		*ret_lacking = true;
		if (join_is_for(leases, index) || !chunk_pages_held(table, index))
			continue;
		up = replicas_up(leases, index);
		if (!up || up >= least)
			continue;
		*ret_index = index;
		least = leases->join_any ? 1 : up;
	}
	leases->join_any = false;
	if (least == UINT32_MAX)
		return false;
	leases->join_next = (uint32_t)((*ret_index + 1) % table->count);
	return true;
}

static bool replicas_lack(const struct leases *leases)
{
	for (uint32_t i = 0; i < leases->table->count; i++)
		if (chunk_lacks_replicas(leases, i))
			return true;
	return false;
}

void leases_joins_start(struct leases *leases, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++) {
		struct leases_join *join = &leases->joins[i], fresh = {0};
		bool lacking;

		if (!leases->lacking || now < leases->join_at || !leases_has_room(leases))
			return;
		if (join->state != JOIN_FREE)
			continue;
		if (joins_seek(leases, &fresh.chunk, &lacking) &&
		    chunk_epoch(leases->table, fresh.chunk, &fresh.epoch)) {
			*join = fresh;
			if (join_replaces(leases, join) || join_ask(leases, join) || join_leaves(leases, join))
				continue;
			leases->join_any = true;
		}
		/* No donor has a free slab, or all chunks that lack something have joins. */
		leases->join_at = now + leases->config.pause_ns;
		leases->lacking = lacking || leases_is_moving(leases);
		if (!leases->mending || leases_is_moving(leases) || replicas_lack(leases))
			return;
		leases->mending = false;
		leases_act(leases, (struct leases_action){.kind = LEASES_WHOLE});
		return;
	}
}

static bool joins_room(const struct leases *leases)
{
	bool room = false;

	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++)
		room |= leases->joins[i].state == JOIN_FREE;
	return room;
}

uint64_t leases_joins_due(const struct leases *leases)
{
	return leases->lacking && joins_room(leases) ? leases->join_at : UINT64_MAX;
}
