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
	*leases = (struct leases){.config = *config, .table = table, .integrity = integrity};
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
	/* When it is back it takes back what is not claimed. */
	if (donor->away)
		return;
	donor->waiting++;
	leases_act(leases, (struct leases_action){.kind = LEASES_RELEASE, .donor = slot->donor, .slab = slot->slab});
}

/* --- Lists of chunks ------------------------------------------------------------------------------------------ */

static void list_put(struct leases *leases, enum leases_list_kind kind, uint32_t index, uint64_t now)
{
	struct leases_list *list = &leases->lists[kind];
	struct chunk *chunk = &leases->table->chunks[index];

	assert(chunk->list == LEASES_UNLISTED);
	chunk->list = kind;
	chunk->since = now;
	chunk->previous = list->last;
	chunk->next = 0;
	*(list->last ? &leases->table->chunks[list->last - 1].next : &list->first) = index + 1;
	list->last = index + 1;
}

static void list_remove(struct leases *leases, uint32_t index)
{
	struct chunk *chunk = &leases->table->chunks[index];
	struct leases_list *list = &leases->lists[chunk->list];

	assert(chunk->list != LEASES_UNLISTED);
	*(chunk->previous ? &leases->table->chunks[chunk->previous - 1].next : &list->first) = chunk->next;
	*(chunk->next ? &leases->table->chunks[chunk->next - 1].previous : &list->last) = chunk->previous;
	chunk->list = LEASES_UNLISTED;
}

/* The oldest; false: the list is empty. */
static bool list_first(const struct leases *leases, enum leases_list_kind kind, uint32_t *ret_index)
{
	*ret_index = leases->lists[kind].first - 1;
	return leases->lists[kind].first;
}

/* When the oldest has been there for the idle time; UINT64_MAX: the list is empty. */
static uint64_t list_due(const struct leases *leases, enum leases_list_kind kind)
{
	uint32_t first;

	return list_first(leases, kind, &first) ? leases->table->chunks[first].since + leases->config.idle_ns
						: UINT64_MAX;
}

/* --- Idle chunks -------------------------------------------------------------------------------------------- */

static bool chunk_is_active(const struct leases *leases, uint32_t index)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++)
		if (leases->wants[i].active && !leases->wants[i].over && leases->wants[i].chunk == index)
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
			list_put(leases, LEASES_WANTED, index, now);
		return;
	case CHUNK_READY:
		if (chunk_pages_held(table, index))
			return;
		/* The bit stays set while the chunk is listed: no queue need tell of every emptying meanwhile. */
		chunk_attention_set(table, index);
		list_put(leases, LEASES_IDLE, index, now);
		return;
	case CHUNK_NONE:
	case CHUNK_LOSING:
		return;
	}
}

/* Takes an idle chunk off its list. Returns whether it still is idle: then its slots are the caller's. */
static bool idle_take(struct leases *leases, uint32_t index, uint64_t now, struct chunk_slot ret_slots[])
{
	list_remove(leases, index);
	chunk_attention_clear(leases->table, index);
	if (chunk_take_idle(leases->table, index, ret_slots))
		return true;
	chunk_sort(leases, index, now);
	return false;
}

/* Whether a slab may be given back now, however the chunk's replicas lie. */
static bool window_is_open(const struct leases *leases)
{
	for (unsigned i = 0; i < leases->config.donor_count; i++)
		if (leases->donors[i].live && (leases->donors[i].away || leases->donors[i].waiting >= LEASES_WINDOW))
			return false;
	return true;
}

static void slots_release(struct leases *leases, const struct chunk_slot slots[])
{
	for (unsigned i = 0; i < leases->table->replicas; i++)
		leases_release(leases, &slots[i]);
}

static void idle_release(struct leases *leases, uint64_t now)
{
	struct chunk_slot slots[FAR_REPLICAS_MAX];
	uint32_t index;

	while (list_due(leases, LEASES_IDLE) <= now && leases_has_room(leases) && window_is_open(leases)) {
		list_first(leases, LEASES_IDLE, &index);
		if (idle_take(leases, index, now, slots))
			slots_release(leases, slots);
	}
}

