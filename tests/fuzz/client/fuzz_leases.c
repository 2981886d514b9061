/*
 * Fuzzes the client's leases with any grants, denials, recalls, revokes and claims, and donors that come and go at any
 * time. The map of slabs can be adopted at any time, and names no slab twice. A chunk in use has a slab, and counts at
 * least its live pages.
 *
 * Input: a byte for the world, then steps of four bytes: the kind, the donor or page, and two more. Queues, the rebuild
 * thread and the clock are steps, too. These keep to their contracts. Donors do not.
 */
#include "client/donor/claims.h"
#include "tests/unit/client/leases_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS 4u
#define DONORS 4u
#define PAGES ((uint64_t)CHUNKS * CHUNK_PAGES)
#define ASKED 8u

enum step {
	STEP_WRITE,
	STEP_DISCARD,
	STEP_HINDER,
	STEP_GRANTED,
	STEP_DENIED,
	STEP_RELEASED,
	STEP_REVOKE,
	STEP_KEEP,
	STEP_REVOKED,
	STEP_AWAY,
	STEP_BACK,
	STEP_LOST,
	STEP_CLAIM,
	STEP_COPIED,
	STEP_TICK,
	STEPS
};

enum donor_is { DONOR_IS_UP, DONOR_IS_AWAY, DONOR_IS_CLAIMED, DONOR_IS_GONE };

static uint64_t now;
static unsigned donors;
static struct {
	enum donor_is is;
	struct claims claims;
	uint32_t asked[ASKED]; /* the last requests that the donor got */
	unsigned asks;
} donor[DONORS];
static struct {
	enum leases_action_kind kind; /* LEASES_FILL, _DRAIN or _LEAVE; LEASES_WAKE for no job */
	uint32_t chunk, epoch;
} job[LEASES_JOINS_MAX];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
	if (!good)
		abort();
}

/* --- Work of the caller ----------------------------------------------------------------------------------------- */

/* Handles a donor that has broken the protocol, or whose session has ended, as the client does. */
static void broke(unsigned index)
{
	enum donor_is was = donor[index].is;

	if (was != DONOR_IS_UP && was != DONOR_IS_CLAIMED)
		return;
	donor[index].is = DONOR_IS_AWAY;
	leases_donor_claiming(&world.leases, index, false);
	if (was == DONOR_IS_UP)
		leases_donor_away(&world.leases, index, now);
}

static void lose(unsigned index)
{
	if (donor[index].is == DONOR_IS_CLAIMED)
		leases_donor_claiming(&world.leases, index, false);
	donor[index].is = DONOR_IS_GONE;
	leases_donor_lost(&world.leases, index, now);
}

static void come_back(unsigned index)
{
	donor[index].is = DONOR_IS_UP;
	leases_donor_back(&world.leases, index, donor[index].claims.held, 10 * SLAB, now);
}

static void claim_on(unsigned index)
{
	uint32_t request;
	uint64_t slab;

	while (claims_next(&donor[index].claims, &request, &slab))
		;
	if (claims_over(&donor[index].claims))
		come_back(index);
}

static void actions_take(void)
{
	struct leases_action action;

	while (world_next(&action)) {
		switch (action.kind) {
		case LEASES_ASK:
			must(donor[action.donor].is == DONOR_IS_UP);
			donor[action.donor].asked[donor[action.donor].asks++ % ASKED] = action.request;
			break;
		case LEASES_RELEASE:
			must(donor[action.donor].is == DONOR_IS_UP);
			break;
		case LEASES_FILL:
		case LEASES_DRAIN:
		case LEASES_LEAVE:
			must(job[action.request].kind == LEASES_WAKE);
			job[action.request].kind = action.kind;
			job[action.request].chunk = action.chunk;
			job[action.request].epoch = action.epoch;
			break;
		default: /* world_next() returns no other kinds */
			break;
		}
	}
}

/* --- Steps ------------------------------------------------------------------------------------------------------ */

