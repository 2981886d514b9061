#include "client/lease/leases.h"

#include "client/lease/internal.h"
#include "client/lease/placement.h"
#include "common/least.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void leases_init(struct leases *leases, const struct leases_config *config, struct chunk_table *table,
		 struct integrity *integrity)
{
	leases->config = *config;
	leases->table = table;
	leases->integrity = integrity;
	leases->lacking = table->replicas > 1;
	random_seed(&leases->random, config->seed);
}

/* --- Actions ------------------------------------------------------------------------------------------------ */

void leases_act(struct leases *leases, struct leases_action action)
{
	/* Queues are woken only once, after all other actions. */
	if (action.kind == LEASES_WAKE) {
		leases->wake = true;
		return;
	}
	assert(leases->tail - leases->head < LEASES_ACTIONS);
	leases->actions[leases->tail++ % LEASES_ACTIONS] = action;
}

bool leases_next(struct leases *leases, struct leases_action *ret_action)
{
	if (leases->head == leases->tail) {
		bool wake = leases->wake;

		leases->wake = false;
		*ret_action = (struct leases_action){.kind = LEASES_WAKE};
		return wake;
	}
	*ret_action = leases->actions[leases->head++ % LEASES_ACTIONS];
	return true;
}

bool leases_has_room(const struct leases *leases)
{
	return leases->tail - leases->head + LEASES_STEP <= LEASES_ACTIONS;
}

void leases_release(struct leases *leases, const struct chunk_slot *slot)
{
	struct leases_donor *donor = &leases->donors[slot->donor];

	if (!donor->live)
		return;
	donor->held--;
	/* The donor takes this slab back when it returns, because nobody claims it. */
	if (donor->away)
		return;
	donor->waiting++;
	leases_act(leases, (struct leases_action){.kind = LEASES_RELEASE, .donor = slot->donor, .slab = slot->slab});
}

/* --- Donors ------------------------------------------------------------------------------------------------- */

bool leases_donors_away(const struct leases *leases)
{
	bool away = false;

	for (unsigned i = 0; i < leases->config.donor_count; i++)
		away |= leases->donors[i].away;
	return away;
}

bool leases_donors_missing(const struct leases *leases)
{
	bool missing = false;

	for (unsigned i = 0; i < leases->config.donor_count; i++)
		missing |= !donor_set_has(&leases->gone, i) && (leases->donors[i].away || !leases->donors[i].live);
	return missing ||
	       failure_domains_count(&leases->failure_domains, leases->config.donor_count) < leases->table->replicas;
}

bool leases_has_mate_in(const struct leases *leases, unsigned donor, const struct few_donors *donors)
{
	for (unsigned i = 0; i < donors->count; i++)
		if (failure_domains_are_mates(&leases->failure_domains, donor, donors->donors[i]))
			return true;
	return false;
}

bool leases_slots_apart(const struct leases *leases, const struct chunk_slot slots[])
{
	struct few_donors before = {0};

	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		if (slots[i].state == SLOT_EMPTY)
			continue;
		if (leases_has_mate_in(leases, slots[i].donor, &before))
			return false;
		few_donors_add(&before, slots[i].donor);
	}
	return true;
}

/* See leases_choose(). Chooses among leaving donors if @leaving is true, and otherwise among the others. */
static int choose(struct leases *leases, const struct donor_set *tried, const struct few_donors *used, bool leaving,
		  bool all)
{
	uint64_t free[FAR_DONORS_MAX];

	for (unsigned i = 0; i < leases->config.donor_count; i++) {
		const struct leases_donor *donor = &leases->donors[i];
		uint64_t asked = donor->asked * leases->config.slab_bytes;

		free[i] = donor->free >= asked + leases->config.slab_bytes ? donor->free - asked : 0;
		/* A donor may have a free slab although its last figures show none, because another client may have
		   released a slab. */
		if (all)
			free[i]++;
		if (!donor->live || donor->away || donor_set_has(tried, i) ||
		    donor_set_has(&leases->failure_domains.leaving, i) != leaving ||
		    leases_has_mate_in(leases, i, used))
			free[i] = 0;
	}
	return placement_choose(&leases->random, free, leases->config.donor_count);
}

int leases_choose(struct leases *leases, const struct donor_set *tried, const struct few_donors *used, bool all)
{
	return choose(leases, tried, used, false, all);
}

int leases_choose_leaving(struct leases *leases, const struct donor_set *tried, const struct few_donors *used)
{
	return choose(leases, tried, used, true, true);
}

