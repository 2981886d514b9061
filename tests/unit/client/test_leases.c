/* leases: single events, then seeded histories with donors that grant, deny, are slow, and die. */
#include "client/donor/claims.h"
#include "tests/lib/tap.h"
#include "tests/unit/client/leases_world.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNKS 40u

static bool want(struct world *world, uint64_t chunk, uint64_t now)
{
	struct chunk_view view;
	bool asked = chunk_hold(&world->table, chunk, 1, &view) == CHUNK_ASKED;

	leases_scan(&world->leases, now);
	return asked;
}

static void granted_slab_is_released_after_its_idle_time(void)
{
	struct chunk_slot slot = {.address = 7, .rkey = 8, .slab = 9};
	struct leases_action action;
	struct chunk_view view;
	struct world world;

	world_open(&world, CHUNKS, 2, 1, 1);
	leases_donor_heard(&world.leases, 0, 0);
	leases_donor_heard(&world.leases, 1, 10 * SLAB);
	ok(want(&world, 3, 0) && world_next(&world, &action) && action.kind == LEASES_ASK && action.donor == 1,
	   "the donor with free memory is asked for a slab");
	ok(!world_next(&world, &action) && leases_due(&world.leases) == TIMEOUT,
	   "a wanted chunk asks one donor and waits for the timeout");
	leases_granted(&world.leases, 1, world.leases.request, &slot, 5);
	ok(chunk_hold(&world.table, 3, 1, &view) == CHUNK_HELD && view.slots[0].address == 7 &&
	       view.slots[0].donor == 1 && world.leases.donors[1].held == 1,
	   "a granted slab makes the chunk ready");
	chunk_drop(&world.table, 3, view.epoch, 1);
	leases_scan(&world.leases, 10);
	world_next(&world, &action);
	leases_tick(&world.leases, 10 + IDLE - 1);
	ok(!world_next(&world, &action) && leases_due(&world.leases) == 10 + IDLE,
	   "an emptied chunk keeps its slab until the idle time is over");
	leases_tick(&world.leases, 10 + IDLE);
	ok(world_next(&world, &action) && action.kind == LEASES_RELEASE && action.donor == 1 && action.slab == 9 &&
	       chunk_state(&world.table, 3) == CHUNK_NONE,
	   "the slab of an idle chunk is released");
	leases_released(&world.leases, 1);
	ok(leases_due(&world.leases) == UINT64_MAX && !world.leases.donors[1].held,
	   "a released slab leaves no lease and no deadline");
	world_close(&world);
}

static void chunk_is_denied_after_every_donor_denied(void)
{
	struct leases_action action;
	struct world world;
	uint64_t asked = 0;

	world_open(&world, CHUNKS, 3, 1, 1);
	for (unsigned i = 0; i < 3; i++)
		leases_donor_heard(&world.leases, i, 0);
	want(&world, 3, 0);
	while (world_next(&world, &action) && action.kind == LEASES_ASK) {
		asked += UINT64_C(1) << 8 * action.donor;
		leases_denied(&world.leases, action.donor, action.request, 1);
	}
	ok(asked == 0x010101, "each donor is asked once, also donors thought to be full");
	ok(chunk_state(&world.table, 3) == CHUNK_NONE && world.table.chunks[3].denial == -ENOSPC,
	   "a chunk that every donor denied is denied with -ENOSPC");
	world_close(&world);
}

/* Answers without a request are reported and change nothing. */
static void answers_without_a_request_are_refused(void)
{
	struct chunk_slot slot = {.slab = 9};
	struct leases_action action;
	struct world world;

	world_open(&world, CHUNKS, 1, 1, 1);
	leases_donor_heard(&world.leases, 0, SLAB);
	ok(!leases_granted(&world.leases, 0, 1, &slot, 0) && !leases_denied(&world.leases, 0, 1, 0) &&
	       !leases_released(&world.leases, 0) && !world.leases.donors[0].held && !world_next(&world, &action),
	   "answers to no request are refused and change nothing");
	want(&world, 3, 0);
	world_next(&world, &action);
	ok(!leases_released(&world.leases, 0) && leases_granted(&world.leases, 0, action.request, &slot, 1),
	   "an answer of the wrong kind is refused, and the right one is accepted");
	ok(!leases_denied(&world.leases, 0, action.request, 2) && world.leases.donors[0].held == 1,
	   "a second answer to the same request is refused");
	want(&world, 4, 3);
	world_next(&world, &action);
	ok(!leases_granted(&world.leases, 0, action.request, &slot, 4) && world.leases.donors[0].held == 1 &&
	       chunk_state(&world.table, 4) == CHUNK_WANTED,
	   "a grant of a slab already held is refused");
	world_close(&world);
}