static void write_page(uint64_t page)
{
	static const uint64_t bytes[4096 / 8] = {1};
	uint32_t chunk = (uint32_t)(page / CHUNK_PAGES), epoch;
	struct chunk_view view;

	if (chunk_is_leaving(&world.table, chunk)) {
		bool ready = chunk_epoch(&world.table, chunk, &epoch);

		integrity_prepare(&world.integrity, page, bytes);
		if (integrity_commit_kept(&world.integrity, page, 1) && ready)
			chunk_drop(&world.table, chunk, epoch, 1);
		return;
	}
	if (chunk_hold(&world.table, chunk, 1, &view) != CHUNK_HELD)
		return;
	integrity_prepare(&world.integrity, page, bytes);
	if (integrity_commit(&world.integrity, page, 1))
		chunk_drop(&world.table, chunk, view.epoch, 1);
}

static void discard_page(uint64_t page)
{
	uint32_t chunk = (uint32_t)(page / CHUNK_PAGES), epoch;

	if (chunk_is_untouched(&world.table, chunk))
		return;
	if (integrity_forget(&world.integrity, page, 1) && chunk_epoch(&world.table, chunk, &epoch))
		chunk_drop(&world.table, chunk, epoch, 1);
}

static uint32_t request_of(unsigned index, uint8_t which)
{
	return which < ASKED ? donor[index].asked[which] : which;
}

static void granted(unsigned index, uint8_t which, uint8_t slab)
{
	struct chunk_slot slot = {.address = slab * 4096ull, .rkey = slab, .slab = slab};

	if (donor[index].is == DONOR_IS_UP &&
	    !leases_granted(&world.leases, index, request_of(index, which), &slot, now))
		broke(index);
}

/* Takes an answer to a claim, which confirms or denies it. The donor may also be lost. */
static void claimed(unsigned index, uint8_t what, uint8_t which)
{
	uint32_t request = which;
	uint64_t slab;

	if (donor[index].is != DONOR_IS_CLAIMED)
		return;
	if (what % 4 == 0) {
		lose(index);
		return;
	}
	if (what % 4 == 1) {
		if (claims_denied(&donor[index].claims, request, &slab) < 0) {
			broke(index);
			return;
		}
		leases_taken(&world.leases, index, slab, now);
	} else {
		/* The answer names the slab that the client had, or another slab. */
		struct chunk_slot slots[FAR_SLOTS_MAX];

		slab = which;
		if (request / FAR_SLOTS_MAX < CHUNKS && what % 4 == 2) {
			chunk_slots(&world.table, request / FAR_SLOTS_MAX, slots);
			slab = slots[request % FAR_SLOTS_MAX].slab;
		}
		if (claims_confirmed(&donor[index].claims, request, slab, 4096, 1) < 0) {
			broke(index);
			return;
		}
	}
	claim_on(index);
}

/* Reports that the rebuild thread has ended a job. */
static void copied(unsigned index, bool good)
{
	enum leases_action_kind kind = job[index].kind;
	uint64_t first = (uint64_t)job[index].chunk * CHUNK_PAGES;

	job[index].kind = LEASES_WAKE;
	if (kind == LEASES_FILL)
		leases_filled(&world.leases, index, good, now);
	else if (kind == LEASES_DRAIN)
		leases_drained(&world.leases, index, now);
	else if (kind == LEASES_LEAVE) {
		uint32_t epoch, kept = 0;

		good &= chunk_epoch(&world.table, job[index].chunk, &epoch) && epoch == job[index].epoch;
		if (good)
			kept = integrity_keep(&world.integrity, first, CHUNK_PAGES);
		if (kept)
			chunk_drop(&world.table, job[index].chunk, job[index].epoch, kept);
		leases_left(&world.leases, index, good, now);
	}
}

