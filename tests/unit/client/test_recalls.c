/* leases: slabs that their donors recall, one case a test. */
#include "client/lease/internal.h"
#include "tests/lib/tap.h"
#include "tests/unit/client/leases_world.h"

static void recalled_slab_is_filled_elsewhere_and_released(unsigned replicas)
{
	struct leases_action action;
	unsigned before, to, from;
	int filled;

	world_open_donors(replicas + 1, replicas);
	before = chunk_make(3);
	from = (unsigned)lowest(before);
	ok(leases_recall(&world.leases, from, 103, 1000, 10), "%u replicas: the recall of a leased slab is accepted",
	   replicas);
	ok(leases_recalls_due(&world.leases) == 1000, "a recall is due at its deadline");
	filled = world_fill(10, &to);
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

	world_open_donors(2, 1);
	leases_recall(&world.leases, (unsigned)lowest(chunk_make(3)), 103, 1000, 10);
	page_write(3 * CHUNK_PAGES);
	filled = world_fill(10, &to);
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

	world_open_donors(2, 2);
	before = chunk_make(3);
	from = (unsigned)lowest(before);
	page_write(3 * CHUNK_PAGES);
	leases_recall(&world.leases, from, 103, 1000, 10);
	ok(leases_recalls_tick(&world.leases, 1000) == 0 && chunk_full(3) == (before & ~(1u << from)),
	   "a chunk keeps its other replica when a slab passes its deadline");
	ok(chunk_replicas_missing(&world.table, 3) == 1, "a chunk that lost a slab to a deadline lacks one replica");
	world_close();

	world_open_donors(2, 2);
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

	world_open_donors(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	leases_recall(&world.leases, from, 103, UINT64_MAX, 10);
	filled = world_fill(10, &to);
	leases_donor_away(&world.leases, from, 20);
	leases_filled(&world.leases, (unsigned)filled, true, 30);
	ok(world_next_is(LEASES_DRAIN, &action) && chunk_full(3) == 1u << to && !world.leases.donors[from].held,
	   "a slab moved while its donor is away is no longer held");
	leases_donor_back(&world.leases, from, 0, 10 * SLAB, 40);
	leases_drained(&world.leases, (unsigned)filled, 50);
	ok(world_is_quiet() && !world.leases.donors[from].held,
	   "a slab moved while its donor was away is not released again after the return");
	world_close();

	world_open_donors(2, 1);
	from = (unsigned)lowest(chunk_make(3));
	leases_recall(&world.leases, from, 103, UINT64_MAX, 10);
	filled = world_fill(10, &to);
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

	world_open_donors(1, 1);
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

	world_open_donors(replicas + 3, replicas);
	before = chunk_make(3);
	from = (unsigned)lowest(before);
	leases_recall(&world.leases, from, 103, UINT64_MAX, 10);
	filled = world_fill(10, &to);
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

	world_open_donors(3, 2);
	before = chunk_make(3);
	for (unsigned i = 0; i < 3; i++)
		leases_donor_named(&world.leases, i, before >> i & 1 ? "rack1" : "rack2");
	ok(!chunk_replicas_missing(&world.table, 3), "a chunk with all its replicas in one rack lacks none");
	filled = world_fill(10, &to);
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

	world_open_donors(2, 2);
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

	world_open_donors(2, 2);
	chunk_make(3);
	leases_donor_lost(&world.leases, 1, 10);
	leases_recall(&world.leases, 0, 103, UINT64_MAX, 10);
	leases_donor_back(&world.leases, 1, 0, 10 * SLAB, 20);
	filled = world_fill(20, &to);
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

	world_open_donors(2, 1);
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

	world_open_donors(replicas, replicas);
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

	world_open_donors(2, 1);
	leases_recall(&world.leases, (unsigned)lowest(chunk_make(3)), 103, UINT64_MAX, 10);
	ok(leases_recalling(&world.leases) && world.leases.recalled, "a recalled slab is known as recalled");
	filled = world_fill(10, &to);
	leases_filled(&world.leases, (unsigned)filled, true, 20);
	ok(!leases_recalling(&world.leases) && !world.leases.recalled, "a recall is over once its slab was moved");
	world_close();
}

/* A donor comes back while chunks wait for slabs and idle slabs are recalled. Both must continue at once. */
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

int main(void)
{
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
	return tap_done();
}
