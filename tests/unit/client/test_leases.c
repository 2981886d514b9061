/* leases: slabs for chunks, one case a test. tests/sim runs all cases at random. */
#include "tests/lib/tap.h"
#include "tests/unit/client/leases_world.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNKS 40u
#define ADDRESS(slab) ((uint64_t)(slab) << 12) /* the address that world_grant() gives a slab */

static void granted_slab_is_released_after_its_idle_time(void)
{
	struct leases_action action;
	struct chunk_view view;

	world_open(CHUNKS, 2, 1, 1);
	leases_donor_heard(&world.leases, 0, 0);
	leases_donor_heard(&world.leases, 1, 10 * SLAB);
	ok(chunk_want(3, 0) && world_next_is(LEASES_ASK, &action) && action.donor == 1,
	   "the donor with free memory is asked for a slab");
	ok(world_is_quiet() && leases_due(&world.leases) == TIMEOUT,
	   "a wanted chunk asks one donor and waits for the timeout");
	world_grant(&action, 9, 5);
	ok(chunk_hold(&world.table, 3, 1, &view) == CHUNK_HELD && view.slots[0].address == ADDRESS(9) &&
	       view.slots[0].donor == 1 && world.leases.donors[1].held == 1,
	   "a granted slab makes the chunk ready");
	chunk_unhold(3, 10);
	world_next(&action);
	leases_tick(&world.leases, 10 + IDLE - 1);
	ok(world_is_quiet() && leases_due(&world.leases) == 10 + IDLE,
	   "an emptied chunk keeps its slab until the idle time is over");
	leases_tick(&world.leases, 10 + IDLE);
	ok(world_next_is(LEASES_RELEASE, &action) && action.donor == 1 && action.slab == 9 &&
	       chunk_state(&world.table, 3) == CHUNK_NONE,
	   "the slab of an idle chunk is released");
	leases_released(&world.leases, 1);
	ok(leases_due(&world.leases) == UINT64_MAX && !world.leases.donors[1].held,
	   "a released slab leaves no lease and no deadline");
	world_close();
}

static void chunk_is_denied_after_every_donor_denied(void)
{
	struct leases_action action;
	uint64_t asked = 0;

	world_open(CHUNKS, 3, 1, 1);
	for (unsigned i = 0; i < 3; i++)
		leases_donor_heard(&world.leases, i, 0);
	chunk_want(3, 0);
	while (world_next_is(LEASES_ASK, &action)) {
		asked += UINT64_C(1) << 8 * action.donor;
		leases_denied(&world.leases, action.donor, action.request, 1);
	}
	ok(asked == 0x010101, "each donor is asked once, also a donor whose figures show no room");
	ok(chunk_state(&world.table, 3) == CHUNK_NONE && world.table.chunks[3].denial == -ENOSPC,
	   "a chunk that every donor denied is denied with -ENOSPC");
	world_close();
}

/* Answers without a request are reported and change nothing. */
static void answers_without_a_request_are_refused(void)
{
	struct chunk_slot slot = {.slab = 9};
	struct leases_action action;

	world_open(CHUNKS, 1, 1, 1);
	leases_donor_heard(&world.leases, 0, SLAB);
	ok(!leases_granted(&world.leases, 0, 1, &slot, 0) && !leases_denied(&world.leases, 0, 1, 0) &&
	       !leases_released(&world.leases, 0) && !world.leases.donors[0].held && world_is_quiet(),
	   "answers to no request are refused and change nothing");
	chunk_want(3, 0);
	world_next(&action);
	ok(!leases_released(&world.leases, 0) && world_grant(&action, 9, 1),
	   "an answer of the wrong kind is refused, and the right one is accepted");
	ok(!leases_denied(&world.leases, 0, action.request, 2) && world.leases.donors[0].held == 1,
	   "a second answer to the same request is refused");
	chunk_want(4, 3);
	world_next(&action);
	ok(!world_grant(&action, 9, 4) && world.leases.donors[0].held == 1 &&
	       chunk_state(&world.table, 4) == CHUNK_WANTED,
	   "a grant of a slab already held is refused");
	world_close();
}

