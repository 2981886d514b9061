/*
 * leases_recalls: slabs that their donors have recalled. See leases.h.
 *
 * A recall is stored for the slot that has the slab, together with the slab's name. When the slot gets another
 * slab, the names differ, so the recall is void.
 */
#include "client/lease/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* How long to wait before looking again at a recalled slot that cannot be detached, because its donor's slabs are
   being claimed. */
#define RECALL_PAUSE_NS UINT64_C(20000000)
/* Stored in place of a deadline for slabs of leaving donors, which have none. UINT64_MAX is stored for slabs of a
   donor that drains without a deadline. */
#define RECALL_LEAVING (UINT64_MAX - 1)

int leases_recalls_open(struct leases *leases)
{
	leases->recalls = calloc(leases->table->count * FAR_SLOTS_MAX, sizeof *leases->recalls);
	return leases->recalls ? 0 : -ENOMEM;
}

void leases_recalls_close(struct leases *leases)
{
	free(leases->recalls);
	leases->recalls = NULL;
}

static struct leases_recall *recall_of(const struct leases *leases, uint32_t index, unsigned replica)
{
	return &leases->recalls[(uint64_t)index * FAR_SLOTS_MAX + replica];
}

static bool slot_is_recalled(const struct leases *leases, uint32_t index, const struct chunk_slot *slot,
			     unsigned replica)
{
	const struct leases_recall *recall = recall_of(leases, index, replica);

	return slot->state != SLOT_EMPTY && recall->until && recall->slab == slot->slab && recall->donor == slot->donor;
}

static bool slab_find(const struct leases *leases, unsigned donor, uint64_t slab, uint32_t *ret_index,
		      unsigned *ret_replica)
{
	for (uint32_t i = 0; i < leases->table->count; i++) {
		struct chunk_slot slots[FAR_SLOTS_MAX];

		if (chunk_state(leases->table, i) != CHUNK_READY)
			continue;
		chunk_slots(leases->table, i, slots);
		for (unsigned j = 0; j < FAR_SLOTS_MAX; j++) {
			if (slots[j].state == SLOT_EMPTY || slots[j].donor != donor || slots[j].slab != slab)
				continue;
			*ret_index = i;
			*ret_replica = j;
			return true;
		}
	}
	return false;
}

bool leases_holds(const struct leases *leases, unsigned donor, uint64_t slab)
{
	unsigned replica;
	uint32_t index;
	bool holds = slab_find(leases, donor, slab, &index, &replica) || leases_joins_drain(leases, donor, slab);

	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		const struct leases_want *want = &leases->wants[i];

		for (unsigned j = 0; want->active && j < leases->table->replicas; j++)
			holds |= want->granted[j] && want->slots[j].donor == donor && want->slots[j].slab == slab;
	}
	return holds;
}

unsigned leases_recalled_slots(const struct leases *leases, uint32_t index)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	unsigned count = 0;

	if (!leases->recalled || chunk_state(leases->table, index) != CHUNK_READY)
		return 0;
	chunk_slots(leases->table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		count += slots[i].state == SLOT_FULL && slot_is_recalled(leases, index, &slots[i], i);
	return count;
}

bool leases_recalling(struct leases *leases)
{
	bool any = false, full = false;

	for (uint32_t i = 0; leases->recalled && !full && i < leases->table->count; i++) {
		struct chunk_slot slots[FAR_SLOTS_MAX];

		if (chunk_state(leases->table, i) != CHUNK_READY)
			continue;
		chunk_slots(leases->table, i, slots);
		for (unsigned j = 0; j < FAR_SLOTS_MAX; j++) {
			bool recalled = slot_is_recalled(leases, i, &slots[j], j);

			any |= recalled;
			full |= recalled && slots[j].state == SLOT_FULL;
		}
	}
	leases->recalled = any;
	return full;
}

bool leases_slots_recalled(const struct leases *leases, uint32_t index, const struct chunk_slot slots[])
{
	bool any = false;

	for (unsigned i = 0; leases->recalled && i < FAR_SLOTS_MAX; i++)
		any |= slot_is_recalled(leases, index, &slots[i], i);
	return any;
}

/* Returns true if the donor of slot @replica has a mate in another FULL slot. */
static bool slot_is_mated(const struct leases *leases, const struct chunk_slot slots[], unsigned replica)
{
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (i != replica && slots[i].state == SLOT_FULL &&
		    failure_domains_are_mates(&leases->failure_domains, slots[i].donor, slots[replica].donor))
			return true;
	return false;
}