uint32_t leases_ask(struct leases *leases, unsigned donor)
{
	if (!++leases->request)
		leases->request++;
	leases->donors[donor].asked++;
	leases->donors[donor].waiting++;
	leases_act(leases, (struct leases_action){.kind = LEASES_ASK, .donor = donor, .request = leases->request});
	return leases->request;
}

/* --- Lists of chunks ------------------------------------------------------------------------------------------ */

void leases_list_put(struct leases *leases, enum leases_list_kind kind, uint32_t index, uint64_t now)
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

void leases_list_remove(struct leases *leases, uint32_t index)
{
	struct chunk *chunk = &leases->table->chunks[index];
	struct leases_list *list = &leases->lists[chunk->list];

	assert(chunk->list != LEASES_UNLISTED);
	*(chunk->previous ? &leases->table->chunks[chunk->previous - 1].next : &list->first) = chunk->next;
	*(chunk->next ? &leases->table->chunks[chunk->next - 1].previous : &list->last) = chunk->previous;
	chunk->list = LEASES_UNLISTED;
}

bool leases_list_first(const struct leases *leases, enum leases_list_kind kind, uint32_t *ret_index)
{
	*ret_index = leases->lists[kind].first - 1;
	return leases->lists[kind].first;
}

/* Returns when the oldest chunk of the list will have been there for idle_ns, or UINT64_MAX if the list is
   empty. */
static uint64_t leases_list_due(const struct leases *leases, enum leases_list_kind kind)
{
	uint32_t first;

	return leases_list_first(leases, kind, &first) ? leases->table->chunks[first].since + leases->config.idle_ns
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

void leases_sort(struct leases *leases, uint32_t index, uint64_t now)
{
	struct chunk_table *table = leases->table;

	/* Clears the bit before it looks at the chunk. A queue that changes the chunk later sets the bit again. */
	chunk_attention_clear(table, index);
	switch (chunk_state(table, index)) {
	case CHUNK_WANTED:
		if (!chunk_is_active(leases, index))
			leases_list_put(leases, LEASES_WANTED, index, now);
		return;
	case CHUNK_READY:
		if (chunk_pages_held(table, index))
			return;
		/* The bit stays set while the chunk is in the list. So a queue that empties the chunk again need not
		   wake the control thread. */
		chunk_attention_set(table, index);
		leases_list_put(leases, LEASES_IDLE, index, now);
		return;
	case CHUNK_NONE:
	case CHUNK_LOSING:
		return;
	}
}

bool leases_take_idle(struct leases *leases, uint32_t index, uint64_t now, struct chunk_slot ret_slots[])
{
	leases_list_remove(leases, index);
	chunk_attention_clear(leases->table, index);
	if (chunk_take_idle(leases->table, index, ret_slots))
		return true;
	leases_sort(leases, index, now);
	return false;
}

/* Returns true if slabs of any donor may be released now: no donor is away or has LEASES_WINDOW requests in
   flight. */
static bool window_is_open(const struct leases *leases)
{
	for (unsigned i = 0; i < leases->config.donor_count; i++)
		if (leases->donors[i].live && (leases->donors[i].away || leases->donors[i].waiting >= LEASES_WINDOW))
			return false;
	return true;
}

void leases_release_slots(struct leases *leases, const struct chunk_slot slots[])
{
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (slots[i].state != SLOT_EMPTY)
			leases_release(leases, &slots[i]);
}

static void idle_release(struct leases *leases, uint64_t now)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	uint32_t index;

	while (leases_list_due(leases, LEASES_IDLE) <= now && leases_has_room(leases) && window_is_open(leases)) {
		leases_list_first(leases, LEASES_IDLE, &index);
		if (leases_take_idle(leases, index, now, slots))
			leases_release_slots(leases, slots);
	}
}

/* Sorts chunks that were granted some time ago. By now their writers have counted pages in these chunks, or do not
   need them. */
static void fresh_sort(struct leases *leases, uint64_t now)
{
	uint32_t index;

	while (leases_list_due(leases, LEASES_FRESH) <= now) {
		leases_list_first(leases, LEASES_FRESH, &index);
		leases_list_remove(leases, index);
		leases_sort(leases, index, now);
	}
}

/* --- Events ------------------------------------------------------------------------------------------------- */

void leases_donor_heard(struct leases *leases, unsigned donor, uint64_t free)
{
	leases->donors[donor].live = true;
	leases->donors[donor].free = free;
}

void leases_donor_named(struct leases *leases, unsigned donor, const char *failure_domain)
{
	failure_domains_name(&leases->failure_domains, donor, failure_domain);
	leases->lacking |= leases->table->replicas > 1; /* its slots may now be on mates of other slots' donors */
}