static void late_grant_is_released(void)
{
	struct leases_action action;

	world_open(CHUNKS, 1, 1, 1);
	leases_donor_heard(&world.leases, 0, SLAB);
	chunk_want(3, 0);
	world_next(&action);
	leases_tick(&world.leases, TIMEOUT);
	ok(chunk_state(&world.table, 3) == CHUNK_NONE && world.table.chunks[3].denial == -ETIMEDOUT,
	   "a chunk whose donor does not answer is denied with -ETIMEDOUT");
	world_grant(&action, 9, TIMEOUT + 1);
	ok(world_next_is(LEASES_RELEASE, &action) && action.slab == 9, "a slab granted after the timeout is released");
	world_close();
}

static void idle_slab_serves_another_chunk(void)
{
	struct chunk_view view;

	world_open(CHUNKS, 1, 1, 1);
	leases_donor_heard(&world.leases, 0, SLAB);
	chunk_make(3);
	chunk_unhold(3, 2);
	chunk_want(4, 3);
	ok(world_is_quiet() && chunk_hold(&world.table, 4, 1, &view) == CHUNK_HELD &&
	       view.slots[0].address == ADDRESS(103) && chunk_state(&world.table, 3) == CHUNK_NONE,
	   "the slab of an idle chunk serves another chunk without a request");
	world_close();
}

static void lost_donor_takes_its_pages_along(void)
{
	static const uint8_t data[4096] = {1};
	struct leases_action action;

	world_open(CHUNKS, 2, 1, 1);
	leases_donor_heard(&world.leases, 0, SLAB * 9);
	chunk_make(3);
	for (uint64_t page = 12; page < 14; page++) {
		integrity_prepare(&world.integrity, page, data);
		integrity_commit(&world.integrity, page, 1);
	}
	chunk_want(4, 2);
	world_next(&action);
	leases_donor_heard(&world.leases, 1, SLAB);
	ok(leases_donor_lost(&world.leases, 0, 3) == 2, "a lost donor loses the pages that were on it");
	ok(integrity_kind(&world.integrity, 12) == INTEGRITY_IS_LOST && chunk_state(&world.table, 3) == CHUNK_NONE,
	   "lost pages are marked as lost, and their chunk has no state");
	ok(world_next_is(LEASES_ASK, &action) && action.donor == 1,
	   "a request to a lost donor is made to another donor");
	ok(leases_donor_lost(&world.leases, 1, 4) == 0 && chunk_state(&world.table, 4) == CHUNK_NONE &&
	       world.table.chunks[4].denial == -ENOSPC,
	   "a chunk is denied with -ENOSPC when the last donor is lost");
	world_close();
}

/* A slab that was requested ahead serves the first chunk that needs a slab. An idle one is released. */
static void slab_asked_ahead_serves_the_first_chunk_in_need(void)
{
	struct leases_action action;
	struct chunk_view view;

	world_open(CHUNKS, 1, 1, 1);
	leases_donor_heard(&world.leases, 0, 2 * SLAB);
	chunk_make(3);
	leases_donor_heard(&world.leases, 0, SLAB);
	chunk_hold(&world.table, 3, CHUNK_PAGES - 1, &view);
	ok(chunk_look_ahead(&world.table, 3), "a chunk that is full looks ahead");
	leases_scan(&world.leases, 2);
	ok(world_next_is(LEASES_ASK, &action), "a look-ahead asks for the next chunk's slab");
	world_grant(&action, 10, 3);
	leases_donor_heard(&world.leases, 0, 0);
	chunk_want(7, 4);
	ok(chunk_hold(&world.table, 7, 1, &view) == CHUNK_HELD && view.slots[0].address == ADDRESS(10),
	   "a slab asked ahead serves another chunk that needs it first");
	ok(world_is_quiet(), "no further slab is asked for once the look-ahead slab is used");
	chunk_unhold(7, 5);
	leases_tick(&world.leases, 5 + IDLE);
	ok(world_next_is(LEASES_RELEASE, &action) && action.slab == 10,
	   "a look-ahead slab that is emptied is released after the idle time");
	world_close();
}