bool leases_spare(const struct leases *leases, uint32_t index, unsigned *ret_replica)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	unsigned count = 0;
	int most = -1;

	chunk_slots(leases->table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		count += slots[i].state == SLOT_FULL;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		bool recalled = leases->recalled && slot_is_recalled(leases, index, &slots[i], i), mated;
		int spare;

		if (slots[i].state != SLOT_FULL)
			continue;
		mated = slot_is_mated(leases, slots, i);
		spare = 2 * recalled + mated;
		if (spare > most)
			*ret_replica = i;
		most = spare > most ? spare : most;
	}
	return most == 3 || count > leases->table->replicas;
}

struct few_donors leases_used(const struct leases *leases, uint32_t index, unsigned but, struct donor_set *going)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	struct few_donors used = {0};

	chunk_slots(leases->table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		bool goes = leases->recalled && slot_is_recalled(leases, index, &slots[i], i);

		if (slots[i].state == SLOT_EMPTY || i == but)
			continue;
		if (!goes)
			few_donors_add(&used, slots[i].donor);
		else if (going)
			donor_set_add(going, slots[i].donor);
	}
	return used;
}

/*
 * Releases a slab that the donor still counts as ours, although no chunk has it. Its slot was detached after the
 * deadline, so that the donor could take the slab. But the donor has not taken it yet. If the slab was released
 * already, the donor denies this release.
 */
static void left_release(struct leases *leases, unsigned donor, uint64_t slab)
{
	if (!leases->donors[donor].live || leases->donors[donor].away || leases_joins_drain(leases, donor, slab))
		return;
	leases->donors[donor].waiting++;
	leases_act(leases, (struct leases_action){.kind = LEASES_RELEASE, .donor = donor, .slab = slab});
}

bool leases_recall(struct leases *leases, unsigned donor, uint64_t slab, uint64_t until, uint64_t now)
{
	unsigned replica;
	uint32_t index;

	assert(until);
	if (!leases->recalls)
		return false;
	if (!slab_find(leases, donor, slab, &index, &replica)) {
		if (!leases_wants_recall(leases, donor, slab, false, now))
			left_release(leases, donor, slab);
		return false;
	}
	*recall_of(leases, index, replica) = (struct leases_recall){.slab = slab, .donor = donor, .until = until};
	if (!leases->recalled || until < leases->recall_due)
		leases->recall_due = until;
	leases->recalled = leases->lacking = true;
	leases->join_at = now;
	return true;
}

void leases_keep(struct leases *leases, unsigned donor, uint64_t slab)
{
	unsigned replica;
	uint32_t index;

	if (!leases->recalls)
		return;
	if (slab_find(leases, donor, slab, &index, &replica)) {
		recall_of(leases, index, replica)->until = 0;
		return;
	}
	left_release(leases, donor, slab);
}

void leases_recall_void(struct leases *leases, uint32_t index, unsigned replica)
{
	/* Loads before it stores, because a store would allocate memory that is not needed. */
	if (leases->recalls && recall_of(leases, index, replica)->until)
		recall_of(leases, index, replica)->until = 0;
}

/* Marks the slots on @donors as leaving, or removes this mark. A recall by the donor itself stays as it is. */
static void slots_mark(struct leases *leases, const struct donor_set *donors, bool leaving, uint64_t now)
{
	if (donor_set_is_empty(donors))
		return;
	for (uint32_t i = 0; i < leases->table->count; i++) {
		struct chunk_slot slots[FAR_SLOTS_MAX];

		if (chunk_state(leases->table, i) != CHUNK_READY)
			continue;
		chunk_slots(leases->table, i, slots);
		for (unsigned j = 0; j < FAR_SLOTS_MAX; j++) {
			struct leases_recall *recall = recall_of(leases, i, j);
			bool recalled = slot_is_recalled(leases, i, &slots[j], j);

			if (slots[j].state == SLOT_EMPTY || !donor_set_has(donors, slots[j].donor) ||
			    recalled == leaving)
				continue;
			if (recalled && recall->until == RECALL_LEAVING)
				recall->until = 0;
			if (recalled)
				continue;
			*recall = (struct leases_recall){
			    .slab = slots[j].slab, .donor = slots[j].donor, .until = RECALL_LEAVING};
			if (!leases->recalled)
				leases->recall_due = RECALL_LEAVING;
			leases->recalled = leases->lacking = true;
			leases->join_at = now;
		}
	}
}

