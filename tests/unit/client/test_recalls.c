/* leases: slabs that their donors want back, each case in its own test. */
#include "tests/tap.h"
#include "tests/unit/client/leases_world.h"

#define CHUNKS 8u

static struct world world;

static void donors_open(unsigned donors, unsigned replicas)
{
	world_open(&world, CHUNKS, donors, replicas, 1);
	for (unsigned i = 0; i < donors; i++)
		leases_donor_heard(&world.leases, i, 10 * SLAB);
}

static bool next_is(enum leases_action_kind kind, struct leases_action *action)
{
	return world_next(&world, action) && action->kind == kind;
}

static bool quiet(void)
{
	struct leases_action action;

	return !world_next(&world, &action);
}

/* A chunk with a page in it: which donors have its slabs, a bit each; slabs are named 100 + chunk. */
static unsigned chunk_make(uint32_t chunk)
{
	struct chunk_slot slot = {.address = 4096, .rkey = 1, .slab = 100 + chunk};
	struct leases_action action;
	struct chunk_view view;
	unsigned donors = 0;

	chunk_hold(&world.table, chunk, 1, &view);
	leases_scan(&world.leases, 0);
	while (world_next(&world, &action) && action.kind == LEASES_ASK) {
		slot.donor = action.donor;
		leases_granted(&world.leases, action.donor, action.request, &slot, 0);
		donors |= 1u << action.donor;
	}
	chunk_hold(&world.table, chunk, 1, &view);
	return donors;
}

static void page_write(uint64_t page)
{
	static const uint64_t data[4096 / 8] = {1};

	integrity_prepare(&world.integrity, page, data);
	integrity_commit(&world.integrity, page, 1);
}

static int lowest(unsigned donors)
{
	return __builtin_ctz(donors);
}

/* Donors with a FULL slot of the chunk. */
static unsigned full(uint32_t chunk)
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

/* The donor that is asked for a slab in place of the one recalled grants it: the join to be filled; -1: it did not come
   to that. */
static int join(uint64_t now, unsigned *ret_donor)
{
	struct chunk_slot slot = {.address = 8192, .rkey = 2, .slab = 200};
	struct leases_action action;

	leases_tick(&world.leases, now);
	if (!next_is(LEASES_ASK, &action))
		return -1;
	*ret_donor = slot.donor = action.donor;
	leases_granted(&world.leases, action.donor, action.request, &slot, now);
	while (world_next(&world, &action))
		if (action.kind == LEASES_FILL)
			return (int)action.request;
	return -1;
}

static void test_moved(unsigned replicas)
{
	struct leases_action action;
	unsigned before, to, from;
	int filled;

	donors_open(replicas + 1, replicas);
	before = chunk_make(3);
	from = (unsigned)lowest(before);
	ok(leases_recall(&world.leases, from, 103, 1000, 10), "%u replicas: a slab is wanted back", replicas);
	ok(leases_recalls_due(&world.leases) == 1000, "until then");
	filled = join(10, &to);
	ok(filled >= 0 && !(before >> to & 1), "another donor is asked, and its slab filled");
	ok(full(3) == before, "which is not used before");
	leases_filled(&world.leases, (unsigned)filled, true, 20);
	ok(full(3) == ((before & ~(1u << from)) | 1u << to), "then it is, in place of the other");
	ok(next_is(LEASES_DRAIN, &action) && (int)action.request == filled && quiet(),
	   "which goes back when nothing is under way to it any more");
	leases_drained(&world.leases, (unsigned)filled, 30);
	ok(next_is(LEASES_RELEASE, &action) && action.donor == from && action.slab == 103 && quiet(), "then it does");
	ok(!leases_recalls_tick(&world.leases, 5000) && full(3) && leases_recalls_due(&world.leases) == UINT64_MAX,
	   "and the deadline is over with");
	ok(chunk_replicas_missing(&world.table, 3) == 0 && quiet(), "the chunk lacks nothing");
	world_close(&world);
}

