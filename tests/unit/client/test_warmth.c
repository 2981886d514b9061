/* warmth: which rate of which slab is reported, when, and how many slabs a message holds. */
#include "client/lease/warmth.h"
#include "tests/lib/tap.h"

#define CHUNKS 40u
#define SECOND UINT64_C(1000000000)

static struct chunk_table table;
static struct warmth warmth;
static uint64_t now = 1000 * SECOND;

/* Publishes chunk @index with slab 100 + index on donor 0 and slab 200 + index on donor 1. */
static void chunk_lay(uint64_t index)
{
	const struct chunk_slot slots[FAR_REPLICAS_MAX] = {
	    {.address = 0x1000, .rkey = 1, .donor = 0, .slab = 100 + index},
	    {.address = 0x2000, .rkey = 2, .donor = 1, .slab = 200 + index},
	    {.state = SLOT_EMPTY},
	};
	struct chunk_view view;

	chunk_hold(&table, index, 1, &view);
	chunk_publish(&table, index, slots);
}

static void tables_open(uint64_t ready)
{
	chunk_table_open(&table, CHUNKS, 1, 2);
	warmth_open(&warmth, CHUNKS, FAR_DONORS_MAX, now);
	for (uint64_t i = 0; i < ready; i++)
		chunk_lay(i);
}

static void tables_close(void)
{
	chunk_table_close(&table);
	warmth_close(&warmth);
}

/* @donors and the result have one bit for each of the first donors. */
static uint64_t tell(uint64_t donors)
{
	const struct donor_set set = {.words = {donors}};
	struct donor_set told;

	warmth_tell(&warmth, &table, &set, now, &told);
	return told.words[0];
}

/* Lets @seconds pass in which chunk @index moves @pages. Returns the set of @donors that get a report. */
static uint64_t after(uint64_t seconds, uint64_t index, uint32_t pages, uint64_t donors)
{
	now += seconds * SECOND;
	warmth_moved(&warmth, index, pages);
	warmth_look(&warmth, now);
	return tell(donors);
}

static uint32_t told_of(unsigned donor, uint64_t slab)
{
	for (unsigned i = 0; i < WIRE_WARM_SLABS; i++)
		if (warmth.messages[donor].warm.of[i].slab == slab)
			return warmth.messages[donor].warm.of[i].warmth;
	return UINT32_MAX;
}

static void doubled_or_halved_rates_are_reported(void)
{
	tables_open(3);
	ok(!after(1, 1, 100, 3), "no warmth is reported before its interval has passed");
	ok(after(1, 1, 700, 3) == 3 && warmth.messages[0].type == WIRE_WARM,
	   "both donors get a warmth report after the interval");
	ok(told_of(0, 101) == 100 && told_of(1, 201) == 100,
	   "the reported warmth is a quarter of the last rate of 400 pages a second");
	ok(told_of(0, 100) == 0 && told_of(1, 202) == 0, "slabs without accesses are reported as cold");
	ok(told_of(0, 103) == UINT32_MAX, "a chunk without a slab is not reported");
	now += SECOND / 2;
	ok(!tell(3), "a warmth report is sent only once");
	ok(after(2, 1, 200, 3) == 0, "a rate that hardly changes is not reported again");
	for (unsigned i = 0; i < 4; i++)
		after(2, 1, 8000, 3);
	ok(warmth.chunks[1].rate > 2000 && 2 * told_of(0, 101) > warmth.chunks[1].rate,
	   "a rate that has doubled is reported");
	for (unsigned i = 0; i < 60; i++)
		after(2, 0, 0, 3);
	ok(!warmth.chunks[1].rate && told_of(0, 101) == 0, "a rate that falls to zero is reported");
	ok(!after(2, 0, 0, 3), "a rate that stays zero is not reported again");
	tables_close();
}

static void only_reachable_donors_and_new_slabs_are_reported_to(void)
{
	const struct chunk_slot third = {.address = 0x3000, .rkey = 9, .donor = 2, .slab = 300};

	tables_open(1);
	ok(!after(2, 0, 4, 2), "warmth is not reported while one of the chunk's donors cannot be told");
	ok(after(2, 0, 4, 3) == 3, "warmth is reported when all donors can be told");
	chunk_detach(&table, 0, 0);
	chunk_join(&table, 0, 2, &third);
	ok(after(2, 0, 4, 7) == 6 && told_of(2, 300) == warmth.chunks[0].rate,
	   "a chunk's new slab is reported with the current rate");
	ok(!after(2, 0, 4, 7), "a new slab is reported only once");
	tables_close();
}

static void warmth_of_many_slabs_comes_in_several_messages(void)
{
	unsigned count = 0, rounds = 0;
	uint64_t told;

	tables_open(CHUNKS);
	for (told = after(2, 0, 0, 3); told; told = tell(3), rounds++) {
		for (unsigned i = 0; i < WIRE_WARM_SLABS; i++)
			count += warmth.messages[0].warm.of[i].slab != 0;
		ok(!tell(3), "a donor gets one warmth message at a time");
		now += SECOND / 10;
	}
	ok(rounds == 3 && count == CHUNKS, "the warmth of 40 slabs takes three messages to each donor");
	tables_close();
}

int main(void)
{
	doubled_or_halved_rates_are_reported();
	only_reachable_donors_and_new_slabs_are_reported_to();
	warmth_of_many_slabs_comes_in_several_messages();
	return tap_done();
}
