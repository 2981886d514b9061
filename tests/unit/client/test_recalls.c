/* leases: slabs that their donors recall, one case a test. */
#include "client/lease/internal.h"
#include "tests/lib/tap.h"
#include "tests/unit/client/leases_world.h"

#define CHUNKS 8u

static void donors_open(unsigned donors, unsigned replicas)
{
	world_open(CHUNKS, donors, replicas, 1);
	for (unsigned i = 0; i < donors; i++)
		leases_donor_heard(&world.leases, i, 10 * SLAB);
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

/* Grants the slab for which a donor is asked. Returns the join to fill, or -1 if there is none. */
static int join(uint64_t now, unsigned *ret_donor)
{
	struct leases_action ask;
	int donor = world_ask(now, &ask);

	*ret_donor = (unsigned)donor;
	return donor < 0 ? -1 : world_join(&ask, 200, now);
}

static void recalled_slab_is_filled_elsewhere_and_released(unsigned replicas)
{
	struct leases_action action;
	unsigned before, to, from;
	int filled;

	donors_open(replicas + 1, replicas);
	before = chunk_make(3);
	from = (unsigned)lowest(before);
	ok(leases_recall(&world.leases, from, 103, 1000, 10), "%u replicas: the recall of a leased slab is accepted",
	   replicas);
	ok(leases_recalls_due(&world.leases) == 1000, "a recall is due at its deadline");
	filled = join(10, &to);
	ok(filled >= 0 && !(before >> to & 1), "a recall makes another donor lend a slab to fill");
	ok(chunk_full(3) == before, "a slab being filled does not count as a replica");
	leases_filled(&world.leases, (unsigned)filled, true, 20);
	ok(chunk_full(3) == ((before & ~(1u << from)) | 1u << to), "a filled slab replaces the recalled one");
	ok(world_next_is(LEASES_DRAIN, &action) && (int)action.request == filled && world_is_quiet(),
	   "a replaced slab is drained first");
	leases_drained(&world.leases, (unsigned)filled, 30);
	ok(world_next_is(LEASES_RELEASE, &action) && action.donor == from && action.slab == 103 && world_is_quiet(),
	   "a drained slab is released to its donor");
	ok(!leases_recalls_tick(&world.leases, 5000) && chunk_full(3) &&
	       leases_recalls_due(&world.leases) == UINT64_MAX,
	   "the deadline of a recall passes without effect after the release");
	ok(chunk_replicas_missing(&world.table, 3) == 0 && world_is_quiet(),
	   "a chunk whose slab was moved lacks no replica");
	world_close();
}

static void deadline_takes_a_slab_before_its_replacement_is_filled(void)
{
	struct leases_action action;
	unsigned to;
	int filled;

	donors_open(2, 1);
	leases_recall(&world.leases, (unsigned)lowest(chunk_make(3)), 103, 1000, 10);
	page_write(3 * CHUNK_PAGES);
	filled = join(10, &to);
	ok(!leases_recalls_tick(&world.leases, 999) && chunk_full(3), "a recalled slab is used up to its deadline");
	ok(leases_recalls_tick(&world.leases, 1000) == 1 && chunk_state(&world.table, 3) == CHUNK_NONE,
	   "a chunk whose only slab passes its deadline loses its pages");
	leases_filled(&world.leases, (unsigned)filled, true, 1001);
	ok(world_next_is(LEASES_DRAIN, &action), "a slab filled for a lost chunk is drained");
	leases_drained(&world.leases, (unsigned)filled, 1002);
	ok(world_next_is(LEASES_RELEASE, &action) && action.donor == to && action.slab == 200 && world_is_quiet(),
	   "a drained slab filled for a lost chunk is released to its donor");
	ok(!leases_taken(&world.leases, !to, 103, 1100) && world_is_quiet(),
	   "a donor that takes a slab past its deadline costs no further page");
	world_close();
}

static void chunk_keeps_its_other_replica_after_a_deadline(void)
{
	unsigned before, from;

	donors_open(2, 2);
	before = chunk_make(3);
	from = (unsigned)lowest(before);
	page_write(3 * CHUNK_PAGES);
	leases_recall(&world.leases, from, 103, 1000, 10);
	ok(leases_recalls_tick(&world.leases, 1000) == 0 && chunk_full(3) == (before & ~(1u << from)),
	   "a chunk keeps its other replica when a slab passes its deadline");
	ok(chunk_replicas_missing(&world.table, 3) == 1, "a chunk that lost a slab to a deadline lacks one replica");
	world_close();

	donors_open(2, 2);
	before = chunk_make(3);
	from = (unsigned)lowest(before);
	ok(leases_taken(&world.leases, from, 103, 10) == 0 && chunk_full(3) == (before & ~(1u << from)),
	   "a chunk keeps its other replica when a donor takes a slab without a deadline");
	ok(leases_taken(&world.leases, from, 103, 10) == 0 && chunk_full(3),
	   "a slab reported as taken twice is detached once");
	world_close();
}

/* A slab's donor goes away before the slab is moved. When the donor is back, it takes back slabs that are not
   claimed. */
static void slab_moved_while_its_donor_is_away_is_released_once(void)
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
	ok(world_next_is(LEASES_DRAIN, &action) && chunk_full(3) == 1u << to && !world.leases.donors[from].held,
	   "a slab moved while its donor is away is no longer held");
	leases_donor_back(&world.leases, from, 0, 10 * SLAB, 40);
	leases_drained(&world.leases, (unsigned)filled, 50);
	ok(world_is_quiet() && !world.leases.donors[from].held,
	   "a slab moved while its donor was away is not released again after the return");
	world_close();

	donors_open(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	leases_recall(&world.leases, from, 103, UINT64_MAX, 10);
	filled = join(10, &to);
	leases_donor_away(&world.leases, from, 20);
	leases_donor_claiming(&world.leases, from, true);
	leases_filled(&world.leases, (unsigned)filled, true, 30);
	ok(world_is_quiet() && chunk_full(3) == (1u << from | 1u << to),
	   "no slab of a donor is detached while its slabs are claimed");
	leases_donor_claiming(&world.leases, from, false);
	leases_donor_back(&world.leases, from, 1, 10 * SLAB, 40);
	leases_tick(&world.leases, 50);
	ok(world_next_is(LEASES_DRAIN, &action) && chunk_full(3) == 1u << to,
	   "a replaced slab is drained after its donor's claims are over");
	leases_drained(&world.leases, action.request, 60);
	ok(world_next_is(LEASES_RELEASE, &action) && action.slab == 103 && world_is_quiet() &&
	       !world.leases.donors[from].held,
	   "a slab drained after claims is released to its donor");
	world_close();
}

/* A returning donor would send its recalls again, so recalls from before are void. */
static void recall_is_forgotten_when_its_donor_returns(void)
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
	ok(!leases_recalls_tick(&world.leases, 5000) && chunk_full(3) == 1u << from && !leases_recalling(&world.leases),
	   "a recall is forgotten when its donor returns, and its old deadline takes no slab");
	world_close();
}