static void late_grant_is_released(void)
{
	struct chunk_slot slot = {.slab = 9};
	struct leases_action action;
	struct world world;

	world_open(&world, CHUNKS, 1, 1, 1);
	leases_donor_heard(&world.leases, 0, SLAB);
	want(&world, 3, 0);
	world_next(&world, &action);
	leases_tick(&world.leases, TIMEOUT);
	ok(chunk_state(&world.table, 3) == CHUNK_NONE && world.table.chunks[3].denial == -ETIMEDOUT,
	   "a chunk whose donor does not answer is denied with -ETIMEDOUT");
	leases_granted(&world.leases, 0, action.request, &slot, TIMEOUT + 1);
	ok(world_next(&world, &action) && action.kind == LEASES_RELEASE && action.slab == 9,
	   "a slab granted after the timeout is released");
	world_close(&world);
}

static void idle_slab_serves_another_chunk(void)
{
	struct chunk_slot slot = {.address = 1, .slab = 9};
	struct leases_action action;
	struct chunk_view view;
	struct world world;

	world_open(&world, CHUNKS, 1, 1, 1);
	leases_donor_heard(&world.leases, 0, SLAB);
	want(&world, 3, 0);
	world_next(&world, &action);
	leases_granted(&world.leases, 0, action.request, &slot, 1);
	chunk_hold(&world.table, 3, 1, &view);
	chunk_drop(&world.table, 3, view.epoch, 1);
	leases_scan(&world.leases, 2);
	want(&world, 4, 3);
	ok(!world_next(&world, &action) && chunk_hold(&world.table, 4, 1, &view) == CHUNK_HELD &&
	       view.slots[0].address == 1 && chunk_state(&world.table, 3) == CHUNK_NONE,
	   "the slab of an idle chunk serves another chunk without a request");
	world_close(&world);
}

static void lost_donor_takes_its_pages_along(void)
{
	struct chunk_slot slot = {.slab = 9};
	static const uint8_t data[4096] = {1};
	struct leases_action action;
	struct chunk_view view;
	struct world world;

	world_open(&world, CHUNKS, 2, 1, 1);
	leases_donor_heard(&world.leases, 0, SLAB * 9);
	want(&world, 3, 0);
	world_next(&world, &action);
	leases_granted(&world.leases, 0, action.request, &slot, 1);
	chunk_hold(&world.table, 3, 2, &view);
	for (uint64_t page = 12; page < 14; page++) {
		integrity_prepare(&world.integrity, page, data);
		integrity_commit(&world.integrity, page, 1);
	}
	want(&world, 4, 2);
	world_next(&world, &action);
	leases_donor_heard(&world.leases, 1, SLAB);
	ok(leases_donor_lost(&world.leases, 0, 3) == 2, "a lost donor loses the pages that were on it");
	ok(integrity_kind(&world.integrity, 12) == INTEGRITY_IS_LOST && chunk_state(&world.table, 3) == CHUNK_NONE,
	   "lost pages are marked as lost, and their chunk has no state");
	ok(world_next(&world, &action) && action.kind == LEASES_ASK && action.donor == 1,
	   "a request to a lost donor is made to another donor");
	ok(leases_donor_lost(&world.leases, 1, 4) == 0 && chunk_state(&world.table, 4) == CHUNK_NONE &&
	       world.table.chunks[4].denial == -ENOSPC,
	   "a chunk is denied with -ENOSPC when the last donor is lost");
	world_close(&world);
}