void leases_leaving_tick(struct leases *leases, uint64_t now)
{
	struct donor_set leaving = leases->failure_domains.leaving;

	for (int i = -1; (i = donor_set_next(&leases->gone, (unsigned)(i + 1))) >= 0;)
		donor_set_remove(&leaving, (unsigned)i);
	slots_mark(leases, &leaving, true, now);
}

void leases_donor_stay(struct leases *leases, unsigned donor)
{
	struct donor_set only = {0};

	donor_set_add(&only, donor);
	donor_set_remove(&leases->failure_domains.leaving, donor);
	donor_set_remove(&leases->gone, donor);
	slots_mark(leases, &only, false, 0);
}

/* Detaches the slot without releasing its slab. If the chunk has no other replica, its pages are lost. Returns how
   many pages are lost. */
static uint64_t slot_leave(struct leases *leases, uint32_t index, unsigned replica, uint64_t now)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	bool others = false;

	chunk_slots(leases->table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		others |= i != replica && slots[i].state == SLOT_FULL && leases->donors[slots[i].donor].live;
	recall_of(leases, index, replica)->until = 0;
	/* The slab is not released, because its donor takes it after the deadline. A release would let the donor
	   take it at once, while an operation may still be using it. */
	leases->donors[slots[replica].donor].held--;
	leases_act(leases, (struct leases_action){.kind = LEASES_WAKE});
	leases->lacking = true;
	leases->join_at = now;
	if (!others && slots[replica].state == SLOT_FULL)
		return leases_chunk_lose(leases, index, now);
	if (slots[replica].state == SLOT_JOINING)
		leases_joins_cut(leases, index, replica);
	chunk_detach(leases->table, index, replica);
	return 0;
}

uint64_t leases_taken(struct leases *leases, unsigned donor, uint64_t slab, uint64_t now)
{
	unsigned replica;
	uint32_t index;

	if (!leases->recalls)
		return 0;
	if (!slab_find(leases, donor, slab, &index, &replica)) {
		leases_wants_recall(leases, donor, slab, true, now);
		return 0;
	}
	return slot_leave(leases, index, replica, now);
}

/* Looks at all recalls, and adds the number of recalled slabs to *slabs. Returns the next deadline, or UINT64_MAX for
   none. @leaves is NULL or @leases. With @leases, also detaches the slots whose deadline has passed, and adds the
   number of lost pages to *lost. */
static uint64_t recalls_walk(const struct leases *leases, struct leases *leaves, uint64_t now, uint64_t *lost,
			     unsigned *slabs)
{
	uint64_t due = UINT64_MAX;

	for (uint32_t i = 0; i < leases->table->count; i++) {
		struct chunk_slot slots[FAR_SLOTS_MAX];

		if (chunk_state(leases->table, i) != CHUNK_READY)
			continue;
		chunk_slots(leases->table, i, slots);
		for (unsigned j = 0; j < FAR_SLOTS_MAX; j++) {
			const struct leases_recall *recall = recall_of(leases, i, j);

			if (!slot_is_recalled(leases, i, &slots[j], j))
				continue;
			++*slabs;
			if (!leaves || now < recall->until) {
				due = recall->until < due ? recall->until : due;
				continue;
			}
			if (leases->donors[recall->donor].claiming) { /* the donor's answer to the claim decides */
				due = now + RECALL_PAUSE_NS < due ? now + RECALL_PAUSE_NS : due;
				continue;
			}
			*lost += slot_leave(leaves, i, j, now);
			if (chunk_state(leases->table, i) != CHUNK_READY)
				break;
		}
	}
	return due;
}

uint64_t leases_recalls_tick(struct leases *leases, uint64_t now)
{
	uint64_t lost = 0;
	unsigned slabs = 0;

	if (!leases->recalled || now < leases->recall_due)
		return 0;
	leases->recall_due = recalls_walk(leases, leases_has_room(leases) ? leases : NULL, now, &lost, &slabs);
	leases->recalled = slabs;
	return lost;
}

uint64_t leases_recalls_due(const struct leases *leases)
{
	return leases->recalled ? leases->recall_due : UINT64_MAX;
}