/*
 * A slab is recalled, and its donor goes away and returns. While the client claims its slabs there, a replacement
 * is filled. Then the recall is withdrawn, and one replica is surplus.
 */
static void surplus_replica_is_released_once_all_donors_are_back(unsigned replicas, bool mates)
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
		failure_domains_name(&world.leases.failure_domains, from, "rack1");
		failure_domains_name(&world.leases.failure_domains, to, "rack1");
	}
	all = before | 1u << to;
	leases_donor_away(&world.leases, from, 20);
	leases_donor_claiming(&world.leases, from, true);
	leases_filled(&world.leases, (unsigned)filled, true, 30);
	leases_tick(&world.leases, UINT64_C(2000000000));
	ok(world_is_quiet() && chunk_full(3) == all, "%u replicas and one surplus: no other donor is asked for a slab",
	   replicas);
	leases_donor_claiming(&world.leases, from, false);
	leases_donor_back(&world.leases, from, 1, 10 * SLAB, UINT64_C(2000000001));
	leases_keep(&world.leases, from, 103);
	for (unsigned i = 0; i < replicas + 3; i++)
		if (i != from && i != to)
			leases_donor_away(&world.leases, i, UINT64_C(2000000001));
	leases_donor_away(&world.leases, to, UINT64_C(2000000001));
	leases_tick(&world.leases, UINT64_C(2000000002));
	ok(world_is_quiet() && chunk_full(3) == all, "the only readable replica is not detached as surplus");
	for (unsigned i = 0; i < replicas + 3; i++)
		leases_donor_back(&world.leases, i, all >> i & 1, 10 * SLAB, UINT64_C(4000000000));
	leases_tick(&world.leases, UINT64_C(4000000000));
	ok(world_next_is(LEASES_DRAIN, &action) && __builtin_popcount(chunk_full(3)) == (int)replicas,
	   "one surplus replica is drained once all donors are back, although no recall is left");
	ok(!mates || __builtin_popcount(chunk_full(3) & (1u << from | 1u << to)) == 1,
	   "the surplus replica that is drained is the right one: %s",
	   mates ? "one of two in the same domain" : "any of them");
	leases_drained(&world.leases, action.request, UINT64_C(4000000001));
	ok(world_next_is(LEASES_RELEASE, &action) && !(chunk_full(3) >> action.donor & 1),
	   "a drained surplus replica is released to its donor");
	leases_tick(&world.leases, UINT64_C(8000000000));
	ok(world_is_quiet(), "no action is left once the surplus replica is released");
	world_close();
}