/* A slab asked for ahead of need serves the first chunk that needs one, and is released when it is idle. */
static void slab_asked_ahead_serves_the_first_chunk_in_need(void)
{
	struct chunk_slot slot = {.address = 1, .slab = 9}, ahead = {.address = 2, .slab = 10};
	struct leases_action action;
	struct chunk_view view;
	struct world world;

	world_open(&world, CHUNKS, 1, 1, 1);
	leases_donor_heard(&world.leases, 0, 2 * SLAB);
	want(&world, 3, 0);
	world_next(&world, &action);
	leases_granted(&world.leases, 0, action.request, &slot, 1);
	leases_donor_heard(&world.leases, 0, SLAB);
	chunk_hold(&world.table, 3, CHUNK_PAGES, &view);
	ok(chunk_look_ahead(&world.table, 3), "a chunk that is full looks ahead");
	leases_scan(&world.leases, 2);
	ok(world_next(&world, &action) && action.kind == LEASES_ASK, "a look-ahead asks for the next chunk's slab");
	leases_granted(&world.leases, 0, action.request, &ahead, 3);
	leases_donor_heard(&world.leases, 0, 0);
	want(&world, 7, 4);
	ok(chunk_hold(&world.table, 7, 1, &view) == CHUNK_HELD && view.slots[0].address == 2,
	   "a slab asked ahead serves another chunk that needs it first");
	ok(!world_next(&world, &action), "no further slab is asked for once the look-ahead slab is used");
	chunk_drop(&world.table, 7, view.epoch, 1);
	leases_scan(&world.leases, 5);
	leases_tick(&world.leases, 5 + IDLE);
	ok(world_next(&world, &action) && action.kind == LEASES_RELEASE && action.slab == 10,
	   "a look-ahead slab that is emptied is released after the idle time");
	world_close(&world);
}

/* More chunks than the action queue has room for. */
#define HINDERED 700u

static void hindered_chunks_detach_after_the_claims(void)
{
	const struct leases_config config = {
	    .donor_count = 3, .slab_bytes = 4096, .timeout_ns = TIMEOUT, .idle_ns = IDLE, .pause_ns = PAUSE, .seed = 1};
	const struct chunk_slot slots[FAR_REPLICAS_MAX] = {{.donor = 0, .slab = 1}, {.donor = 1, .slab = 2}};
	unsigned detached = 0, wakes = 0, asked = 0;
	struct leases_action action;
	struct world world;
	struct chunk_view view;

	chunk_table_open(&world.table, HINDERED, 1, 2);
	integrity_open(&world.integrity, HINDERED);
	leases_init(&world.leases, &config, &world.table, &world.integrity);
	for (unsigned i = 0; i < 2; i++)
		leases_donor_heard(&world.leases, i, 0);
	for (unsigned i = 0; i < HINDERED; i++) {
		chunk_hold(&world.table, i, 1, &view);
		chunk_publish(&world.table, i, slots);
		chunk_hold(&world.table, i, 1, &view);
	}
	leases_donor_away(&world.leases, 0, 1);
	leases_scan(&world.leases, 1);
	while (leases_next(&world.leases, &action))
		;
	for (unsigned i = 0; i < HINDERED; i++)
		chunk_hinder(&world.table, i);
	leases_donor_claiming(&world.leases, 0, true);
	leases_scan(&world.leases, 2);
	for (unsigned i = 0; i < HINDERED; i++)
		detached += chunk_replicas_missing(&world.table, i);
	ok(!detached, "no slot of a donor is detached while its slabs are claimed");
	leases_donor_claiming(&world.leases, 0, false);
	for (unsigned i = 0; i < HINDERED; i++)
		detached += chunk_replicas_missing(&world.table, i);
	while (leases_next(&world.leases, &action))
		wakes += action.kind == LEASES_WAKE;
	ok(detached == HINDERED && wakes == 1, "%u hindered chunks detach a slot after the claims, with one wake-up",
	   detached);
	leases_donor_heard(&world.leases, 2, 4096 * HINDERED);
	leases_tick(&world.leases, 3);
	while (leases_next(&world.leases, &action))
		asked += action.kind == LEASES_ASK && action.donor == 2;
	ok(asked == LEASES_JOINS_MAX, "the donor without replicas is asked for %u slabs at a time", asked);
	world_close(&world);
}

