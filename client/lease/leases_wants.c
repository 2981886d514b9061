/* leases_wants: leases slabs for wanted chunks. See leases.h and internal.h. */
#include "client/lease/internal.h"

#include <errno.h>
#include <string.h>

/* Returns true if @slots has all replicas, each on a donor that is not lost. */
static bool slots_are_whole(const struct leases *leases, const struct chunk_slot slots[])
{
	unsigned whole = 0;

	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		whole += slots[i].state == SLOT_FULL && leases->donors[slots[i].donor].live;
	return whole == leases->table->replicas;
}

/* Frees a want that is over, but only when its last request was answered. So the number of wants limits the number
   of requests in flight. */
static void want_retire(const struct leases *leases, struct leases_want *want)
{
	want->active = false;
	for (unsigned i = 0; i < leases->table->replicas; i++)
		want->active |= want->requests[i] != 0;
}

static void want_end(struct leases *leases, struct leases_want *want)
{
	for (unsigned i = 0; i < leases->table->replicas; i++) {
		if (want->granted[i])
			leases_release(leases, &want->slots[i]);
		want->granted[i] = false;
	}
	want->over = true;
	want_retire(leases, want);
	leases_act(leases, (struct leases_action){.kind = LEASES_WAKE});
}

static void want_publish(struct leases *leases, struct leases_want *want, const struct chunk_slot slots[], uint64_t now)
{
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		leases_recall_void(leases, want->chunk, i);
	chunk_publish(leases->table, want->chunk, slots);
	if (leases->table->chunks[want->chunk].ahead) {
		chunk_attention_set(leases->table, want->chunk);
		leases_list_put(leases, LEASES_IDLE, want->chunk, now);
	} else {
		leases_list_put(leases, LEASES_FRESH, want->chunk, now);
	}
	want_end(leases, want);
}

static void want_fulfil(struct leases *leases, struct leases_want *want, uint64_t now)
{
	struct chunk_slot slots[FAR_REPLICAS_MAX];

	for (unsigned i = 0; i < leases->table->replicas; i++) {
		slots[i] = want->slots[i];
		slots[i].state = want->granted[i] ? SLOT_FULL : SLOT_EMPTY;
		leases->lacking |= !want->granted[i];
	}
	/* The slabs belong to the chunk now, so want_end() must not release them. */
	memset(want->granted, 0, sizeof want->granted);
	want_publish(leases, want, slots, now);
}

void leases_want_deny(struct leases *leases, struct leases_want *want, int status)
{
	chunk_deny(leases->table, want->chunk, status);
	want_end(leases, want);
}

/* Gives the want the slabs of an idle chunk. The slabs need not be zeroed, because no page is read before it is
   written. Returns true if an idle chunk had suitable slabs. */
static bool want_take_idle(struct leases *leases, struct leases_want *want, uint64_t now)
{
	struct chunk_slot slots[FAR_SLOTS_MAX], whole[FAR_REPLICAS_MAX];
	uint32_t index;
	unsigned count = 0;

	/* While a donor is away, no slab may change its chunk, because the donor's slabs may be claimed. */
	if (leases_donors_away(leases))
		return false;
	while (leases_list_first(leases, LEASES_IDLE, &index) && leases_has_room(leases)) {
		if (!leases_take_idle(leases, index, now, slots))
			continue;
		if (slots_are_whole(leases, slots) && leases_slots_apart(leases, slots) &&
		    !leases_slots_recalled(leases, index, slots)) {
			for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
				if (slots[i].state == SLOT_FULL)
					whole[count++] = slots[i];
			want_publish(leases, want, whole, now);
			return true;
		}
		/* The slabs do not fit: a donor is lost, a slab is recalled, or two donors are mates. */
		leases_release_slots(leases, slots);
	}
	return false;
}

/* Returns the donors that have granted this want a slab, or have not answered its request. The other replicas must not
   be on these donors or their mates. */
static struct few_donors want_used(const struct leases *leases, const struct leases_want *want)
{
	struct few_donors used = {0};

	for (unsigned i = 0; i < leases->table->replicas; i++)
		if (want->granted[i] || want->requests[i])
			few_donors_add(&used, want->slots[i].donor);
	return used;
}

static void want_ask(struct leases *leases, struct leases_want *want, unsigned replica, unsigned donor)
{
	want->requests[replica] = leases_ask(leases, donor);
	want->slots[replica].donor = donor;
}

/*
 * Called if no further donor can be asked. If a donor is away or lost, the chunk begins with the granted replicas
 * once all requests are answered. It gets the missing replicas later (leases_joins.c). If nothing was granted or
 * requested, the want waits for donors that are away, and asks the others again now and then. Otherwise the chunk is
 * denied.
 */
static void want_exhausted(struct leases *leases, struct leases_want *want, bool ahead, uint64_t now)
{
	bool granted = false, asked = false;

	for (unsigned i = 0; i < leases->table->replicas; i++) {
		granted |= want->granted[i];
		asked |= want->requests[i] != 0;
	}
	if (leases_donors_missing(leases) && (granted || asked)) {
		if (!asked)
			want_fulfil(leases, want, now);
		return;
	}
	if (!ahead && leases_donors_away(leases)) {
		want->retry_at = now + leases->config.pause_ns;
		return;
	}
	/* If a write has begun to wait for this chunk meanwhile, -EAGAIN makes the write ask again. */
	leases_want_deny(leases, want, ahead ? -EAGAIN : -ENOSPC);
}