void leases_donor_adopt(struct leases *leases, unsigned donor, uint64_t held)
{
	failure_domains_forget(&leases->failure_domains, donor);
	leases->donors[donor] = (struct leases_donor){.live = true, .away = true, .held = held};
	leases->lacking = true; /* it is not known yet if a replica is missing */
}

/* Counts the answer to a lease request (@asked) or to a release. Returns false if no such request is in flight. */
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
	unsigned replica;
	struct leases_want *want = leases_want_find(leases, donor, request, &replica);
	struct leases_join *join = leases_join_find(leases, donor, request);
	struct chunk_slot granted = *slot;

	/* Two chunks must never have the same slab. */
	if (!leases_answered(leases, donor, true) || leases_holds(leases, donor, slot->slab))
		return false;
	granted.donor = donor;
	leases->donors[donor].held++;
	if (want)
		leases_want_granted(leases, want, replica, &granted, now);
	else if (join)
		leases_join_granted(leases, join, &granted, now);
	else
		leases_release(leases, &granted);
	leases_wants_start(leases, now);
	return true;
}

bool leases_denied(struct leases *leases, unsigned donor, uint32_t request, uint64_t now)
{
	unsigned replica;
	struct leases_want *want = leases_want_find(leases, donor, request, &replica);
	struct leases_join *join = leases_join_find(leases, donor, request);

	if (!leases_answered(leases, donor, true))
		return false;
	if (want)
		leases_want_denied(leases, want, replica, now);
	else if (join)
		leases_join_denied(leases, join, now);
	leases_wants_start(leases, now);
	return true;
}

bool leases_released(struct leases *leases, unsigned donor)
{
	return leases_answered(leases, donor, false);
}

void leases_donor_away(struct leases *leases, unsigned donor, uint64_t now)
{
	leases->donors[donor].away = true;
	leases->donors[donor].asked = leases->donors[donor].waiting = 0;
	leases_wants_drop(leases, donor);
	leases_joins_drop(leases, donor, now);
	leases_wants_resume(leases, now);
}

void leases_donor_claiming(struct leases *leases, unsigned donor, bool claiming)
{
	leases->donors[donor].claiming = claiming;
	/* Detaches slots that could not be detached while their slabs were being claimed. */
	for (uint32_t i = 0; i < leases->table->count && !claiming && leases->table->replicas > 1; i++)
		leases_detach_away(leases, i);
	leases_act(leases, (struct leases_action){.kind = LEASES_WAKE});
}

void leases_donor_back(struct leases *leases, unsigned donor, uint64_t held, uint64_t free, uint64_t now)
{
	leases->donors[donor] = (struct leases_donor){.live = true, .free = free, .held = held};
	leases->join_at = now; /* joins can ask this donor now */
	leases_wants_resume(leases, now);
}

/* Returns the chunk's FULL slot on @donor, or -1. *@ret_others says if another FULL slot is on a donor that is not
   lost, or (@near) that is in reach. */
static int chunk_copy(const struct leases *leases, uint32_t index, unsigned donor, bool near, bool *ret_others)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	int there = -1;

	*ret_others = false;
	if (chunk_state(leases->table, index) != CHUNK_READY)
		return -1;
	chunk_slots(leases->table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		const struct leases_donor *other = &leases->donors[slots[i].donor];

		if (slots[i].state == SLOT_FULL && slots[i].donor == donor)
			there = (int)i;
		else if (slots[i].state == SLOT_FULL)
			*ret_others |= other->live && !(near && other->away);
	}
	return there;
}

/*
 * Detaches the chunk's FULL slot on a lost donor, if it has one, and returns false. But if all donors of its FULL
 * slots are lost, detaches nothing and returns true, because the chunk is lost.
 */
static bool chunk_cut(struct leases *leases, uint32_t index, unsigned donor)
{
	bool others;
	int there = chunk_copy(leases, index, donor, false, &others);

	if (there < 0 || !others)
		return there >= 0;
	chunk_detach(leases->table, index, (unsigned)there);
	leases->lacking = true;
	return false;
}

uint64_t leases_chunk_lose(struct leases *leases, uint32_t index, uint64_t now)
{
	struct chunk_table *table = leases->table;
	uint64_t first = index * table->pages, count = leases->integrity->pages - first, lost;

	if (table->chunks[index].list != LEASES_UNLISTED)
		leases_list_remove(leases, index);
	chunk_lose(table, index);
	lost = integrity_lose(leases->integrity, first, count < table->pages ? count : table->pages);
	chunk_lost(table, index);
	leases_sort(leases, index, now); /* a queue may want the chunk again already */
	return lost;
}