/* Chunks with two of three replicas, and one chunk with a single replica. */
static void chunk_with_one_replica_is_rebuilt_first(void)
{
	const struct chunk_slot two[FAR_REPLICAS_MAX] = {
	    {.donor = 0, .slab = 1}, {.donor = 1, .slab = 2}, {.state = SLOT_EMPTY}};
	const struct chunk_slot one[FAR_REPLICAS_MAX] = {
	    {.donor = 2, .slab = 3}, {.state = SLOT_EMPTY}, {.state = SLOT_EMPTY}};
	struct leases_action action;
	struct chunk_view view;
	struct world world;

	world_open(&world, CHUNKS, 4, 3, 1);
	for (unsigned i = 0; i < 3; i++)
		leases_donor_heard(&world.leases, i, 0);
	leases_donor_heard(&world.leases, 3, CHUNKS * SLAB);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		chunk_hold(&world.table, i, 1, &view);
		chunk_publish(&world.table, i, i == CHUNKS - 1 ? one : two);
		chunk_hold(&world.table, i, 1, &view);
	}
	world.leases.lacking = true;
	leases_tick(&world.leases, 1);
	ok(world_next(&world, &action) && action.kind == LEASES_ASK && world.leases.joins[0].chunk == CHUNKS - 1,
	   "a chunk with a single replica is rebuilt before chunks with two of three");
	ok(world_next(&world, &action) && action.kind == LEASES_ASK && world.leases.joins[1].chunk == 0,
	   "chunks with two of three replicas are rebuilt next");
	while (world.leases.joins[0].state == JOIN_ASKING && world.leases.joins[0].chunk == CHUNKS - 1)
		leases_denied(&world.leases, world.leases.joins[0].slot.donor, world.leases.joins[0].request, 2);
	leases_tick(&world.leases, 2 + PAUSE);
	ok(world.leases.joins[0].state == JOIN_ASKING && world.leases.joins[0].chunk == 1,
	   "the next chunk is rebuilt when no donor has room for the first");
	world_close(&world);
}

/* --- Histories ------------------------------------------------------------------------------------------------ */

#define DONORS 4u
#define STEPS 3000u
#define MAIL 256u
#define SLABS_EVER (1u << 16)

/* A donor as the planner sees it: messages in order, and a number of slabs. */
struct model_donor {
	bool dead, away;
	unsigned slabs, free;
	bool out[SLABS_EVER];         /* slabs lent, by name */
	bool taken[SLABS_EVER];       /* taken back without a release */
	bool recalled[SLABS_EVER];    /* recalled at some time */
	bool known[SLABS_EVER];       /* recalled while a chunk had the slab */
	uint64_t until[SLABS_EVER];   /* deadline of the recall, or 0 for none */
	uint64_t first;               /* the oldest slab that may be recalled */
	uint32_t content[SLABS_EVER]; /* the last write of a chunk that reached the slab */
	bool claiming;
	uint64_t next_slab;
	struct leases_action mail[MAIL];
	unsigned head, tail;
};

struct model {
	struct world world;
	struct random_state random;
	struct model_donor donors[DONORS];
	unsigned replicas;
	uint64_t now;
	unsigned held[CHUNKS]; /* pages a queue holds in this epoch */
	uint32_t epochs[CHUNKS];
	uint32_t written[CHUNKS], known[CHUNKS], write; /* the last write, and its epoch */
	enum leases_action_kind jobs[LEASES_JOINS_MAX]; /* LEASES_ASK (0) for none */
	uint32_t job_chunks[LEASES_JOINS_MAX], job_epochs[LEASES_JOINS_MAX], job_donors[LEASES_JOINS_MAX];
	unsigned filled, moved, taken;
	unsigned wrong;
};

static void model_collect(struct model *model)
{
	struct leases_action action;

	while (world_next(&model->world, &action)) {
		struct model_donor *donor = &model->donors[action.donor];

		if (action.kind == LEASES_FILL || action.kind == LEASES_DRAIN) {
			model->wrong += model->jobs[action.request] != LEASES_ASK;
			model->jobs[action.request] = action.kind;
			model->job_chunks[action.request] = action.chunk;
			model->job_epochs[action.request] = action.epoch;
			model->job_donors[action.request] = action.donor;
			continue;
		}
		if (action.kind == LEASES_LACKING || action.kind == LEASES_WHOLE)
			continue;
		model->wrong += donor->dead || donor->away;
		model->wrong += donor->tail - donor->head >= MAIL;
		donor->mail[donor->tail++ % MAIL] = action;
	}
}

