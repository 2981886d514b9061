#include "client/leases.h"

#include "client/placement.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* The most actions one event may leave behind; whoever makes more in a loop asks leases_has_room() first. */
#define LEASES_STEP (FAR_REPLICAS_MAX * 4)

void leases_init(struct leases *leases, const struct leases_config *config, struct chunk_table *table,
                 struct integrity *integrity)
{
	*leases = (struct leases){ .config = *config, .table = table, .integrity = integrity };
	random_seed(&leases->random, config->seed);
}

/* --- Actions ------------------------------------------------------------------------------------------------ */

static void leases_act(struct leases *leases, struct leases_action action)
{
	assert(leases->tail - leases->head < LEASES_ACTIONS);
	leases->actions[leases->tail++ % LEASES_ACTIONS] = action;
}

bool leases_next(struct leases *leases, struct leases_action *ret_action)
{
	if (leases->head == leases->tail)
		return false;
	*ret_action = leases->actions[leases->head++ % LEASES_ACTIONS];
	return true;
}

static bool leases_has_room(const struct leases *leases)
{
	return leases->tail - leases->head + LEASES_STEP <= LEASES_ACTIONS;
}

static void leases_release(struct leases *leases, const struct chunk_slot *slot)
{
	struct leases_donor *donor = &leases->donors[slot->donor];

	if (!donor->live)
		return;
	donor->held--;
	donor->waiting++;
	leases_act(leases, (struct leases_action){ .kind = LEASES_RELEASE, .donor = slot->donor, .slab = slot->slab });
}

/* --- Lists of chunks: a chunk is in at most one, linked through its `next` ----------------------------------- */

static void list_put(struct leases *leases, uint32_t *first, uint32_t *last, uint32_t index)
{
	struct chunk *chunk = &leases->table->chunks[index];

	assert(!chunk->listed);
	chunk->listed = true;
	chunk->next = 0;
	if (*first)
		leases->table->chunks[*last - 1].next = index + 1;
	else
		*first = index + 1;
	*last = index + 1;
}

static uint32_t list_take(struct leases *leases, uint32_t *first)
{
	uint32_t index = *first - 1;
	struct chunk *chunk = &leases->table->chunks[index];

	assert(chunk->listed);
	chunk->listed = false;
	*first = chunk->next;
	return index;
}

/* --- Idle chunks -------------------------------------------------------------------------------------------- */

static bool chunk_is_active(const struct leases *leases, uint32_t index)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++)
		if (leases->wants[i].active && leases->wants[i].chunk == index)
			return true;
	return false;
}

/* Puts a chunk, which is in no list, where it belongs. */
static void chunk_sort(struct leases *leases, uint32_t index, uint64_t now)
{
	struct chunk_table *table = leases->table;

	/* Cleared first, so that whatever a queue does from here on is seen below or sets the bit again. */
	chunk_attention_clear(table, index);
	switch (chunk_state(table, index)) {
	case CHUNK_WANTED:
		if (!chunk_is_active(leases, index))
			list_put(leases, &leases->first, &leases->last, index);
		return;
	case CHUNK_READY:
		if (chunk_pages_held(table, index))
			return;
		/* The bit stays set while the chunk is listed: no queue need tell of every emptying meanwhile. */
		chunk_attention_set(table, index);
		table->chunks[index].idle_since = now;
		list_put(leases, &leases->idle_first, &leases->idle_last, index);
		return;
	case CHUNK_NONE:
	case CHUNK_LOSING:
		return;
	}
}

/* Looks at the chunk that was idle the longest. Returns whether it still was: then its slots are the caller's. */
static bool idle_take(struct leases *leases, uint64_t now, struct chunk_slot ret_slots[])
{
	uint32_t index = list_take(leases, &leases->idle_first);

	chunk_attention_clear(leases->table, index);
	if (chunk_take_idle(leases->table, index, ret_slots))
		return true;
	chunk_sort(leases, index, now);
	return false;
}

/* Some of the idle chunks are no longer what they were: sorts them all anew. */
static void idle_sort(struct leases *leases, uint64_t now)
{
	uint32_t first = leases->idle_first;

	leases->idle_first = 0;
	while (first)
		chunk_sort(leases, list_take(leases, &first), now);
}

/* Whether a slab may be given back now, however the chunk's replicas lie. */
static bool window_is_open(const struct leases *leases)
{
	for (unsigned i = 0; i < leases->config.donor_count; i++)
		if (leases->donors[i].live && leases->donors[i].waiting >= LEASES_WINDOW)
			return false;
	return true;
}

static void idle_release(struct leases *leases, uint64_t now)
{
	struct chunk_slot slots[FAR_REPLICAS_MAX];

	while (leases->idle_first && leases_has_room(leases) && window_is_open(leases)) {
		if (leases->table->chunks[leases->idle_first - 1].idle_since + leases->config.idle_ns > now)
			return;
		if (!idle_take(leases, now, slots))
			continue;
		for (unsigned i = 0; i < leases->table->replicas; i++)
			leases_release(leases, &slots[i]);
	}
}