static void test_too_late(void)
{
	struct leases_action action;
	unsigned to;
	int filled;

	donors_open(2, 1);
	leases_recall(&world.leases, (unsigned)lowest(chunk_make(3)), 103, 1000, 10);
	page_write(3 * CHUNK_PAGES);
	filled = join(10, &to);
	ok(!leases_recalls_tick(&world.leases, 999) && full(3), "up to the deadline a slab is used");
	ok(leases_recalls_tick(&world.leases, 1000) == 1 && chunk_state(&world.table, 3) == CHUNK_NONE,
	   "past it, not: its pages are lost, if there is no other replica");
	leases_filled(&world.leases, (unsigned)filled, true, 1001);
	ok(next_is(LEASES_DRAIN, &action), "what was half filled");
	leases_drained(&world.leases, (unsigned)filled, 1002);
	ok(next_is(LEASES_RELEASE, &action) && action.donor == to && action.slab == 200 && quiet(),
	   "goes back; what was recalled, its donor takes");
	ok(!leases_taken(&world.leases, !to, 103, 1100) && quiet(), "which it says, when nobody minds");
	world_close(&world);
}

static void test_other_replica(void)
{
	unsigned before, from;

	donors_open(2, 2);
	before = chunk_make(3);
	from = (unsigned)lowest(before);
	page_write(3 * CHUNK_PAGES);
	leases_recall(&world.leases, from, 103, 1000, 10);
	ok(leases_recalls_tick(&world.leases, 1000) == 0 && full(3) == (before & ~(1u << from)),
	   "past the deadline the other replica goes on");
	ok(chunk_replicas_missing(&world.table, 3) == 1, "alone");
	world_close(&world);

	donors_open(2, 2);
	before = chunk_make(3);
	from = (unsigned)lowest(before);
	ok(leases_taken(&world.leases, from, 103, 10) == 0 && full(3) == (before & ~(1u << from)),
	   "and likewise when a donor just takes it");
	ok(leases_taken(&world.leases, from, 103, 10) == 0 && full(3), "said twice");
	world_close(&world);
}