/* The number of hindered chunks, which is more than the action queue can hold. */
#define HINDERED 700u

static void hindered_chunks_detach_after_the_claims(void)
{
	const struct leases_config config = {
	    .donor_count = 3, .slab_bytes = 4096, .timeout_ns = TIMEOUT, .idle_ns = IDLE, .pause_ns = PAUSE, .seed = 1};
	const struct chunk_slot slots[FAR_REPLICAS_MAX] = {{.donor = 0, .slab = 1}, {.donor = 1, .slab = 2}};
	unsigned detached = 0, wakes = 0, asked = 0;
	struct leases_action action;

	chunk_table_open(&world.table, HINDERED, 1, 2);
	integrity_open(&world.integrity, HINDERED);
	world.leases = (struct leases){0};
	leases_init(&world.leases, &config, &world.table, &world.integrity);
	for (unsigned i = 0; i < 2; i++)
		leases_donor_heard(&world.leases, i, 0);
	for (unsigned i = 0; i < HINDERED; i++)
		chunk_place(i, slots);
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
	world_close();
}

/* Chunks with two of three replicas, and one chunk with a single replica. */
static void chunk_with_one_replica_is_rebuilt_first(void)
{
	const struct chunk_slot two[FAR_REPLICAS_MAX] = {
	    {.donor = 0, .slab = 1}, {.donor = 1, .slab = 2}, {.state = SLOT_EMPTY}};
	const struct chunk_slot one[FAR_REPLICAS_MAX] = {
	    {.donor = 2, .slab = 3}, {.state = SLOT_EMPTY}, {.state = SLOT_EMPTY}};
	struct leases_action action;

	world_open(CHUNKS, 4, 3, 1);
	for (unsigned i = 0; i < 3; i++)
		leases_donor_heard(&world.leases, i, 0);
	leases_donor_heard(&world.leases, 3, CHUNKS * SLAB);
	for (uint32_t i = 0; i < CHUNKS; i++)
		chunk_place(i, i == CHUNKS - 1 ? one : two);
	world.leases.lacking = true;
	leases_tick(&world.leases, 1);
	ok(world_next_is(LEASES_ASK, &action) && world.leases.joins[0].chunk == CHUNKS - 1,
	   "a chunk with a single replica is rebuilt before chunks with two of three");
	ok(world_next_is(LEASES_ASK, &action) && world.leases.joins[1].chunk == 0,
	   "chunks with two of three replicas are rebuilt next");
	while (world.leases.joins[0].state == JOIN_ASKING && world.leases.joins[0].chunk == CHUNKS - 1)
		leases_denied(&world.leases, world.leases.joins[0].slot.donor, world.leases.joins[0].request, 2);
	leases_tick(&world.leases, 2 + PAUSE);
	ok(world.leases.joins[0].state == JOIN_ASKING && world.leases.joins[0].chunk == 1,
	   "the next chunk is rebuilt when no donor has room for the first");
	world_close();
}