/* --- Wants -------------------------------------------------------------------------------------------------- */

static bool slots_are_live(const struct leases *leases, const struct chunk_slot slots[])
{
	for (unsigned i = 0; i < leases->table->replicas; i++)
		if (!leases->donors[slots[i].donor].live)
			return false;
	return true;
}

static void want_end(struct leases *leases, struct leases_want *want)
{
	for (unsigned i = 0; i < leases->table->replicas; i++)
		if (want->granted[i])
			leases_release(leases, &want->slots[i]);
	want->active = false; /* a grant still to come finds nobody and is given back */
	leases_act(leases, (struct leases_action){ .kind = LEASES_WAKE });
}

static void want_publish(struct leases *leases, struct leases_want *want, const struct chunk_slot slots[])
{
	chunk_publish(leases->table, want->chunk, slots);
	/* The slabs are the chunk's now. */
	if (slots == want->slots)
		memset(want->granted, 0, sizeof want->granted);
	want_end(leases, want);
}

static void want_deny(struct leases *leases, struct leases_want *want, int status)
{
	chunk_deny(leases->table, want->chunk, status);
	want_end(leases, want);
}

/* An idle chunk's slabs serve as well as new ones: nothing is read of a page that was not written. */
static bool want_take_idle(struct leases *leases, struct leases_want *want, uint64_t now)
{
	struct chunk_slot slots[FAR_REPLICAS_MAX];

	while (leases->idle_first) {
		if (!idle_take(leases, now, slots))
			continue;
		if (slots_are_live(leases, slots)) {
			want_publish(leases, want, slots);
			return true;
		}
		/* One that died together with its donor; the other replicas' slabs go back. */
		for (unsigned i = 0; i < leases->table->replicas; i++)
			leases_release(leases, &slots[i]);
		return false;
	}
	return false;
}

/* Who may be asked: not who said no, nor who holds or is asked for another replica. */
static uint64_t want_excluded(const struct leases *leases, const struct leases_want *want)
{
	uint64_t excluded = want->tried;

	for (unsigned i = 0; i < leases->table->replicas; i++)
		if (want->granted[i] || want->requests[i])
			excluded |= UINT64_C(1) << want->slots[i].donor;
	return excluded;
}

/* A donor to ask, among those thought to have room, or (@all) among all: another client may have made some. */
static int want_choose(struct leases *leases, const struct leases_want *want, bool all)
{
	uint64_t free[FAR_DONORS_MAX];

	for (unsigned i = 0; i < leases->config.donor_count; i++) {
		const struct leases_donor *donor = &leases->donors[i];
		uint64_t asked = donor->asked * leases->config.slab_bytes;

		free[i] = donor->free >= asked + leases->config.slab_bytes ? donor->free - asked : 0;
		if (all)
			free[i]++;
		if (!donor->live)
			free[i] = 0;
	}
	return placement_choose(&leases->random, free, leases->config.donor_count, want_excluded(leases, want));
}

static void want_ask(struct leases *leases, struct leases_want *want, unsigned replica, unsigned donor)
{
	if (!++leases->request)
		leases->request++;
	want->requests[replica] = leases->request;
	want->slots[replica].donor = donor;
	leases->donors[donor].asked++;
	leases->donors[donor].waiting++;
	leases_act(leases,
	           (struct leases_action){ .kind = LEASES_ASK, .donor = donor, .request = leases->request });
}

/* Asks for whatever replica is neither granted nor asked for; denies the want when nobody is left to ask. */
static void want_step(struct leases *leases, struct leases_want *want, uint64_t now)
{
	for (unsigned i = 0; i < leases->table->replicas; i++) {
		int donor;

		if (want->granted[i] || want->requests[i])
			continue;
		donor = want_choose(leases, want, false);
		if (donor < 0 && want_take_idle(leases, want, now))
			return;
		if (donor < 0)
			donor = want_choose(leases, want, true);
		if (donor < 0) {
			want_deny(leases, want, -ENOSPC);
			return;
		}
		want_ask(leases, want, i, (unsigned)donor);
	}
}

static void wants_start(struct leases *leases, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		struct leases_want *want = &leases->wants[i];

		/* With nobody left to ask a want ends as soon as it starts. */
		while (!want->active && leases->first && leases_has_room(leases)) {
			*want = (struct leases_want){ .active = true, .deadline = now + leases->config.timeout_ns };
			want->chunk = list_take(leases, &leases->first);
			want_step(leases, want, now);
		}
	}
}

/* The want and replica that a request was made for, or NULL. */
static struct leases_want *want_find(struct leases *leases, unsigned donor, uint32_t request, unsigned *ret_replica)
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

/* --- Events ------------------------------------------------------------------------------------------------- */