/* The donor of the slab goes away before its pages are elsewhere: when it is back it takes back what is not claimed. */
static void test_moved_away(void)
{
	struct leases_action action;
	unsigned from, to;
	int filled;

	donors_open(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	leases_recall(&world.leases, from, 103, UINT64_MAX, 10);
	filled = join(10, &to);
	leases_donor_away(&world.leases, from, 20);
	leases_filled(&world.leases, (unsigned)filled, true, 30);
	ok(next_is(LEASES_DRAIN, &action) && full(3) == 1u << to && !world.leases.donors[from].held,
	   "a slab is moved while its donor is away: it is not ours any more");
	leases_donor_back(&world.leases, from, 0, 10 * SLAB, 40);
	leases_drained(&world.leases, (unsigned)filled, 50);
	ok(quiet() && !world.leases.donors[from].held, "and is not given back once more when that is back");
	world_close(&world);

	donors_open(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	leases_recall(&world.leases, from, 103, UINT64_MAX, 10);
	filled = join(10, &to);
	leases_donor_away(&world.leases, from, 20);
	leases_donor_claiming(&world.leases, from, true);
	leases_filled(&world.leases, (unsigned)filled, true, 30);
	ok(quiet() && full(3) == (1u << from | 1u << to), "while slabs are claimed none of theirs goes");
	leases_donor_claiming(&world.leases, from, false);
	leases_donor_back(&world.leases, from, 1, 10 * SLAB, 40);
	leases_tick(&world.leases, 50);
	ok(next_is(LEASES_DRAIN, &action) && full(3) == 1u << to, "then it does");
	leases_drained(&world.leases, action.request, 60);
	ok(next_is(LEASES_RELEASE, &action) && action.slab == 103 && quiet() && !world.leases.donors[from].held,
	   "and goes back");
	world_close(&world);
}

/* The donor goes away, is undrained meanwhile, and comes back: what it wants back it would say anew. */
static void test_reclaimed(void)
{
	unsigned from;

	donors_open(1, 1);
	from = (unsigned)lowest(chunk_make(3));
	page_write(3 * CHUNK_PAGES);
	leases_recall(&world.leases, from, 103, 1000, 10);
	leases_donor_away(&world.leases, from, 20);
	leases_donor_claiming(&world.leases, from, true);
	leases_recall_void(&world.leases, 3, 0);
	leases_donor_back(&world.leases, from, 1, 10 * SLAB, 30);
	ok(!leases_recalls_tick(&world.leases, 5000) && full(3) == 1u << from && !leases_recalling(&world.leases),
	   "a slab that its donor does not want back any more is not left at the old deadline");
	world_close(&world);
}

/* A slab's replacement is full while its donor is claimed from; then it may stay after all: the chunk has one too many.
 */
static void test_spare(unsigned replicas, bool mates)
{
	struct leases_action action;
	unsigned before, from, to, all;
	int filled;

	donors_open(replicas + 3, replicas);
	before = chunk_make(3);
	from = (unsigned)lowest(before);
	leases_recall(&world.leases, from, 103, UINT64_MAX, 10);
	filled = join(10, &to);
	if (mates) {
		domains_name(&world.leases.domains, from, "rack1");
		domains_name(&world.leases.domains, to, "rack1");
	}
	all = before | 1u << to;
	leases_donor_away(&world.leases, from, 20);
	leases_donor_claiming(&world.leases, from, true);
	leases_filled(&world.leases, (unsigned)filled, true, 30);
	leases_tick(&world.leases, UINT64_C(2000000000));
	ok(quiet() && full(3) == all, "%u replicas and one too many: no other donor is asked for one more", replicas);
	leases_donor_claiming(&world.leases, from, false);
	leases_donor_back(&world.leases, from, 1, 10 * SLAB, UINT64_C(2000000001));
	leases_keep(&world.leases, from, 103);
	for (unsigned i = 0; i < replicas + 3; i++)
		if (i != from && i != to)
			leases_donor_away(&world.leases, i, UINT64_C(2000000001));
	leases_donor_away(&world.leases, to, UINT64_C(2000000001));
	leases_tick(&world.leases, UINT64_C(2000000002));
	ok(quiet() && full(3) == all, "the only one that can be read does not go");
	for (unsigned i = 0; i < replicas + 3; i++)
		leases_donor_back(&world.leases, i, all >> i & 1, 10 * SLAB, UINT64_C(4000000000));
	leases_tick(&world.leases, UINT64_C(4000000000));
	ok(next_is(LEASES_DRAIN, &action) && __builtin_popcount(full(3)) == (int)replicas,
	   "one goes, although none is wanted back any more");
	ok(!mates || __builtin_popcount(full(3) & (1u << from | 1u << to)) == 1, "%s",
	   mates ? "of those that would fail together" : "whichever");
	leases_drained(&world.leases, action.request, UINT64_C(4000000001));
	ok(next_is(LEASES_RELEASE, &action) && !(full(3) >> action.donor & 1), "and is given back");
	leases_tick(&world.leases, UINT64_C(8000000000));
	ok(quiet(), "and that is all");
	world_close(&world);
}

/* The two donors that have the chunk are found to fail together. */
static void test_mates(void)
{
	struct leases_action action;
	unsigned before, to;
	int filled;

	donors_open(3, 2);
	before = chunk_make(3);
	for (unsigned i = 0; i < 3; i++)
		leases_donor_named(&world.leases, i, before >> i & 1 ? "rack1" : "rack2");
	ok(!chunk_replicas_missing(&world.table, 3), "a chunk has as many replicas as it should, in one rack");
	filled = join(10, &to);
	ok(filled >= 0 && !(before >> to & 1), "a donor in another is asked for one more");
	leases_filled(&world.leases, (unsigned)filled, true, 20);
	ok(next_is(LEASES_DRAIN, &action) && full(3) >> to & 1 && __builtin_popcount(full(3)) == 2,
	   "which takes the place of one of them");
	leases_drained(&world.leases, action.request, 30);
	ok(next_is(LEASES_RELEASE, &action) && before >> action.donor & 1, "that goes back");
	leases_tick(&world.leases, UINT64_C(9000000000));
	ok(quiet(), "and that is all");
	world_close(&world);

	donors_open(2, 2);
	before = chunk_make(3);
	for (unsigned i = 0; i < 2; i++)
		leases_donor_named(&world.leases, i, "rack1");
	leases_tick(&world.leases, 10);
	ok(quiet() && full(3) == before, "if all donors are in one rack it stays there");
	world_close(&world);
}

/* A chunk that lacks a replica gets one: what is recalled is no less needed. */
static void test_lacking(void)
{
	struct leases_action action;
	unsigned to;
	int filled;

	donors_open(2, 2);
	chunk_make(3);
	leases_donor_lost(&world.leases, 1, 10);
	leases_recall(&world.leases, 0, 103, UINT64_MAX, 10);
	leases_donor_back(&world.leases, 1, 0, 10 * SLAB, 20);
	filled = join(20, &to);
	ok(filled >= 0 && to == 1 && full(3) == 1, "the only replica there is left is recalled, and another one made");
	leases_filled(&world.leases, (unsigned)filled, true, 30);
	ok(full(3) == 3 && quiet(), "both stay, for there is no third donor");
	leases_keep(&world.leases, 0, 103);
	ok(!chunk_replicas_missing(&world.table, 3) && !leases_recalling(&world.leases), "and may");
	leases_recall(&world.leases, 0, 103, 1000, 40);
	ok(!leases_recalls_tick(&world.leases, 1000) && full(3) == 2 && !next_is(LEASES_RELEASE, &action),
	   "at a deadline it is left");
	world_close(&world);
}

static void test_kept(void)
{
	struct leases_action action;
	unsigned from;

	donors_open(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	leases_recall(&world.leases, from, 103, 1000, 10);
	leases_keep(&world.leases, from, 103);
	leases_tick(&world.leases, 10);
	ok(quiet() && !leases_recalls_tick(&world.leases, 2000) && full(3) == 1u << from, "what may stay does");
	ok(!leases_recall(&world.leases, from, 999, 1000, 10) && next_is(LEASES_RELEASE, &action) &&
	       action.slab == 999 && quiet(),
	   "what we do not have its donor can have");
	leases_released(&world.leases, from);
	leases_recall(&world.leases, from, 103, UINT64_MAX, 2000);
	ok(!leases_recalls_tick(&world.leases, UINT64_MAX - 1) && full(3) == 1u << from,
	   "without a deadline it is never left");
	world_close(&world);
}

/* A donor is started again, and its slabs have the names that they had: what it wanted back before is nothing now. */
static void test_same_name(unsigned replicas)
{
	struct chunk_slot slot = {.address = 8192, .rkey = 2, .slab = 103};
	struct leases_action action;
	unsigned before, to;

	donors_open(replicas, replicas);
	before = chunk_make(3);
	leases_recall(&world.leases, 0, 103, 1000, 10);
	leases_donor_lost(&world.leases, 0, 20);
	leases_donor_back(&world.leases, 0, 0, 10 * SLAB, 30);
	if (replicas == 1) {
		to = chunk_make(3);
	} else {
		leases_tick(&world.leases, 30);
		while (world_next(&world, &action) && action.kind != LEASES_ASK)
			;
		slot.donor = to = action.donor;
		leases_granted(&world.leases, to, action.request, &slot, 40);
		while (world_next(&world, &action) && action.kind != LEASES_FILL)
			;
		leases_filled(&world.leases, action.request, true, 50);
		to = full(3);
	}
	ok(to == before && full(3) == before, "%u replicas: a donor that began anew grants a slab of the same name",
	   replicas);
	ok(!leases_recalling(&world.leases) && !leases_recalls_tick(&world.leases, 1000) && full(3) == before,
	   "which is not wanted back");
	world_close(&world);
}

/* A drain has no deadline: what it wanted is over with when nothing of it is left. */
static void test_over(void)
{
	unsigned to;
	int filled;

	donors_open(2, 1);
	leases_recall(&world.leases, (unsigned)lowest(chunk_make(3)), 103, UINT64_MAX, 10);
	ok(leases_recalling(&world.leases) && world.leases.recalled, "what is wanted back is looked for");
	filled = join(10, &to);
	leases_filled(&world.leases, (unsigned)filled, true, 20);
	ok(!leases_recalling(&world.leases) && !world.leases.recalled, "until it has been moved");
	world_close(&world);
}

/* A donor comes back for which wants have waited, and so has what is idle and wanted back: all goes on at once. */
static void test_many(void)
{
	const uint32_t idle = LEASES_ACTIONS;
	unsigned asks = 0, releases = 0;
	struct leases_action action;
	struct chunk_view view;

	world_open(&world, idle + LEASES_WANTS_MAX, 2, 1, 1);
	leases_donor_heard(&world.leases, 0, 0);
	leases_donor_heard(&world.leases, 1, idle * SLAB);
	for (uint32_t i = 0; i < idle; i++)
		chunk_make(i);
	for (uint32_t i = 0; i < idle; i++) {
		uint32_t epoch = 0;

		chunk_epoch(&world.table, i, &epoch);
		chunk_drop(&world.table, i, epoch, 1);
		leases_scan(&world.leases, 0);
		leases_recall(&world.leases, 1, 100 + i, UINT64_MAX, 0);
	}
	leases_donor_away(&world.leases, 0, 10);
	for (uint32_t i = 0; i < LEASES_WANTS_MAX; i++) {
		chunk_hold(&world.table, idle + i, 1, &view);
		leases_scan(&world.leases, 10);
		while (world_next(&world, &action))
			leases_denied(&world.leases, action.donor, action.request, 10);
	}
	leases_donor_back(&world.leases, 0, 0, 100 * SLAB, 20);
	while (world_next(&world, &action)) {
		asks += action.kind == LEASES_ASK && action.donor == 0;
		releases += action.kind == LEASES_RELEASE && action.donor == 1;
	}
	ok(asks == LEASES_WANTS_MAX && releases > 100 && releases < LEASES_ACTIONS,
	   "%u wants go on while %u of %u idle slabs go back", asks, releases, idle);
	world_close(&world);
}

/* The chunk's only slab is recalled, and no other donor has room for it: whether it leaves for the backup. */
static bool leaves(uint32_t chunk, unsigned donor, uint64_t now, struct leases_action *ret_leave)
{
	struct leases_action action;

	world.leases.config.backup = true;
	leases_recall(&world.leases, donor, 100 + chunk, 9000, now);
	leases_tick(&world.leases, now);
	if (!next_is(LEASES_ASK, &action) || !quiet())
		return false;
	leases_denied(&world.leases, action.donor, action.request, now);
	return next_is(LEASES_LEAVE, ret_leave) && ret_leave->chunk == chunk && chunk_is_leaving(&world.table, chunk);
}

static void test_leaves(void)
{
	struct leases_action leave, action;
	uint32_t version;
	unsigned from;

	donors_open(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	ok(leaves(3, from, 10, &leave) && quiet(), "with a backup, a chunk that nobody has room for leaves for it");
	ok(full(3) == 1u << from && chunk_pages_held(&world.table, 3) == 2, "being where it was, and held, meanwhile");
	version = chunk_version(&world.table, 3);
	chunk_drop(&world.table, 3, leave.epoch, 1);
	leases_left(&world.leases, leave.request, true, 20);
	ok(next_is(LEASES_DRAIN, &action) && action.request == leave.request && quiet() &&
	       chunk_version(&world.table, 3) != version && full(3),
	   "empty, it waits until nothing is under way to its slab");
	leases_drained(&world.leases, action.request, 30);
	ok(next_is(LEASES_RELEASE, &action) && action.donor == from && action.slab == 103 && quiet() &&
	       chunk_state(&world.table, 3) == CHUNK_NONE && !chunk_is_leaving(&world.table, 3),
	   "then that goes back");
	ok(!leases_recalls_tick(&world.leases, 9000), "and the deadline is over with");
	world_close(&world);
}

static void test_leaves_in_vain(void)
{
	struct leases_action leave, action;
	unsigned from;

	donors_open(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	leaves(3, from, 10, &leave);
	leases_left(&world.leases, leave.request, false, 20);
	ok(quiet() && full(3) && !chunk_is_leaving(&world.table, 3) && chunk_pages_held(&world.table, 3) == 1,
	   "a disk that refuses it: it stays");
	leases_tick(&world.leases, 30);
	ok(quiet(), "for a while");
	leases_tick(&world.leases, 2000000000);
	ok(next_is(LEASES_ASK, &action), "then donors are asked once more");
	leases_denied(&world.leases, action.donor, action.request, 2000000000);
	ok(next_is(LEASES_LEAVE, &leave) && quiet(), "and it leaves");
	leases_left(&world.leases, leave.request, true, 2000000001);
	next_is(LEASES_DRAIN, &action);
	leases_drained(&world.leases, action.request, 2000000002);
	ok(quiet() && full(3) && !chunk_is_leaving(&world.table, 3),
	   "one that is not empty all the same stays as well");
	world_close(&world);
}

/* Its donor takes the slab, or dies, while it leaves. */
static void test_leaves_lost(void)
{
	struct leases_action leave;
	unsigned from;

	for (unsigned dies = 0; dies < 2; dies++) {
		donors_open(2, 1);
		world.integrity.keeps = true;
		from = (unsigned)lowest(chunk_make(3));
		page_write(3 * CHUNK_PAGES);
		leaves(3, from, 10, &leave);
		ok(!(dies ? leases_donor_lost(&world.leases, from, 20) : leases_recalls_tick(&world.leases, 9000)) &&
		       chunk_state(&world.table, 3) == CHUNK_NONE && !chunk_is_leaving(&world.table, 3) &&
		       world.integrity.kept == 1,
		   "its donor %s: what was not moved is kept", dies ? "dies" : "takes it");
		leases_left(&world.leases, leave.request, false, 9001);
		ok(quiet() && chunk_state(&world.table, 3) == CHUNK_NONE, "and that is all");
		world_close(&world);
	}
}

/* Its donor was away, and is being claimed from, when nothing is under way to it any more. */
static void test_leaves_claimed(void)
{
	struct leases_action leave, action;
	unsigned from;

	donors_open(1, 1);
	from = (unsigned)lowest(chunk_make(3));
	world.leases.config.backup = true;
	leases_recall(&world.leases, from, 103, UINT64_MAX, 10);
	leases_tick(&world.leases, 10);
	next_is(LEASES_LEAVE, &leave);
	chunk_drop(&world.table, 3, leave.epoch, 1);
	leases_left(&world.leases, leave.request, true, 20);
	next_is(LEASES_DRAIN, &action);
	leases_donor_away(&world.leases, from, 30);
	leases_donor_claiming(&world.leases, from, true);
	leases_drained(&world.leases, action.request, 40);
	leases_tick(&world.leases, 50 + IDLE);
	ok(quiet() && full(3) == 1u << from, "left while its donor is claimed from, a chunk keeps its slab for now");
	leases_donor_claiming(&world.leases, from, false);
	leases_donor_back(&world.leases, from, 1, 10 * SLAB, 60 + IDLE);
	leases_tick(&world.leases, 60 + 2 * IDLE);
	ok(next_is(LEASES_RELEASE, &action) && action.slab == 103 && quiet() && !full(3), "then it goes back");
	world_close(&world);
}

/* Another replica stays, or there is no backup. */
static void test_leaves_not(void)
{
	struct leases_action action;
	unsigned donors;

	donors_open(2, 2);
	donors = chunk_make(3);
	world.leases.config.backup = true;
	leases_recall(&world.leases, 0, 103, UINT64_MAX, 10);
	leases_tick(&world.leases, 10);
	ok(quiet() && full(3) == donors, "with another replica that stays it does not leave");
	leases_recall(&world.leases, 1, 103, UINT64_MAX, 20);
	leases_tick(&world.leases, 20);
	ok(next_is(LEASES_LEAVE, &action) && quiet(), "unless that is wanted back, too");
	world_close(&world);
	donors_open(1, 1);
	chunk_make(3);
	leases_recall(&world.leases, 0, 103, UINT64_MAX, 10);
	leases_tick(&world.leases, 10);
	ok(quiet() && full(3) == 1, "nor without a backup");
	world_close(&world);
}

int main(void)
{
	test_moved(1);
	test_moved(2);
	test_too_late();
	test_other_replica();
	test_moved_away();
	test_reclaimed();
	test_spare(1, false);
	test_spare(1, true);
	test_spare(2, true);
	test_spare(3, true);
	test_mates();
	test_lacking();
	test_kept();
	test_same_name(1);
	test_same_name(2);
	test_over();
	test_many();
	test_leaves();
	test_leaves_in_vain();
	test_leaves_lost();
	test_leaves_claimed();
	test_leaves_not();
	return tap_done();
}