/* The two donors of a chunk turn out to be in one failure domain. */
static void chunk_moves_apart_donors_of_one_domain(void)
{
	struct leases_action action;
	unsigned before, to;
	int filled;

	donors_open(3, 2);
	before = chunk_make(3);
	for (unsigned i = 0; i < 3; i++)
		leases_donor_named(&world.leases, i, before >> i & 1 ? "rack1" : "rack2");
	ok(!chunk_replicas_missing(&world.table, 3), "a chunk with all its replicas in one rack lacks none");
	filled = join(10, &to);
	ok(filled >= 0 && !(before >> to & 1), "a donor in another rack is asked for a slab");
	leases_filled(&world.leases, (unsigned)filled, true, 20);
	ok(world_next_is(LEASES_DRAIN, &action) && chunk_full(3) >> to & 1 && __builtin_popcount(chunk_full(3)) == 2,
	   "a slab filled in another rack replaces one of the two in the same rack");
	leases_drained(&world.leases, action.request, 30);
	ok(world_next_is(LEASES_RELEASE, &action) && before >> action.donor & 1,
	   "a slab replaced by one in another rack is released");
	leases_tick(&world.leases, UINT64_C(9000000000));
	ok(world_is_quiet(), "no action is left once a replica has moved to another rack");
	world_close();

	donors_open(2, 2);
	before = chunk_make(3);
	for (unsigned i = 0; i < 2; i++)
		leases_donor_named(&world.leases, i, "rack1");
	leases_tick(&world.leases, 10);
	ok(world_is_quiet() && chunk_full(3) == before, "a chunk stays where it is if all donors are in one rack");
	world_close();
}