static void model_answer(struct model *model, unsigned index)
{
	struct model_donor *donor = &model->donors[index];
	struct leases *leases = &model->world.leases;
	struct leases_action action;

	if (donor->dead || donor->away || donor->head == donor->tail)
		return;
	action = donor->mail[donor->head++ % MAIL];
	if (action.kind == LEASES_RELEASE) {
		/*
		 * The donor denies the release of a slab that it has taken or recalled meanwhile. A denial ends the
		 * release, too.
		 */
		model->wrong += !donor->out[action.slab] && !donor->taken[action.slab] && !donor->recalled[action.slab];
		model->moved += donor->out[action.slab] && donor->until[action.slab];
		donor->free += donor->out[action.slab];
		donor->out[action.slab] = false;
		leases_donor_heard(leases, index, donor->free * (uint64_t)SLAB);
		leases_released(leases, index);
	} else if (donor->free) {
		struct chunk_slot slot = {.address = donor->next_slab << 20, .rkey = index, .slab = donor->next_slab};

		donor->out[donor->next_slab++] = true;
		donor->free--;
		leases_donor_heard(leases, index, donor->free * (uint64_t)SLAB);
		leases_granted(leases, index, action.request, &slot, model->now);
	} else {
		leases_donor_heard(leases, index, 0);
		leases_denied(leases, index, action.request, model->now);
	}
}

/* A READY chunk must lie on different donors, in slabs that are lent, and its FULL slots must have the last write. */
static void model_check_chunk(struct model *model, uint64_t index)
{
	struct chunk_slot slots[FAR_SLOTS_MAX];
	uint64_t donors = 0;
	unsigned full = 0;
	uint32_t epoch;

	if (chunk_state(&model->world.table, index) != CHUNK_READY)
		return;
	chunk_slots(&model->world.table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		const struct model_donor *donor = &model->donors[slots[i].donor];
		bool ours = chunk_epoch(&model->world.table, index, &epoch) && epoch == model->known[index];

		if (slots[i].state == SLOT_EMPTY)
			continue;
		model->wrong += donors >> slots[i].donor & 1;
		donors |= UINT64_C(1) << slots[i].donor;
		model->wrong += donor->dead;
		/* A donor that is away cannot report what it takes. */
		model->wrong += !donor->out[slots[i].slab] && !(donor->away && donor->taken[slots[i].slab]);
		model->wrong += donor->known[slots[i].slab] && donor->until[slots[i].slab] &&
				model->now >= donor->until[slots[i].slab];
		full += slots[i].state == SLOT_FULL;
		if (slots[i].state == SLOT_FULL && ours)
			model->wrong += donor->content[slots[i].slab] != model->written[index];
	}
	model->wrong += !full || full > model->replicas;
}

/* Writes the chunk if all its donors are there. Otherwise reports the chunk as hindered. */
static void model_write(struct model *model, uint64_t index)
{
	struct chunk_table *table = &model->world.table;
	struct chunk_slot slots[FAR_SLOTS_MAX];
	bool away = false, up = false;

	chunk_slots(table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		if (slots[i].state == SLOT_EMPTY)
			continue;
		away |= model->donors[slots[i].donor].away;
		up |= !model->donors[slots[i].donor].away && slots[i].state == SLOT_FULL;
	}
	if (away && up)
		chunk_hinder(table, index);
	if (away)
		return;
	model->written[index] = ++model->write;
	chunk_epoch(table, index, &model->known[index]);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (slots[i].state != SLOT_EMPTY)
			model->donors[slots[i].donor].content[slots[i].slab] = model->write;
}