/* Chunks granted a while ago: by now whoever wanted them is there, or does not come. */
static void fresh_sort(struct leases *leases, uint64_t now)
{
	uint32_t index;

	while (list_due(leases, LEASES_FRESH) <= now) {
		list_first(leases, LEASES_FRESH, &index);
		list_remove(leases, index);
		chunk_sort(leases, index, now);
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

/* A want that is over goes when its last request was answered: so there are never more of them than wants. */
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
	chunk_publish(leases->table, want->chunk, slots);
	if (leases->table->chunks[want->chunk].ahead) {
		chunk_attention_set(leases->table, want->chunk);
		list_put(leases, LEASES_IDLE, want->chunk, now);
	} else {
		list_put(leases, LEASES_FRESH, want->chunk, now);
	}
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

/* Some donor is away: what it can do shows when it is back, or lost. */
static bool donors_away(const struct leases *leases)
{
	bool away = false;

	for (unsigned i = 0; i < leases->config.donor_count; i++)
		away |= leases->donors[i].away;
	return away;
}

/* An idle chunk's slabs serve as well as new ones: nothing is read of a page that was not written. */
static bool want_take_idle(struct leases *leases, struct leases_want *want, uint64_t now)
{
	struct chunk_slot slots[FAR_REPLICAS_MAX];
	uint32_t index;

	/* No slab changes hands while some are being claimed. */
	if (donors_away(leases))
		return false;
	while (list_first(leases, LEASES_IDLE, &index) && leases_has_room(leases)) {
		if (!idle_take(leases, index, now, slots))
			continue;
		if (slots_are_live(leases, slots)) {
			want_publish(leases, want, slots, now);
			return true;
		}
		/* One of its donors died; what is left of it goes back. */
		slots_release(leases, slots);
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
		if (!donor->live || donor->away)
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
	leases_act(leases, (struct leases_action){.kind = LEASES_ASK, .donor = donor, .request = leases->request});
}

/* Asks for whatever replica is neither granted nor asked for; denies the want when nobody is left to ask. */
static void want_step(struct leases *leases, struct leases_want *want, uint64_t now)
{
	for (unsigned i = 0; i < leases->table->replicas; i++) {
		bool ahead;
		int donor;

		if (want->granted[i] || want->requests[i])
			continue;
		/* Quicker than a new one, which its donor must make ready first. */
		ahead = leases->table->chunks[want->chunk].ahead;
		if (!ahead && want_take_idle(leases, want, now))
			return;
		donor = want_choose(leases, want, false);
		if (donor < 0 && !ahead)
			donor = want_choose(leases, want, true);
		if (donor < 0 && !ahead && donors_away(leases))
			return;
		if (donor < 0) {
			/* Whoever came to wait meanwhile may ask in earnest. */
			want_deny(leases, want, ahead ? -EAGAIN : -ENOSPC);
			return;
		}
		want_ask(leases, want, i, (unsigned)donor);
	}
}

/* What is kept of the chunk's pages is there before anything can be. */
static int chunk_begin(const struct leases *leases, uint32_t index)
{
	uint64_t first = index * leases->table->pages, rest = leases->integrity->pages - first;

	if (!chunk_is_untouched(leases->table, index))
		return 0;
	return integrity_begin(leases->integrity, first, rest < leases->table->pages ? rest : leases->table->pages);
}

static void wants_start(struct leases *leases, uint64_t now)
{
	uint32_t index;

	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		struct leases_want *want = &leases->wants[i];

		/* With nobody left to ask a want ends as soon as it starts. */
		while (!want->active && list_first(leases, LEASES_WANTED, &index) && leases_has_room(leases)) {
			*want = (struct leases_want){.active = true, .deadline = now + leases->config.timeout_ns};
			list_remove(leases, index);
			want->chunk = index;
			if (chunk_begin(leases, index) < 0)
				want_deny(leases, want, -ENOMEM);
			else
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

void leases_donor_adopt(struct leases *leases, unsigned donor, uint64_t held)
{
	leases->donors[donor] = (struct leases_donor){.live = true, .away = true, .held = held};
}

/* An answer to a request for a lease (@asked), or to a release. False: to none that was made. */
static bool leases_answered(struct leases *leases, unsigned donor, bool asked)
{
	struct leases_donor *d = &leases->donors[donor];

	if (asked ? !d->asked : d->waiting == d->asked)
		return false;
	assert(d->waiting >= d->asked);
	d->waiting--;
	d->asked -= asked;
	return true;
}

bool leases_granted(struct leases *leases, unsigned donor, uint32_t request, const struct chunk_slot *slot,
		    uint64_t now)
{
	unsigned replica, missing = 0;
	struct leases_want *want = want_find(leases, donor, request, &replica);
	struct chunk_slot granted = *slot;

	if (!leases_answered(leases, donor, true))
		return false;
	granted.donor = donor;
	leases->donors[donor].held++;
	if (want)
		want->requests[replica] = 0;
	if (!want || want->over) {
		leases_release(leases, &granted);
		if (want)
			want_retire(leases, want);
		wants_start(leases, now);
		return true;
	}
	want->granted[replica] = true;
	want->slots[replica] = granted;
	for (unsigned i = 0; i < leases->table->replicas; i++)
		missing += !want->granted[i];
	if (!missing)
		want_publish(leases, want, want->slots, now);
	wants_start(leases, now);
	return true;
}

bool leases_denied(struct leases *leases, unsigned donor, uint32_t request, uint64_t now)
{
	unsigned replica;
	struct leases_want *want = want_find(leases, donor, request, &replica);

	if (!leases_answered(leases, donor, true))
		return false;
	if (want) {
		want->requests[replica] = 0;
		want->tried |= UINT64_C(1) << donor;
		if (want->over)
			want_retire(leases, want);
		else
			want_step(leases, want, now);
	}
	wants_start(leases, now);
	return true;
}

bool leases_released(struct leases *leases, unsigned donor)
{
	return leases_answered(leases, donor, false);
}

/* What the wants have there, asked for or granted, is void. */
static void wants_drop(struct leases *leases, unsigned donor)
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

/* Who can be asked has changed: wants that lack a replica go on. */
static void wants_resume(struct leases *leases, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++)
		if (leases->wants[i].active && !leases->wants[i].over)
			want_step(leases, &leases->wants[i], now);
	wants_start(leases, now);
}

void leases_donor_away(struct leases *leases, unsigned donor, uint64_t now)
{
	leases->donors[donor].away = true;
	leases->donors[donor].asked = leases->donors[donor].waiting = 0;
	wants_drop(leases, donor);
	wants_resume(leases, now);
}

void leases_donor_back(struct leases *leases, unsigned donor, uint64_t held, uint64_t free, uint64_t now)
{
	leases->donors[donor] = (struct leases_donor){.live = true, .free = free, .held = held};
	wants_resume(leases, now);
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

	leases->donors[donor] = (struct leases_donor){0};
	for (uint32_t i = 0; i < table->count; i++) {
		uint64_t first = i * table->pages;
		uint64_t count = leases->integrity->pages - first;

		if (!chunk_is_gone(leases, i, donor))
			continue;
		if (table->chunks[i].list != LEASES_UNLISTED)
			list_remove(leases, i);
		chunk_lose(table, i);
		lost += integrity_lose(leases->integrity, first, count < table->pages ? count : table->pages);
		chunk_lost(table, i);
		chunk_sort(leases, i, now); /* it may be wanted already */
	}
	wants_drop(leases, donor);
	leases_act(leases, (struct leases_action){.kind = LEASES_WAKE});
	wants_resume(leases, now);
	return lost;
}

void leases_scan(struct leases *leases, uint64_t now)
{
	uint64_t words = (leases->table->count + 63) / 64;

	for (uint64_t i = 0; i < words; i++) {
		uint64_t bits = atomic_load_explicit(&leases->table->attention[i], memory_order_relaxed);

		for (; bits; bits &= bits - 1) {
			uint32_t index = (uint32_t)(i * 64 + (unsigned)__builtin_ctzll(bits));

			/* What became of an idle one shows when its turn comes; a fresh one was used, and emptied. */
			if (leases->table->chunks[index].list == LEASES_FRESH)
				list_remove(leases, index);
			if (leases->table->chunks[index].list == LEASES_UNLISTED)
				chunk_sort(leases, index, now);
		}
	}
	wants_start(leases, now);
}

void leases_tick(struct leases *leases, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX && leases_has_room(leases); i++)
		if (leases->wants[i].active && !leases->wants[i].over && now >= leases->wants[i].deadline)
			want_deny(leases, &leases->wants[i], -ETIMEDOUT);
	wants_start(leases, now);
	fresh_sort(leases, now);
	idle_release(leases, now);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t leases_due(const struct leases *leases)
{
	uint64_t due = UINT64_MAX;

	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		const struct leases_want *want = &leases->wants[i];

		if (want->active && !want->over)
			due = earlier(due, want->deadline);
		else if (!want->active && leases->lists[LEASES_WANTED].first)
			return 0;
	}
	due = earlier(due, list_due(leases, LEASES_FRESH));
	return window_is_open(leases) ? earlier(due, list_due(leases, LEASES_IDLE)) : due;
}