/* Until its deadline, a recalled slab stays a replica of its chunk if no donor is left for another one. */
static void recalled_slab_stays_while_a_replica_is_lacking(void)
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
	ok(filled >= 0 && to == 1 && chunk_full(3) == 1, "a chunk whose only replica is recalled gets another one");
	leases_filled(&world.leases, (unsigned)filled, true, 30);
	ok(chunk_full(3) == 3 && world_is_quiet(), "both replicas stay while no third donor is there");
	leases_keep(&world.leases, 0, 103);
	ok(!chunk_replicas_missing(&world.table, 3) && !leases_recalling(&world.leases),
	   "a withdrawn recall leaves a chunk with both replicas and no recall");
	leases_recall(&world.leases, 0, 103, 1000, 40);
	ok(!leases_recalls_tick(&world.leases, 1000) && chunk_full(3) == 2 && !world_next_is(LEASES_RELEASE, &action),
	   "the slot of a recalled slab is detached at its deadline, and the other replica stays");
	world_close();
}

static void withdrawn_recall_keeps_the_slab(void)
{
	struct leases_action action;
	unsigned from;

	donors_open(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	leases_recall(&world.leases, from, 103, 1000, 10);
	leases_keep(&world.leases, from, 103);
	leases_tick(&world.leases, 10);
	ok(world_is_quiet() && !leases_recalls_tick(&world.leases, 2000) && chunk_full(3) == 1u << from,
	   "a slab whose recall is withdrawn stays past the old deadline");
	ok(!leases_recall(&world.leases, from, 999, 1000, 10) && world_next_is(LEASES_RELEASE, &action) &&
	       action.slab == 999 && world_is_quiet(),
	   "a recalled slab that the client does not hold is released at once");
	leases_released(&world.leases, from);
	leases_recall(&world.leases, from, 103, UINT64_MAX, 2000);
	ok(!leases_recalls_tick(&world.leases, UINT64_MAX - 1) && chunk_full(3) == 1u << from,
	   "a slab recalled without a deadline is never taken");
	world_close();
}

/* A restarted donor reuses the names of slabs. Recalls from before the restart no longer count. */
static void restarted_donors_slab_of_the_same_name_is_not_recalled(unsigned replicas)
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
		while (world_next(&action) && action.kind != LEASES_ASK)
			;
		slot.donor = to = action.donor;
		leases_granted(&world.leases, to, action.request, &slot, 40);
		while (world_next(&action) && action.kind != LEASES_FILL)
			;
		leases_filled(&world.leases, action.request, true, 50);
		to = chunk_full(3);
	}
	ok(to == before && chunk_full(3) == before,
	   "%u replicas: a restarted donor grants a slab of the same name as before", replicas);
	ok(!leases_recalling(&world.leases) && !leases_recalls_tick(&world.leases, 1000) && chunk_full(3) == before,
	   "a slab granted by a restarted donor is not recalled by a recall from before");
	world_close();
}

/* A drain without a deadline is over when no slab is left. */
static void recall_is_over_once_its_slab_is_moved(void)
{
	unsigned to;
	int filled;

	donors_open(2, 1);
	leases_recall(&world.leases, (unsigned)lowest(chunk_make(3)), 103, UINT64_MAX, 10);
	ok(leases_recalling(&world.leases) && world.leases.recalled, "a recalled slab is known as recalled");
	filled = join(10, &to);
	leases_filled(&world.leases, (unsigned)filled, true, 20);
	ok(!leases_recalling(&world.leases) && !world.leases.recalled, "a recall is over once its slab was moved");
	world_close();
}

/* A donor comes back while chunks wait for slabs and idle slabs are recalled. Both must go on at once. */
static void waiting_chunks_and_idle_releases_go_on_together(void)
{
	const uint32_t idle = LEASES_ACTIONS;
	unsigned asks = 0, releases = 0;
	struct leases_action action;
	struct chunk_view view;

	world_open(idle + LEASES_WANTS_MAX, 2, 1, 1);
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
		while (world_next(&action))
			leases_denied(&world.leases, action.donor, action.request, 10);
	}
	leases_donor_back(&world.leases, 0, 0, 100 * SLAB, 20);
	while (world_next(&action)) {
		asks += action.kind == LEASES_ASK && action.donor == 0;
		releases += action.kind == LEASES_RELEASE && action.donor == 1;
	}
	ok(asks == LEASES_WANTS_MAX && releases > 100 && releases < LEASES_ACTIONS,
	   "%u wanted chunks ask for slabs while %u of %u idle slabs are released", asks, releases, idle);
	world_close();
}

