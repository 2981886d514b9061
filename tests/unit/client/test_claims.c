/*
 * claims: only the slabs of the returning donor are claimed, each once, and a few at a time. Impossible answers are
 * refused.
 */
#include "client/donor/claims.h"
#include "tests/lib/tap.h"

#include <errno.h>

#define CHUNKS 100u
#define CHUNK_PAGES 4u

static struct chunk_table table;

/*
 * Chunk i is READY unless i is a multiple of 3. Replica 0 lies on donor i % 2 in slab i, replica 1 on donor 2 in slab
 * 1000 + i.
 */
static void table_fill(void)
{
	struct chunk_view view;

	chunk_table_open(&table, CHUNKS * CHUNK_PAGES, CHUNK_PAGES, 2);
	for (unsigned i = 0; i < CHUNKS; i++) {
		const struct chunk_slot slots[FAR_SLOTS_MAX] = {
		    {.address = 5, .rkey = 6, .donor = i % 2, .slab = i},
		    {.address = 7, .rkey = 8, .donor = 2, .slab = 1000 + i}};

		if (i % 3 == 0)
			continue;
		chunk_hold(&table, i, 1, &view);
		chunk_publish(&table, i, slots);
		chunk_hold(&table, i, 1, &view);
	}
}

static void every_slab_of_the_donor_is_claimed_once(void)
{
	uint64_t slabs[CLAIMS_WINDOW], slab, sent = 0, wrong = 0;
	uint32_t requests[CLAIMS_WINDOW];
	struct chunk_view before, after;
	unsigned under_way = 0, most = 0;
	struct claims claims;

	table_fill();
	ok(claims_count(&table, 0) == 33 && claims_count(&table, 1) == 33 && claims_count(&table, 2) == 66 &&
	       claims_count(&table, 3) == 0,
	   "claims_count() counts the slabs of each donor");
	chunk_view(&table, 4, &before);
	claims_begin(&claims, &table, 0);
	while (!claims_over(&claims) && sent < 1000) {
		while (claims_next(&claims, &requests[under_way], &slabs[under_way])) {
			wrong += slabs[under_way] % 2 || slabs[under_way] % 3 == 0 || slabs[under_way] >= 1000;
			under_way++;
			sent++;
		}
		most = under_way > most ? under_way : most;
		under_way--;
		wrong += claims_confirmed(&claims, requests[under_way], slabs[under_way], 100 + slabs[under_way],
					  (uint32_t)(200 + slabs[under_way])) != 0;
	}
	ok(sent == 33 && !wrong && claims.held == 33, "each slab of the donor, and no other slab, is claimed once");
	ok(most == CLAIMS_WINDOW, "at most %u claims are under way at a time", CLAIMS_WINDOW);
	chunk_view(&table, 4, &after);
	ok(after.slots[0].address == 104 && after.slots[0].rkey == 204 && after.slots[0].donor == 0 &&
	       after.epoch == before.epoch,
	   "a confirmed claim updates address and key of its slot, and the epoch stays");
	ok(after.slots[1].address == 7 && after.slots[1].rkey == 8,
	   "a confirmed claim leaves the other replica's slot unchanged");
	claims_begin(&claims, &table, 3);
	ok(claims_over(&claims) && !claims_next(&claims, requests, &slab),
	   "claims from a donor that has no slabs are over at once");
	chunk_table_close(&table);
}

static void impossible_confirmations_are_refused(void)
{
	struct claims claims;
	uint32_t request;
	uint64_t slab;

	table_fill();
	claims_begin(&claims, &table, 2);
	ok(claims_confirmed(&claims, 0, 0, 1, 1) == -EPROTO, "a confirmation before any claim is refused with -EPROTO");
	claims_next(&claims, &request, &slab);
	ok(claims_confirmed(&claims, request, slab + 1, 1, 1) == -EPROTO,
	   "a confirmation that names another slab is refused with -EPROTO");
	ok(claims_confirmed(&claims, request + 3000, slab, 1, 1) == -EPROTO,
	   "a confirmation of a claim never made is refused with -EPROTO");
	ok(claims_confirmed(&claims, UINT32_MAX, slab, 1, 1) == -EPROTO,
	   "a confirmation of an impossible claim number is refused with -EPROTO");
	ok(claims_confirmed(&claims, request, slab, 1, 1) == 0 && !claims_over(&claims),
	   "a confirmation of the right claim is accepted");
	chunk_table_close(&table);
}

/* The donor takes slabs while they are being claimed, and denies the claims. */
static void slabs_taken_meanwhile_are_skipped_or_denied(void)
{
	uint32_t request;
	struct claims claims;
	uint64_t slab, sent = 0;

	table_fill();
	claims_begin(&claims, &table, 2);
	chunk_detach(&table, 1, 1);
	ok(claims_next(&claims, &request, &slab) && slab == 1002,
	   "a slab that was detached before its claim is not claimed");
	chunk_detach(&table, 2, 1);
	ok(claims_denied(&claims, request, &slab) == 0, "the claim of a slab detached meanwhile may be denied");
	ok(claims_denied(&claims, request, &slab) == -EPROTO,
	   "a second denial of the same claim is refused with -EPROTO");
	claims_next(&claims, &request, &slab);
	ok(claims_denied(&claims, request, &slab) == 1 && slab == 1004,
	   "the denial of a claim for a slab still in use returns 1 and names the slab");
	while (claims_next(&claims, &request, &slab) && slab < 1095)
		sent += claims_confirmed(&claims, request, slab, 1, 1) == 0;
	ok(sent == 60 && !claims_over(&claims), "the remaining slabs are claimed after two denials");
	claims_confirmed(&claims, request, slab, 1, 1);
	for (unsigned i = 96; i < CHUNKS; i++)
		if (i % 3)
			chunk_detach(&table, i, 1);
	ok(!claims_next(&claims, &request, &slab) && claims_over(&claims),
	   "claims are over when the last unclaimed slabs are detached");
	chunk_table_close(&table);
}

int main(void)
{
	every_slab_of_the_donor_is_claimed_once();
	slabs_taken_meanwhile_are_skipped_or_denied();
	impossible_confirmations_are_refused();
	return tap_done();
}