/* Ends a job of the rebuild thread. */
static void model_work(struct model *model)
{
	struct chunk_table *table = &model->world.table;
	unsigned join = (unsigned)random_below(&model->random, LEASES_JOINS_MAX);
	enum leases_action_kind kind = model->jobs[join];
	struct chunk_slot slots[FAR_SLOTS_MAX];
	uint32_t chunk = model->job_chunks[join], epoch;
	bool good = false;

	model->jobs[join] = LEASES_ASK;
	if (kind == LEASES_DRAIN)
		leases_drained(&model->world.leases, join, model->now);
	if (kind != LEASES_FILL)
		return;
	if (chunk_epoch(table, chunk, &epoch) && epoch == model->job_epochs[join]) {
		chunk_slots(table, chunk, slots);
		for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
			good |= slots[i].state == SLOT_FULL && !model->donors[slots[i].donor].away;
		for (unsigned i = 0; i < FAR_SLOTS_MAX && good; i++)
			if (slots[i].state == SLOT_JOINING && slots[i].donor == model->job_donors[join])
				model->donors[slots[i].donor].content[slots[i].slab] = model->written[chunk];
		good = good && random_below(&model->random, 4);
	}
	model->filled += good;
	leases_filled(&model->world.leases, join, good, model->now);
	model_check_chunk(model, chunk);
}

static void model_queue(struct model *model)
{
	uint64_t index = random_below(&model->random, CHUNKS);
	struct chunk_table *table = &model->world.table;
	struct chunk_view view;
	uint32_t epoch;

	if (!chunk_epoch(table, index, &epoch) || epoch != model->epochs[index])
		model->held[index] = 0;
	if (model->held[index] && random_below(&model->random, 2)) {
		chunk_drop(table, index, model->epochs[index], model->held[index]);
		model->held[index] = 0;
		return;
	}
	if (model->held[index] < CHUNK_PAGES && chunk_hold(table, index, 1, &view) == CHUNK_HELD) {
		model->held[index]++;
		chunk_look_ahead(table, index);
		model->epochs[index] = view.epoch;
		model_check_chunk(model, index);
		model_write(model, index);
	}
}

/* Lets a donor recall a slab, or withdraw the recall. */
static void model_recall(struct model *model, unsigned index)
{
	struct model_donor *donor = &model->donors[index];
	uint64_t slab = donor->first + random_below(&model->random, donor->next_slab - donor->first + 1);

	if (donor->dead || donor->away || !donor->out[slab])
		return;
	donor->recalled[slab] = true;
	if (donor->until[slab] && random_below(&model->random, 2)) {
		donor->until[slab] = 0;
		leases_keep(&model->world.leases, index, slab);
		return;
	}
	donor->until[slab] =
	    random_below(&model->random, 4) ? model->now + 1 + random_below(&model->random, 400) : UINT64_MAX;
	donor->known[slab] = leases_recall(&model->world.leases, index, slab, donor->until[slab], model->now);
}

/* Takes recalled slabs past their deadline, and reports them unless the donor is away. Then their claims are denied. */
static void model_take(struct model *model, unsigned index)
{
	struct model_donor *donor = &model->donors[index];

	while (donor->first < donor->next_slab && !donor->out[donor->first])
		donor->first++;
	for (uint64_t slab = donor->first; slab < donor->next_slab && !donor->dead; slab++) {
		if (!donor->out[slab] || !donor->until[slab] || donor->until[slab] == UINT64_MAX ||
		    model->now < donor->until[slab] + 40)
			continue;
		donor->out[slab] = false;
		donor->taken[slab] = true;
		donor->slabs--; /* the donor's machine has the memory now */
		model->taken++;
		if (!donor->away)
			leases_taken(&model->world.leases, index, slab, model->now);
	}
}

/* Breaks the donor's connections. Some requests under way have reached the donor, and no answer comes back. */
static void model_leave(struct model *model, unsigned index)
{
	struct model_donor *donor = &model->donors[index];

	model_collect(model);
	if (donor->dead || donor->away)
		return;
	while (donor->head != donor->tail && random_below(&model->random, 4)) {
		struct leases_action action = donor->mail[donor->head++ % MAIL];

		if (action.kind == LEASES_RELEASE) {
			donor->free += donor->out[action.slab];
			donor->out[action.slab] = false;
		} else if (donor->free) {
			donor->out[donor->next_slab++] = true;
			donor->free--;
		}
	}
	donor->head = donor->tail;
	donor->away = true;
	leases_donor_away(&model->world.leases, index, model->now);
}