/* Recalls the only slab of the chunk while no other donor has room. Returns true if the chunk leaves for the backup. */
static bool leaves(uint32_t chunk, unsigned donor, uint64_t now, struct leases_action *ret_leave)
{
	struct leases_action action;

	world.leases.config.backup = true;
	leases_recall(&world.leases, donor, 100 + chunk, 9000, now);
	leases_tick(&world.leases, now);
	if (!world_next_is(LEASES_ASK, &action) || !world_is_quiet())
		return false;
	leases_denied(&world.leases, action.donor, action.request, now);
	return world_next_is(LEASES_LEAVE, ret_leave) && ret_leave->chunk == chunk &&
	       chunk_is_leaving(&world.table, chunk);
}

static void chunk_without_room_leaves_for_the_backup(void)
{
	struct leases_action leave, action;
	uint32_t version;
	unsigned from;

	donors_open(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	ok(leaves(3, from, 10, &leave) && world_is_quiet(),
	   "a recalled chunk that no donor has room for leaves for the backup");
	ok(chunk_full(3) == 1u << from && chunk_pages_held(&world.table, 3) == 2,
	   "a leaving chunk keeps its slab and its held pages");
	version = chunk_version(&world.table, 3);
	chunk_drop(&world.table, 3, leave.epoch, 1);
	leases_left(&world.leases, leave.request, true, 20);
	ok(world_next_is(LEASES_DRAIN, &action) && action.request == leave.request && world_is_quiet() &&
	       chunk_version(&world.table, 3) != version && chunk_full(3),
	   "a chunk that has left is drained before its slab is released");
	leases_drained(&world.leases, action.request, 30);
	ok(world_next_is(LEASES_RELEASE, &action) && action.donor == from && action.slab == 103 && world_is_quiet() &&
	       chunk_state(&world.table, 3) == CHUNK_NONE && !chunk_is_leaving(&world.table, 3),
	   "the slab of a chunk that has left is released, and the chunk has no state");
	ok(!leases_recalls_tick(&world.leases, 9000),
	   "the deadline of a recall passes without effect after the chunk has left");
	world_close();
}

static void failed_leave_is_retried_after_a_pause(void)
{
	struct leases_action leave, action;
	unsigned from;

	donors_open(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	leaves(3, from, 10, &leave);
	leases_left(&world.leases, leave.request, false, 20);
	ok(world_is_quiet() && chunk_full(3) && !chunk_is_leaving(&world.table, 3) &&
	       chunk_pages_held(&world.table, 3) == 1,
	   "a chunk that the disk refuses stays on its donor");
	leases_tick(&world.leases, 30);
	ok(world_is_quiet(), "a chunk that the disk refused does not leave again before a pause");
	leases_tick(&world.leases, 2000000000);
	ok(world_next_is(LEASES_ASK, &action), "donors are asked for a slab again after a refused leave");
	leases_denied(&world.leases, action.donor, action.request, 2000000000);
	ok(world_next_is(LEASES_LEAVE, &leave) && world_is_quiet(),
	   "a chunk leaves again if donors still have no room");
	leases_left(&world.leases, leave.request, true, 2000000001);
	world_next_is(LEASES_DRAIN, &action);
	leases_drained(&world.leases, action.request, 2000000002);
	ok(world_is_quiet() && chunk_full(3) && !chunk_is_leaving(&world.table, 3),
	   "a chunk that still has held pages after leaving stays on its donor");
	world_close();
}

/* The donor takes the slab, or dies, while the chunk leaves. */
static void chunk_lost_while_leaving_keeps_its_pages_on_the_backup(void)
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
		   "a leaving chunk whose donor %s keeps its pages on the backup", dies ? "dies" : "takes it");
		leases_left(&world.leases, leave.request, false, 9001);
		ok(world_is_quiet() && chunk_state(&world.table, 3) == CHUNK_NONE,
		   "no action is left after a leaving chunk was lost");
		world_close();
	}
}