/* Requests a slab for each replica that has neither a slab nor a request. */
static void want_step(struct leases *leases, struct leases_want *want, uint64_t now)
{
	for (unsigned i = 0; i < leases->table->replicas; i++) {
		struct few_donors used;
		bool ahead;
		int donor;

		if (want->granted[i] || want->requests[i])
			continue;
		/* If a write waits, takes an idle chunk's slabs, which are ready at once. A donor must first make a
		   new slab ready. */
		ahead = leases->table->chunks[want->chunk].ahead;
		if (!ahead && want_take_idle(leases, want, now))
			return;
		used = want_used(leases, want);
		donor = leases_choose(leases, &want->tried, &used, false);
		if (donor < 0 && !ahead)
			donor = leases_choose(leases, &want->tried, &used, true);
		if (donor < 0 && !ahead)
			donor = leases_choose_leaving(leases, &want->tried, &used);
		if (donor < 0) {
			want_exhausted(leases, want, ahead, now);
			return;
		}
		want_ask(leases, want, i, (unsigned)donor);
	}
}

void leases_wants_retry(struct leases *leases, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX && leases_has_room(leases); i++) {
		struct leases_want *want = &leases->wants[i];

		if (!want->active || want->over || !want->retry_at || now < want->retry_at)
			continue;
		want->retry_at = 0;
		want->tried = (struct donor_set){0};
		want_step(leases, want, now);
	}
}

void leases_want_granted(struct leases *leases, struct leases_want *want, unsigned replica,
			 const struct chunk_slot *slot, uint64_t now)
{
	bool missing = false;

	want->requests[replica] = 0;
	if (want->over) {
		leases_release(leases, slot);
		want_retire(leases, want);
		return;
	}
	want->granted[replica] = true;
	want->slots[replica] = *slot;
	for (unsigned i = 0; i < leases->table->replicas; i++)
		missing |= !want->granted[i];
	if (missing)
		want_step(leases, want, now);
	else
		want_fulfil(leases, want, now);
}

void leases_want_denied(struct leases *leases, struct leases_want *want, unsigned replica, uint64_t now)
{
	want->requests[replica] = 0;
	donor_set_add(&want->tried, want->slots[replica].donor);
	if (want->over)
		want_retire(leases, want);
	else
		want_step(leases, want, now);
}

/* Makes the integrity arrays present for a chunk that was never used. Returns 0 or -ENOMEM. */
static int chunk_begin(const struct leases *leases, uint32_t index)
{
	uint64_t first = index * leases->table->pages, rest = leases->integrity->pages - first;

	if (!chunk_is_untouched(leases->table, index))
		return 0;
	return integrity_begin(leases->integrity, first, rest < leases->table->pages ? rest : leases->table->pages);
}

void leases_wants_start(struct leases *leases, uint64_t now)
{
	uint32_t index;

	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		struct leases_want *want = &leases->wants[i];

		/* If no donor can be asked, a want ends at once, and the next chunk is tried. */
		while (!want->active && leases_list_first(leases, LEASES_WANTED, &index) && leases_has_room(leases)) {
			*want = (struct leases_want){.active = true, .deadline = now + leases->config.timeout_ns};
			leases_list_remove(leases, index);
			want->chunk = index;
			if (chunk_begin(leases, index) < 0)
				leases_want_deny(leases, want, -ENOMEM);
			else
				want_step(leases, want, now);
		}
	}
}

struct leases_want *leases_want_find(struct leases *leases, unsigned donor, uint32_t request, unsigned *ret_replica)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		struct leases_want *want = &leases->wants[i];

		for (unsigned j = 0; want->active && j < leases->table->replicas; j++) {
			if (request && want->requests[j] == request && want->slots[j].donor == donor) {
				*ret_replica = j;
				return want;
			}
		}
	}
	return NULL;
}

bool leases_wants_recall(struct leases *leases, unsigned donor, uint64_t slab, bool taken, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		struct leases_want *want = &leases->wants[i];

		for (unsigned j = 0; want->active && !want->over && j < leases->table->replicas; j++) {
			if (!want->granted[j] || want->slots[j].donor != donor || want->slots[j].slab != slab)
				continue;
			if (taken)
				leases->donors[donor].held--;
			else
				leases_release(leases, &want->slots[j]);
			want->granted[j] = false;
			donor_set_add(&want->tried, donor);
			want_step(leases, want, now);
			return true;
		}
	}
	return false;
}

void leases_wants_drop(struct leases *leases, unsigned donor)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		struct leases_want *want = &leases->wants[i];

		for (unsigned j = 0; want->active && j < leases->table->replicas; j++) {
			if (!(want->granted[j] || want->requests[j]) || want->slots[j].donor != donor)
				continue;
			want->granted[j] = false;
			want->requests[j] = 0;
			if (want->over)
				want_retire(leases, want);
		}
	}
}

void leases_wants_resume(struct leases *leases, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++)
		if (leases->wants[i].active && !leases->wants[i].over)
			want_step(leases, &leases->wants[i], now);
	leases_wants_start(leases, now);
}
