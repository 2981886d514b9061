/* leases: chunks that leave for the backup, and donors that the client leaves, one case a test. */
#include "client/lease/internal.h"
#include "tests/lib/tap.h"
#include "tests/unit/client/leases_world.h"

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

	world_open_donors(2, 1);
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

	world_open_donors(2, 1);
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
		world_open_donors(2, 1);
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

	world_open_donors(1, 1);
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

	world_open_donors(2, 2);
	donors = chunk_make(3);
	world.leases.config.backup = true;
	leases_recall(&world.leases, 0, 103, UINT64_MAX, 10);
	leases_tick(&world.leases, 10);
	ok(world_is_quiet() && chunk_full(3) == donors, "a chunk with another replica that stays does not leave");
	leases_recall(&world.leases, 1, 103, UINT64_MAX, 20);
	leases_tick(&world.leases, 20);
	ok(world_next_is(LEASES_LEAVE, &action) && world_is_quiet(), "a chunk whose replicas are all recalled leaves");
	world_close();
	world_open_donors(1, 1);
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

	world_open_donors(2, 1);
	from = donor_leaves();
	ok(!leases_donor_is_empty(&world.leases, from), "a leaving donor with a slab is not empty");
	filled = world_fill(10, &to);
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

	world_open_donors(2, 1);
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

	world_open_donors(1, 1);
	from = donor_leaves();
	ok(world_fill(10, &to) < 0 && chunk_full(3) == 1u << from,
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
	chunk_without_room_leaves_for_the_backup();
	failed_leave_is_retried_after_a_pause();
	chunk_lost_while_leaving_keeps_its_pages_on_the_backup();
	left_chunk_keeps_its_slab_during_claims();
	chunk_leaves_only_without_another_place();
	leaving_donor_is_emptied_and_let_go();
	leaving_donor_lends_only_if_no_other_has_room();
	donor_that_stays_keeps_its_slabs();
	return tap_done();
}