/* The donor was away, and the client is claiming its slabs there when the chunk is drained. */
static void left_chunk_keeps_its_slab_during_claims(void)
{
	struct leases_action leave, action;
	unsigned from;

	donors_open(1, 1);
	from = (unsigned)lowest(chunk_make(3));
	world.leases.config.backup = true;
	leases_recall(&world.leases, from, 103, UINT64_MAX, 10);
	leases_tick(&world.leases, 10);
	world_next_is(LEASES_LEAVE, &leave);
	chunk_drop(&world.table, 3, leave.epoch, 1);
	leases_left(&world.leases, leave.request, true, 20);
	world_next_is(LEASES_DRAIN, &action);
	leases_donor_away(&world.leases, from, 30);
	leases_donor_claiming(&world.leases, from, true);
	leases_drained(&world.leases, action.request, 40);
	leases_tick(&world.leases, 50 + IDLE);
	ok(world_is_quiet() && chunk_full(3) == 1u << from,
	   "a chunk that has left keeps its slab while its donor is claimed from");
	leases_donor_claiming(&world.leases, from, false);
	leases_donor_back(&world.leases, from, 1, 10 * SLAB, 60 + IDLE);
	leases_tick(&world.leases, 60 + 2 * IDLE);
	ok(world_next_is(LEASES_RELEASE, &action) && action.slab == 103 && world_is_quiet() && !chunk_full(3),
	   "the slab of a chunk that has left is released after the claims");
	world_close();
}

/* The recalled chunk stays, because another replica stays or because there is no backup. */
static void chunk_leaves_only_without_another_place(void)
{
	struct leases_action action;
	unsigned donors;

	donors_open(2, 2);
	donors = chunk_make(3);
	world.leases.config.backup = true;
	leases_recall(&world.leases, 0, 103, UINT64_MAX, 10);
	leases_tick(&world.leases, 10);
	ok(world_is_quiet() && chunk_full(3) == donors, "a chunk with another replica that stays does not leave");
	leases_recall(&world.leases, 1, 103, UINT64_MAX, 20);
	leases_tick(&world.leases, 20);
	ok(world_next_is(LEASES_LEAVE, &action) && world_is_quiet(), "a chunk whose replicas are all recalled leaves");
	world_close();
	donors_open(1, 1);
	chunk_make(3);
	leases_recall(&world.leases, 0, 103, UINT64_MAX, 10);
	leases_tick(&world.leases, 10);
	ok(world_is_quiet() && chunk_full(3) == 1, "a chunk does not leave without a backup");
	world_close();
}

/* Takes the donor of chunk 3 off the list. Returns that donor. */
static unsigned donor_leaves(void)
{
	unsigned from = (unsigned)lowest(chunk_make(3));

	page_write(3 * CHUNK_PAGES);
	leases_donor_leave(&world.leases, from);
	leases_leaving_tick(&world.leases, 10);
	return from;
}

static void leaving_donor_is_emptied_and_let_go(void)
{
	struct leases_action action;
	unsigned from, to;
	int filled;

	donors_open(2, 1);
	from = donor_leaves();
	ok(!leases_donor_is_empty(&world.leases, from), "a leaving donor with a slab is not empty");
	filled = join(10, &to);
	ok(filled >= 0 && to != from, "the slab of a leaving donor is filled elsewhere");
	leases_filled(&world.leases, (unsigned)filled, true, 20);
	ok(world_next_is(LEASES_DRAIN, &action), "the slab of a leaving donor is drained");
	leases_drained(&world.leases, (unsigned)filled, 30);
	ok(world_next_is(LEASES_RELEASE, &action) && action.donor == from &&
	       !leases_donor_is_empty(&world.leases, from),
	   "a leaving donor is not empty until it has answered the release");
	leases_released(&world.leases, from);
	ok(leases_donor_is_empty(&world.leases, from), "a leaving donor is empty after its last slab is released");
	leases_donor_gone(&world.leases, from, 40);
	ok(!leases_donors_missing(&world.leases), "a donor that was let go is not missing");
	ok(chunk_full(3) == 1u << to, "the chunk stays where it was moved");
	world_close();
}