/* Brings the donor back. The donor takes back what is not claimed. */
static void model_return(struct model *model, unsigned index)
{
	struct model_donor *donor = &model->donors[index];
	bool claimed[SLABS_EVER] = {false};
	struct claims claims;
	uint32_t request;
	uint64_t slab;

	if (donor->dead || !donor->away)
		return;
	leases_donor_claiming(&model->world.leases, index, true);
	claims_begin(&claims, &model->world.table, index);
	while (claims_next(&claims, &request, &slab)) {
		/* Writes go on meanwhile, and no slab being claimed is detached. */
		model_queue(model);
		leases_scan(&model->world.leases, model->now);
		model_collect(model);
		if (donor->taken[slab]) {
			model->wrong += claims_denied(&claims, request, &slab) != 0;
			leases_taken(&model->world.leases, index, slab, model->now);
			continue;
		}
		model->wrong += !donor->out[slab] || claimed[slab];
		claimed[slab] = true;
		model->wrong += claims_confirmed(&claims, request, slab, slab << 20, index) != 0;
	}
	if (!random_below(&model->random, 8)) {
		leases_donor_claiming(&model->world.leases, index, false);
		return;
	}
	model->wrong += !claims_over(&claims);
	for (uint64_t i = 0; i < donor->next_slab; i++) {
		donor->free += donor->out[i] && !claimed[i];
		donor->out[i] &= claimed[i];
	}
	donor->away = false;
	leases_donor_back(&model->world.leases, index, claims.held, donor->free * (uint64_t)SLAB, model->now);
}

static void model_kill(struct model *model, unsigned index)
{
	model_collect(model); /* messages to the donor are lost with it */
	if (model->donors[index].dead)
		return;
	model->donors[index].dead = true;
	leases_donor_lost(&model->world.leases, index, model->now);
}

static void model_step(struct model *model)
{
	switch (random_below(&model->random, 9)) {
	case 0:
	case 1:
	case 2:
		model_queue(model);
		break;
	case 3:
	case 4:
		leases_scan(&model->world.leases, model->now);
		break;
	case 5:
		model->now += random_below(&model->random, 40);
		leases_tick(&model->world.leases, model->now);
		leases_recalls_tick(&model->world.leases, model->now);
		for (unsigned i = 0; i < DONORS; i++)
			model_take(model, i);
		break;
	case 6:
		model_work(model);
		break;
	default:
		model_answer(model, (unsigned)random_below(&model->random, DONORS));
		break;
	}
	if (random_below(&model->random, 40) == 0)
		model_recall(model, (unsigned)random_below(&model->random, DONORS));
	if (random_below(&model->random, 500) == 0)
		model_leave(model, (unsigned)random_below(&model->random, DONORS));
	if (random_below(&model->random, 200) == 0)
		model_return(model, (unsigned)random_below(&model->random, DONORS));
	if (random_below(&model->random, 3000) == 0)
		model_kill(model, (unsigned)random_below(&model->random, DONORS));
	model_collect(model);
	model_check_chunk(model, random_below(&model->random, CHUNKS));
}

/* Ends all use: everything is answered, then released. */
static void model_wind_down(struct model *model)
{
	for (unsigned i = 0; i < DONORS; i++)
		while (model->donors[i].away && !model->donors[i].dead)
			model_return(model, i);
	for (uint64_t i = 0; i < CHUNKS; i++) {
		uint32_t epoch;

		if (chunk_epoch(&model->world.table, i, &epoch) && epoch == model->epochs[i] && model->held[i])
			chunk_drop(&model->world.table, i, epoch, model->held[i]);
	}
	for (unsigned i = 0; i < 200; i++) {
		/* A wanted chunk may be granted after its queue has gone, so a queue holds and drops it once. */
		for (uint64_t j = 0; j < CHUNKS; j++) {
			struct chunk_view view;

			if (i < 100 && chunk_state(&model->world.table, j) == CHUNK_READY &&
			    chunk_hold(&model->world.table, j, 1, &view) == CHUNK_HELD)
				chunk_drop(&model->world.table, j, view.epoch, 1);
		}
		model->now += IDLE;
		leases_scan(&model->world.leases, model->now);
		leases_tick(&model->world.leases, model->now);
		leases_recalls_tick(&model->world.leases, model->now);
		model_collect(model);
		for (unsigned j = 0; j < DONORS; j++) {
			model_take(model, j);
			model_answer(model, j);
		}
		model_work(model);
		model_collect(model);
	}
}