void leases_donor_heard(struct leases *leases, unsigned donor, uint64_t free)
{
	leases->donors[donor].live = true;
	leases->donors[donor].free = free;
}

static void leases_answered(struct leases *leases, unsigned donor, bool asked)
{
	assert(leases->donors[donor].waiting);
	leases->donors[donor].waiting--;
	if (asked) {
		assert(leases->donors[donor].asked);
		leases->donors[donor].asked--;
	}
}

void leases_granted(struct leases *leases, unsigned donor, uint32_t request, const struct chunk_slot *slot,
                    uint64_t now)
{
	unsigned replica, missing = 0;
	struct leases_want *want = want_find(leases, donor, request, &replica);
	struct chunk_slot granted = *slot;

	granted.donor = donor;
	leases_answered(leases, donor, true);
	leases->donors[donor].held++;
	if (!want) {
		leases_release(leases, &granted);
		return;
	}
	want->requests[replica] = 0;
	want->granted[replica] = true;
	want->slots[replica] = granted;
	for (unsigned i = 0; i < leases->table->replicas; i++)
		missing += !want->granted[i];
	if (!missing)
		want_publish(leases, want, want->slots);
	wants_start(leases, now);
}

void leases_denied(struct leases *leases, unsigned donor, uint32_t request, uint64_t now)
{
	unsigned replica;
	struct leases_want *want = want_find(leases, donor, request, &replica);

	leases_answered(leases, donor, true);
	if (want) {
		want->requests[replica] = 0;
		want->tried |= UINT64_C(1) << donor;
		want_step(leases, want, now);
	}
	wants_start(leases, now);
}

void leases_released(struct leases *leases, unsigned donor)
{
	leases_answered(leases, donor, false);
}

/* Whether the chunk had a replica on @donor, and has none on a donor that lives. */
static bool chunk_is_gone(const struct leases *leases, uint32_t index, unsigned donor)
{
	struct chunk_slot slots[FAR_REPLICAS_MAX];
	bool there = false;

	if (chunk_state(leases->table, index) != CHUNK_READY)
		return false;
	chunk_slots(leases->table, index, slots);
	for (unsigned i = 0; i < leases->table->replicas; i++) {
		if (leases->donors[slots[i].donor].live)
			return false;
		there |= slots[i].donor == donor;
	}
	return there;
}

uint64_t leases_donor_lost(struct leases *leases, unsigned donor, uint64_t now)
{
	struct chunk_table *table = leases->table;
	uint64_t lost = 0;

	leases->donors[donor] = (struct leases_donor){ 0 };
	for (uint32_t i = 0; i < table->count; i++) {
		uint64_t first = i * table->pages;
		uint64_t count = leases->integrity->pages - first;

		if (!chunk_is_gone(leases, i, donor))
			continue;
		chunk_lose(table, i);
		lost += integrity_lose(leases->integrity, first, count < table->pages ? count : table->pages);
		chunk_lost(table, i);
	}
	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		struct leases_want *want = &leases->wants[i];

		for (unsigned j = 0; want->active && j < table->replicas; j++) {
			if (!(want->granted[j] || want->requests[j]) || want->slots[j].donor != donor)
				continue;
			want->granted[j] = false;
			want->requests[j] = 0;
			want_step(leases, want, now);
		}
	}
	idle_sort(leases, now);
	leases_act(leases, (struct leases_action){ .kind = LEASES_WAKE });
	wants_start(leases, now);
	return lost;
}

void leases_scan(struct leases *leases, uint64_t now)
{
	uint64_t words = (leases->table->count + 63) / 64;

	for (uint64_t i = 0; i < words; i++) {
		uint64_t bits = atomic_load_explicit(&leases->table->attention[i], memory_order_relaxed);

		for (; bits; bits &= bits - 1) {
			uint32_t index = (uint32_t)(i * 64 + (unsigned)__builtin_ctzll(bits));

			/* What became of a listed one shows when its turn comes. */
			if (!leases->table->chunks[index].listed)
				chunk_sort(leases, index, now);
		}
	}
	wants_start(leases, now);
}

void leases_tick(struct leases *leases, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX && leases_has_room(leases); i++)
		if (leases->wants[i].active && now >= leases->wants[i].deadline)
			want_deny(leases, &leases->wants[i], -ETIMEDOUT);
	wants_start(leases, now);
	idle_release(leases, now);
}

uint64_t leases_due(const struct leases *leases)
{
	uint64_t due = UINT64_MAX;

	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		if (leases->wants[i].active && leases->wants[i].deadline < due)
			due = leases->wants[i].deadline;
		else if (!leases->wants[i].active && leases->first)
			return 0;
	}
	if (leases->idle_first && window_is_open(leases)) {
		uint64_t idle = leases->table->chunks[leases->idle_first - 1].idle_since + leases->config.idle_ns;

		due = idle < due ? idle : due;
	}
	return due;
}