static void donor_step(enum step kind, unsigned index, const uint8_t more[2])
{
	bool talks = donor[index].is == DONOR_IS_UP || donor[index].is == DONOR_IS_CLAIMED;

	switch (kind) {
	case STEP_GRANTED:
		granted(index, more[0], more[1]);
		return;
	case STEP_DENIED:
		if (donor[index].is == DONOR_IS_UP &&
		    !leases_denied(&world.leases, index, request_of(index, more[0]), now))
			broke(index);
		return;
	case STEP_RELEASED:
		if (donor[index].is == DONOR_IS_UP && !leases_released(&world.leases, index))
			broke(index);
		return;
	case STEP_REVOKE:
		if (talks)
			leases_recall(&world.leases, index, more[0], more[1] ? now + 10u * more[1] : UINT64_MAX, now);
		return;
	case STEP_KEEP:
		if (talks)
			leases_keep(&world.leases, index, more[0]);
		return;
	case STEP_REVOKED:
		if (talks)
			leases_taken(&world.leases, index, more[0], now);
		return;
	case STEP_AWAY:
		broke(index);
		return;
	case STEP_BACK:
		if (donor[index].is != DONOR_IS_AWAY && donor[index].is != DONOR_IS_GONE)
			return;
		donor[index].is = DONOR_IS_CLAIMED;
		claims_begin(&donor[index].claims, &world.table, index);
		leases_donor_claiming(&world.leases, index, true);
		claim_on(index);
		return;
	case STEP_LOST:
		if (donor[index].is != DONOR_IS_GONE)
			lose(index);
		return;
	case STEP_CLAIM:
		claimed(index, more[0], more[1]);
		return;
	default:
		return;
	}
}

static void step(const uint8_t bytes[4])
{
	enum step kind = bytes[0] % STEPS;
	uint64_t page = bytes[1] % PAGES;

	switch (kind) {
	case STEP_WRITE:
		write_page(page);
		break;
	case STEP_DISCARD:
		discard_page(page);
		break;
	case STEP_HINDER:
		chunk_hinder(&world.table, page / CHUNK_PAGES);
		break;
	case STEP_COPIED:
		copied(bytes[1] % LEASES_JOINS_MAX, bytes[2]);
		break;
	case STEP_TICK:
		now += bytes[1];
		leases_recalls_tick(&world.leases, now);
		break;
	default:
		donor_step(kind, bytes[1] % donors, bytes + 2);
		break;
	}
	actions_take();
	leases_scan(&world.leases, now);
	leases_tick(&world.leases, now);
	actions_take();
}

/* --- Invariants ------------------------------------------------------------------------------------------------- */

static void check(void)
{
	struct chunk_slot all[CHUNKS * FAR_SLOTS_MAX];
	unsigned count = 0;

	for (uint32_t i = 0; i < CHUNKS; i++) {
		struct chunk_slot slots[FAR_SLOTS_MAX];

		must(chunk_check(&world.table, i, donors) == 0);
		if (chunk_state(&world.table, i) != CHUNK_READY) {
			must(!integrity_live(&world.integrity, (uint64_t)i * CHUNK_PAGES, CHUNK_PAGES));
			continue;
		}
		must(chunk_pages_held(&world.table, i) >=
		     integrity_live(&world.integrity, (uint64_t)i * CHUNK_PAGES, CHUNK_PAGES));
		chunk_slots(&world.table, i, slots);
		for (unsigned j = 0; j < FAR_SLOTS_MAX; j++)
			if (slots[j].state != SLOT_EMPTY)
				all[count++] = slots[j];
	}
	for (unsigned i = 0; i < count; i++)
		for (unsigned j = 0; j < i; j++)
			must(all[i].donor != all[j].donor || all[i].slab != all[j].slab);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned replicas;

	if (!size)
		return 0;
	donors = 1 + data[0] % DONORS;
	replicas = 1 + data[0] / DONORS % FAR_REPLICAS_MAX;
	replicas = replicas < donors ? replicas : donors;
	now = 1;
	memset(donor, 0, sizeof donor);
	for (unsigned i = 0; i < LEASES_JOINS_MAX; i++)
		job[i].kind = LEASES_WAKE;
	world_open(CHUNKS, donors, replicas, 1);
	world.leases.config.backup = world.integrity.keeps = data[0] & 0x80;
	for (unsigned i = 0; i < donors; i++)
		leases_donor_heard(&world.leases, i, 10 * SLAB);
	for (data++, size--; size >= 4; data += 4, size -= 4) {
		step(data);
		check();
	}
	world_close();
	return 0;
}