static bool history(uint64_t seed, unsigned replicas, unsigned *filled, unsigned *moved, unsigned *taken)
{
	static struct model model;
	bool good = true;

	memset(&model, 0, sizeof model);
	random_seed(&model.random, seed);
	model.replicas = replicas;
	world_open(&model.world, CHUNKS, DONORS, replicas, seed);
	for (unsigned i = 0; i < DONORS; i++) {
		model.donors[i].slabs = model.donors[i].free = (unsigned)random_below(&model.random, 20);
		leases_donor_heard(&model.world.leases, i, model.donors[i].free * (uint64_t)SLAB);
	}
	for (unsigned i = 0; i < STEPS; i++)
		model_step(&model);
	model_wind_down(&model);
	for (unsigned i = 0; i < DONORS; i++) {
		const struct leases_donor *known = &model.world.leases.donors[i];

		if (model.donors[i].dead)
			continue;
		good &=
		    model.donors[i].free == model.donors[i].slabs && !known->held && !known->waiting && !known->asked;
	}
	for (uint64_t i = 0; i < CHUNKS; i++)
		good &= chunk_state(&model.world.table, i) == CHUNK_NONE;
	if (!good || model.wrong)
		printf("# seed %llu, replicas %u: wrong %u\n", (unsigned long long)seed, replicas, model.wrong);
	*filled += model.filled;
	*moved += model.moved;
	*taken += model.taken;
	world_close(&model.world);
	return good && !model.wrong;
}

/* A chunk whose checksums have no memory does not ask for a slab. */
static void chunk_without_memory_for_checksums_is_denied(void)
{
	static const uint8_t secret[INTEGRITY_SECRET_SIZE];
	uint64_t generations = (uint64_t)getpagesize(), sums = generations * 4; /* beyond the file's end */
	int file = memfd_create("leases", MFD_CLOEXEC);
	struct leases_action action;
	struct world world;
	uint8_t *base;

	world_open(&world, CHUNKS, 1, 1, 1);
	integrity_close(&world.integrity);
	base = mmap(NULL, generations + sums, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (ftruncate(file, (off_t)generations) < 0)
		abort();
	integrity_place(&world.integrity, CHUNKS * CHUNK_PAGES, (_Atomic uint16_t *)base,
			(_Atomic uint64_t *)(base + generations), NULL, secret);
	leases_donor_heard(&world.leases, 0, 10 * SLAB);
	want(&world, 3, 0);
	ok(!world_next(&world, &action) && chunk_state(&world.table, 3) == CHUNK_NONE &&
	       world.table.chunks[3].denial == -ENOMEM,
	   "a chunk without memory for its checksums is denied with -ENOMEM");
	if (ftruncate(file, (off_t)(generations + sums)) < 0)
		abort();
	ok(want(&world, 3, 1) && world_next(&world, &action) && action.kind == LEASES_ASK,
	   "a denied chunk asks for a slab once there is memory for its checksums");
	world_close(&world);
	munmap(base, generations + sums);
	close(file);
}

int main(void)
{
	granted_slab_is_released_after_its_idle_time();
	chunk_is_denied_after_every_donor_denied();
	answers_without_a_request_are_refused();
	late_grant_is_released();
	idle_slab_serves_another_chunk();
	lost_donor_takes_its_pages_along();
	slab_asked_ahead_serves_the_first_chunk_in_need();
	chunk_without_memory_for_checksums_is_denied();
	hindered_chunks_detach_after_the_claims();
	chunk_with_one_replica_is_rebuilt_first();
	for (unsigned replicas = 1; replicas <= FAR_REPLICAS_MAX; replicas++) {
		unsigned bad = 0, filled = 0, moved = 0, taken = 0;

		for (uint64_t seed = 0; seed < 200; seed++)
			bad += !history(seed, replicas, &filled, &moved, &taken);
		ok(!bad, "%u replicas: every slab is back at its donor after each of 200 histories", replicas);
		ok(filled > 100 && moved > 100 && taken > 100,
		   "%u replicas were rebuilt, %u recalled slabs were released, %u were taken", filled, moved, taken);
	}
	return tap_done();
}