/* A chunk whose checksums have no memory does not ask for a slab. */
static void last_copies_are_told_from_others(void)
{
	struct leases_action action;
	unsigned donors, one, other;

	world_open(CHUNKS, 2, 2, 1);
	leases_donor_heard(&world.leases, 0, 10 * SLAB);
	leases_donor_heard(&world.leases, 1, 10 * SLAB);
	donors = chunk_make(3);
	one = 0;
	other = 1;
	ok(donors == 3, "a chunk has a copy on both donors");
	leases_donor_away(&world.leases, one, 10);
	ok(!leases_donor_has_last(&world.leases, one),
	   "a donor has no last copy while another donor with it is in reach");
	leases_donor_away(&world.leases, other, 20);
	ok(leases_donor_has_last(&world.leases, one) && leases_donor_has_last(&world.leases, other),
	   "both donors have last copies while both are away");
	ok(chunk_full(3) == 3, "no slot is detached while all copies are last ones");
	ok(!leases_donor_has_only(&world.leases, one), "no page would be lost with one donor that is away");
	chunk_place(4, (const struct chunk_slot[FAR_REPLICAS_MAX]){{.state = SLOT_FULL, .donor = one, .slab = 50},
								   {.state = SLOT_EMPTY}});
	leases_donor_back(&world.leases, other, 1, 9 * SLAB, 30);
	ok(leases_donor_has_last(&world.leases, one), "a chunk with one copy makes its donor needed");
	ok(leases_donor_has_only(&world.leases, one), "a chunk with one copy would be lost with its donor");
	ok(chunk_full(3) == 1u << other && chunk_full(4) == 1u << one,
	   "chunks with another copy do without the donor that is needed for one chunk");
	while (world_next(&action))
		;
	chunk_unhold(4, 40);
	ok(!leases_donor_has_last(&world.leases, one), "a chunk without pages needs no donor");
	world_close();
}

/* A donor is away, the other one is full, and has room later. */
static void waiting_chunk_asks_full_donors_again(void)
{
	struct leases_action action;
	struct chunk_view view;

	world_open(CHUNKS, 2, 1, 1);
	leases_donor_heard(&world.leases, 0, 0);
	leases_donor_heard(&world.leases, 1, SLAB);
	leases_donor_away(&world.leases, 0, 5);
	chunk_want(3, 10);
	world_next(&action);
	leases_donor_heard(&world.leases, 1, 0);
	leases_denied(&world.leases, 1, action.request, 20);
	ok(world_is_quiet() && chunk_state(&world.table, 3) == CHUNK_WANTED && leases_due(&world.leases) == 20 + PAUSE,
	   "a chunk waits for a donor that is away when the other one is full");
	leases_donor_heard(&world.leases, 1, SLAB);
	leases_tick(&world.leases, 20 + PAUSE);
	ok(world_next_is(LEASES_ASK, &action) && action.donor == 1, "the full donor is asked again after a pause");
	world_grant(&action, 9, 30 + PAUSE);
	ok(chunk_hold(&world.table, 3, 1, &view) == CHUNK_HELD, "the chunk has a slab when the donor has room");
	world_close();
}

static void chunk_without_memory_for_checksums_is_denied(void)
{
	static const uint8_t secret[INTEGRITY_SECRET_SIZE];
	uint64_t generations = (uint64_t)getpagesize(), sums = generations * 4; /* beyond the file's end */
	int file = memfd_create("leases", MFD_CLOEXEC);
	struct leases_action action;
	uint8_t *base;

	world_open(CHUNKS, 1, 1, 1);
	integrity_close(&world.integrity);
	base = mmap(NULL, generations + sums, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (ftruncate(file, (off_t)generations) < 0)
		abort();
	integrity_place(&world.integrity, CHUNKS * CHUNK_PAGES, (_Atomic uint16_t *)base,
			(_Atomic uint64_t *)(base + generations), NULL, secret);
	leases_donor_heard(&world.leases, 0, 10 * SLAB);
	chunk_want(3, 0);
	ok(world_is_quiet() && chunk_state(&world.table, 3) == CHUNK_NONE && world.table.chunks[3].denial == -ENOMEM,
	   "a chunk without memory for its checksums is denied with -ENOMEM");
	if (ftruncate(file, (off_t)(generations + sums)) < 0)
		abort();
	ok(chunk_want(3, 1) && world_next_is(LEASES_ASK, &action),
	   "a denied chunk asks for a slab once there is memory for its checksums");
	world_close();
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
	last_copies_are_told_from_others();
	waiting_chunk_asks_full_donors_again();
	chunk_without_memory_for_checksums_is_denied();
	hindered_chunks_detach_after_the_claims();
	chunk_with_one_replica_is_rebuilt_first();
	return tap_done();
}