static bool has_pages_of_its_own(const struct leases *leases, unsigned donor, bool near)
{
	bool others;

	for (uint32_t i = 0; i < leases->table->count; i++)
		if (chunk_copy(leases, i, donor, near, &others) >= 0 && !others && chunk_pages_held(leases->table, i))
			return true;
	return false;
}

bool leases_donor_has_only(const struct leases *leases, unsigned donor)
{
	return has_pages_of_its_own(leases, donor, false);
}

bool leases_donor_has_last(struct leases *leases, unsigned donor)
{
	bool others;

	if (!has_pages_of_its_own(leases, donor, true))
		return false;
	for (uint32_t i = 0; i < leases->table->count; i++) {
		if (chunk_copy(leases, i, donor, true, &others) < 0 || !others)
			continue;
		chunk_hinder(leases->table, i); /* as a write does that waits for the donor */
		leases_detach_away(leases, i);
	}
	return true;
}

uint64_t leases_donor_lost(struct leases *leases, unsigned donor, uint64_t now)
{
	struct chunk_table *table = leases->table;
	uint64_t lost = 0;

	leases->donors[donor] = (struct leases_donor){0};
	failure_domains_empty(&leases->failure_domains, donor);
	leases->lacking |= leases->table->replicas > 1; /* chunk_is_mated() may know more failure domains now */
	leases_joins_drop(leases, donor, now);
	for (uint32_t i = 0; i < table->count; i++)
		if (chunk_cut(leases, i, donor))
			lost += leases_chunk_lose(leases, i, now);
	leases_wants_drop(leases, donor);
	leases_act(leases, (struct leases_action){.kind = LEASES_WAKE});
	leases_wants_resume(leases, now);
	return lost;
}

void leases_donor_leave(struct leases *leases, unsigned donor)
{
	donor_set_add(&leases->failure_domains.leaving, donor);
}

void leases_donor_gone(struct leases *leases, unsigned donor, uint64_t now)
{
	leases_donor_lost(leases, donor, now);
	donor_set_add(&leases->gone, donor);
}

bool leases_donor_is_empty(const struct leases *leases, unsigned donor)
{
	const struct leases_donor *own = &leases->donors[donor];

	return !own->held && !own->waiting && !leases_joins_use(leases, donor);
}

void leases_scan(struct leases *leases, uint64_t now)
{
	uint64_t words = (leases->table->count + 63) / 64;

	for (uint64_t i = 0; i < words; i++) {
		uint64_t bits = atomic_load_explicit(&leases->table->attention[i], memory_order_relaxed);

		for (; bits; bits &= bits - 1) {
			uint32_t index = (uint32_t)(i * 64 + (unsigned)__builtin_ctzll(bits));

			leases_detach_away(leases, index);
			/* A marked chunk in LEASES_FRESH was used and is empty again, so it is sorted at once. A
			   chunk in LEASES_IDLE stays there for idle_ns. */
			if (leases->table->chunks[index].list == LEASES_FRESH)
				leases_list_remove(leases, index);
			if (leases->table->chunks[index].list == LEASES_UNLISTED)
				leases_sort(leases, index, now);
		}
	}
	leases_wants_start(leases, now);
}

void leases_tick(struct leases *leases, uint64_t now)
{
	for (unsigned i = 0; i < LEASES_WANTS_MAX && leases_has_room(leases); i++)
		if (leases->wants[i].active && !leases->wants[i].over && now >= leases->wants[i].deadline)
			leases_want_deny(leases, &leases->wants[i], -ETIMEDOUT);
	leases_wants_retry(leases, now);
	leases_wants_start(leases, now);
	leases_joins_start(leases, now);
	fresh_sort(leases, now);
	idle_release(leases, now);
}

uint64_t leases_due(const struct leases *leases)
{
	uint64_t due = leases_joins_due(leases);

	for (unsigned i = 0; i < LEASES_WANTS_MAX; i++) {
		const struct leases_want *want = &leases->wants[i];

		if (want->active && !want->over)
			due = least(due, want->retry_at ? least(want->deadline, want->retry_at) : want->deadline);
		else if (!want->active && leases->lists[LEASES_WANTED].first)
			return 0;
	}
	due = least(due, leases_list_due(leases, LEASES_FRESH));
	return window_is_open(leases) ? least(due, leases_list_due(leases, LEASES_IDLE)) : due;
}
