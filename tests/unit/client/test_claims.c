/* claims: every slab of the donor that came back, and no other, in a window; and answers that cannot be. */
#include "client/donor/claims.h"
#include "tests/tap.h"

#include <errno.h>

#define CHUNKS 100u
#define CHUNK_PAGES 4u

static struct chunk_table table;

/* Chunk i is READY when i % 3; replica 0 on donor i % 2, replica 1 on donor 2. Its slabs are 1000 * replica + i. */
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

static void test_all(void)
{
	uint64_t slabs[CLAIMS_WINDOW], slab, sent = 0, wrong = 0;
	uint32_t requests[CLAIMS_WINDOW];
	struct chunk_view before, after;
	unsigned under_way = 0, most = 0;
	struct claims claims;

	table_fill();
	ok(claims_count(&table, 0) == 33 && claims_count(&table, 1) == 33 && claims_count(&table, 2) == 66 &&
	       claims_count(&table, 3) == 0,
	   "what each donor holds is counted");
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
	ok(sent == 33 && !wrong && claims.held == 33, "each is claimed once, and nobody else's");
	ok(most == CLAIMS_WINDOW, "no more than %u at a time", CLAIMS_WINDOW);
	chunk_view(&table, 4, &after);
	ok(after.slots[0].address == 104 && after.slots[0].rkey == 204 && after.slots[0].donor == 0 &&
	       after.epoch == before.epoch,
	   "they are where they were said to be, and still the same");
	ok(after.slots[1].address == 7 && after.slots[1].rkey == 8, "the other replicas are where they were");
	claims_begin(&claims, &table, 3);
	ok(claims_over(&claims) && !claims_next(&claims, requests, &slab), "no claims: over at once");
	chunk_table_close(&table);
}

static void test_lies(void)
{
	struct claims claims;
	uint32_t request;
	uint64_t slab;

	table_fill();
	claims_begin(&claims, &table, 2);
	ok(claims_confirmed(&claims, 0, 0, 1, 1) == -EPROTO, "confirmed before anything was claimed");
	claims_next(&claims, &request, &slab);
	ok(claims_confirmed(&claims, request, slab + 1, 1, 1) == -EPROTO, "another slab");
	ok(claims_confirmed(&claims, request + 3000, slab, 1, 1) == -EPROTO, "a claim that was never made");
	ok(claims_confirmed(&claims, UINT32_MAX, slab, 1, 1) == -EPROTO, "nor could be");
	ok(claims_confirmed(&claims, request, slab, 1, 1) == 0 && !claims_over(&claims), "the right one");
	chunk_table_close(&table);
}

/* The donor takes slabs while they are being claimed, and says so. */
static void test_taken(void)
{
	uint32_t request;
	struct claims claims;
	uint64_t slab, sent = 0;

	table_fill();
	claims_begin(&claims, &table, 2);
	chunk_detach(&table, 1, 1);
	ok(claims_next(&claims, &request, &slab) && slab == 1002, "a slab that has gone is not claimed");
	chunk_detach(&table, 2, 1);
	ok(claims_denied(&claims, request, &slab) == 0, "one that goes meanwhile may be denied");
	ok(claims_denied(&claims, request, &slab) == -EPROTO, "once");
	claims_next(&claims, &request, &slab);
	ok(claims_denied(&claims, request, &slab) == 1 && slab == 1004, "one that has not gone, too");
	while (claims_next(&claims, &request, &slab) && slab < 1095)
		sent += claims_confirmed(&claims, request, slab, 1, 1) == 0;
	ok(sent == 60 && !claims_over(&claims), "and the others are claimed");
	claims_confirmed(&claims, request, slab, 1, 1);
	for (unsigned i = 96; i < CHUNKS; i++)
		if (i % 3)
			chunk_detach(&table, i, 1);
	ok(!claims_next(&claims, &request, &slab) && claims_over(&claims), "if the last ones go, too, it is over");
	chunk_table_close(&table);
}

int main(void)
{
	test_all();
	test_taken();
	test_lies();
	return tap_done();
}