static void leaving_donor_lends_only_if_no_other_has_room(void)
{
	struct leases_action ask;
	unsigned from;

	donors_open(2, 1);
	from = donor_leaves();
	ok(world_ask(10, &ask) == (int)!from, "the other donor is asked for the leaving donor's slab");
	for (unsigned i = 0; i < 2; i++)
		leases_donor_heard(&world.leases, i, i == from ? 10 * SLAB : 0);
	chunk_want(5, 20);
	ok(world_ask(20, &ask) == (int)!from, "a chunk asks a donor without room before it asks a leaving donor");
	leases_denied(&world.leases, !from, ask.request, 30);
	ok(world_ask(30, &ask) == (int)from, "a chunk asks a leaving donor once all other donors have denied it");
	world_close();
}

static void donor_that_stays_keeps_its_slabs(void)
{
	struct leases_action action;
	unsigned from, to;

	donors_open(1, 1);
	from = donor_leaves();
	ok(join(10, &to) < 0 && chunk_full(3) == 1u << from,
	   "a slab stays on a leaving donor if there is no other donor");
	leases_recall(&world.leases, from, 103, 1000, 10);
	leases_donor_stay(&world.leases, from);
	ok(leases_recalled_slots(&world.leases, 3) == 1, "the donor's own recall outlives its leaving");
	leases_keep(&world.leases, from, 103);
	leases_leaving_tick(&world.leases, 20);
	ok(!leases_recalled_slots(&world.leases, 3) && !world_next(&action), "a donor that stays is asked for nothing");
	leases_donor_leave(&world.leases, from);
	leases_leaving_tick(&world.leases, 30);
	leases_donor_stay(&world.leases, from);
	ok(!leases_recalled_slots(&world.leases, 3), "slabs of a donor that stays are not recalled any more");
	world_close();
}

int main(void)
{
	leaving_donor_is_emptied_and_let_go();
	leaving_donor_lends_only_if_no_other_has_room();
	donor_that_stays_keeps_its_slabs();
	recalled_slab_is_filled_elsewhere_and_released(1);
	recalled_slab_is_filled_elsewhere_and_released(2);
	deadline_takes_a_slab_before_its_replacement_is_filled();
	chunk_keeps_its_other_replica_after_a_deadline();
	slab_moved_while_its_donor_is_away_is_released_once();
	recall_is_forgotten_when_its_donor_returns();
	surplus_replica_is_released_once_all_donors_are_back(1, false);
	surplus_replica_is_released_once_all_donors_are_back(1, true);
	surplus_replica_is_released_once_all_donors_are_back(2, true);
	surplus_replica_is_released_once_all_donors_are_back(3, true);
	chunk_moves_apart_donors_of_one_domain();
	recalled_slab_stays_while_a_replica_is_lacking();
	withdrawn_recall_keeps_the_slab();
	restarted_donors_slab_of_the_same_name_is_not_recalled(1);
	restarted_donors_slab_of_the_same_name_is_not_recalled(2);
	recall_is_over_once_its_slab_is_moved();
	waiting_chunks_and_idle_releases_go_on_together();
	chunk_without_room_leaves_for_the_backup();
	failed_leave_is_retried_after_a_pause();
	chunk_lost_while_leaving_keeps_its_pages_on_the_backup();
	left_chunk_keeps_its_slab_during_claims();
	chunk_leaves_only_without_another_place();
	return tap_done();
}
