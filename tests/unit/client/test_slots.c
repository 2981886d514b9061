/* slots: replicas of a chunk that come and go one by one, and writers that race with the changes. */
#include "client/io/far_published.h"
#include "client/page/chunks.h"
#include "common/random.h"
#include "tests/lib/tap.h"
#include "tests/unit/client/turn.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define PAGES 16u

static const struct chunk_slot two[FAR_REPLICAS_MAX] = {
    {.address = 0x1000, .rkey = 1, .donor = 3, .slab = 11},
    {.address = 0x2000, .rkey = 2, .donor = 4, .slab = 12},
};
static const struct chunk_slot third = {.address = 0x3000, .rkey = 9, .donor = 5, .slab = 13};

/* Opens a table with one READY chunk that has two replicas and @held pages. */
static void chunk_open(struct chunk_table *table, uint32_t held, struct chunk_view *ret_view)
{
	chunk_table_open(table, PAGES, PAGES, 2);
	chunk_hold(table, 0, 1, ret_view);
	chunk_publish(table, 0, two);
	chunk_hold(table, 0, held, ret_view);
}

static unsigned count_of(const struct chunk_view *view, enum chunk_slot_state state)
{
	unsigned count = 0;

	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		count += view->slots[i].state == state;
	return count;
}

static void replicas_come_and_go_within_an_epoch(void)
{
	struct chunk_view before, view;
	struct chunk_slot slots[FAR_SLOTS_MAX];
	struct chunk_table table;

	chunk_open(&table, 3, &before);
	ok(count_of(&before, SLOT_FULL) == 2 && count_of(&before, SLOT_EMPTY) == FAR_SLOTS_MAX - 2 &&
	       !chunk_replicas_missing(&table, 0),
	   "a new chunk has all its replicas");
	chunk_detach(&table, 0, 0);
	ok(chunk_view(&table, 0, &view) && view.epoch == before.epoch && view.version != before.version &&
	       view.slots[0].state == SLOT_EMPTY && view.slots[1].state == SLOT_FULL,
	   "detaching a replica changes the version of its chunk and keeps the epoch");
	ok(chunk_pages_held(&table, 0) == 3 && chunk_is_current(&table, 0, before.epoch),
	   "detaching a replica keeps the chunk's held pages and epoch");
	ok(!chunk_is_unchanged(&table, 0, &before) && chunk_is_unchanged(&table, 0, &view),
	   "chunk_is_unchanged() tells a view from before a detach from a view after it");
	ok(chunk_replicas_missing(&table, 0) == 1, "a chunk with a detached replica lacks one");
	chunk_join(&table, 0, 2, &third);
	ok(chunk_view(&table, 0, &view) && view.slots[2].state == SLOT_JOINING && view.slots[2].address == 0x3000 &&
	       view.slots[2].rkey == 9 && view.slots[2].donor == 5 && chunk_replicas_missing(&table, 0) == 1,
	   "a joining slot is not counted as a replica");
	chunk_promote(&table, 0, 2);
	chunk_slots(&table, 0, slots);
	ok(slots[2].state == SLOT_FULL && slots[2].donor == 5 && slots[2].slab == 13 && slots[1].slab == 12 &&
	       !chunk_replicas_missing(&table, 0),
	   "a promoted slot counts as a replica");
	chunk_drop(&table, 0, before.epoch, 3);
	ok(chunk_take_idle(&table, 0, slots) && slots[0].state == SLOT_EMPTY && slots[1].slab == 12 &&
	       slots[2].slab == 13,
	   "taking an idle chunk returns its remaining slots");
	ok(!chunk_hold_ready(&table, 0, 1, &view) && chunk_state(&table, 0) == CHUNK_NONE,
	   "chunk_hold_ready() does not ask for a chunk that is not READY");
	chunk_table_close(&table);
}

static void hindered_chunk_is_reported_once(void)
{
	struct chunk_view view;
	struct chunk_table table;

	chunk_open(&table, 3, &view);
	ok(!chunk_hindered(&table, 0), "a chunk is not hindered before chunk_hinder()");
	chunk_attention_clear(&table, 0);
	chunk_hinder(&table, 0);
	ok(table.attention[0] == 1 && chunk_hindered(&table, 0) && !chunk_hindered(&table, 0),
	   "a hindered chunk calls the control thread and is reported once");
	chunk_table_close(&table);
}

static void recovery_keeps_only_full_replicas(void)
{
	struct chunk_view view;
	struct chunk_table table;

	chunk_open(&table, 3, &view);
	chunk_detach(&table, 0, 1);
	chunk_join(&table, 0, 3, &third);
	ok(chunk_check(&table, 0, 6) == 0, "a chunk with a joining replica passes the check of an adopted store");
	ok(chunk_check(&table, 0, 5) == -EINVAL, "a chunk with a joining replica on an unknown donor fails the check");
	chunk_recover(&table, 0, 2);
	ok(chunk_view(&table, 0, &view) && count_of(&view, SLOT_FULL) == 1 && count_of(&view, SLOT_EMPTY) == 3 &&
	       view.slots[0].donor == 3,
	   "recovery forgets joining and detached replicas");
	table.chunks[0].slots[0].key = 0;
	ok(chunk_check(&table, 0, 6) == -EINVAL, "a chunk without any replica fails the check");
	chunk_table_close(&table);
}

/* --- Racing ------------------------------------------------------------------------------------------------- */

#define ROUNDS 4000u
#define WRITERS 2u
#define SLABS 8u

/* Slabs in memory. The content of a page is the number of its last write. Each page has one writer. */
struct race {
	struct chunk_table table;
	_Atomic uint64_t slabs[SLABS][PAGES];
	_Atomic uint64_t published[WRITERS];
	_Atomic uint64_t window;
	_Atomic unsigned writers;
	_Atomic bool stop;
	_Atomic unsigned wrong, written, anew, kept_out;
};

static struct chunk_slot race_slot(uint64_t slab)
{
	return (struct chunk_slot){
	    .address = slab << 20, .rkey = (uint32_t)slab, .donor = (uint32_t)slab, .slab = slab};
}

static uint64_t slab_of(struct race *race, const struct chunk_slot *slot)
{
	race->wrong += slot->address != (uint64_t)slot->rkey << 20 || slot->donor != slot->rkey;
	return slot->donor;
}

/* Writes as client/io/far_write.c does. Returns false if the write must be retried. */
static bool race_write(struct race *race, unsigned index, uint64_t page, uint64_t number, struct random_state *random)
{
	struct chunk_view view;
	bool goes;

	if (!chunk_view(&race->table, 0, &view))
		return false;
	turn(random); /* here the control thread may change the slots */
	atomic_store(&race->published[index], published_make(page, 1, view.version, true));
	goes = chunk_is_unchanged(&race->table, 0, &view);
	race->anew += !goes;
	if (goes && published_overlaps(atomic_load(&race->window), page, 1)) {
		goes = false;
		race->kept_out++;
	}
	turn(random);
	for (unsigned i = 0; i < FAR_SLOTS_MAX && goes; i++)
		if (view.slots[i].state != SLOT_EMPTY)
			race->slabs[slab_of(race, &view.slots[i])][page] = number;
	atomic_store_explicit(&race->published[index], PUBLISHED_NONE, memory_order_release);
	return goes;
}

static void *race_writer(void *argument)
{
	struct race *race = argument;
	unsigned index = race->writers++;
	uint64_t first = index * (PAGES / WRITERS), number = 0, last[PAGES] = {0};
	struct random_state random;

	random_seed(&random, index);
	while (!race->stop) {
		uint64_t page = first + random_below(&random, PAGES / WRITERS);
		struct chunk_view view;

		number++;
		while (!race->stop && !race_write(race, index, page, number, &random))
			;
		race->written++;
		if (!race->stop)
			last[page] = number;
		page = first + random_below(&random, PAGES / WRITERS);
		/* Every readable replica must have the last write of each page. */
		if (race->stop || !chunk_view(&race->table, 0, &view))
			break;
		for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
			if (view.slots[i].state == SLOT_FULL)
				race->wrong += race->slabs[slab_of(race, &view.slots[i])][page] != last[page] &&
					       chunk_is_unchanged(&race->table, 0, &view);
	}
	return NULL;
}

static bool race_is_at(struct race *race, uint64_t page, const uint32_t *version)
{
	bool found = false;

	for (unsigned i = 0; i < WRITERS; i++) {
		uint64_t word = atomic_load(&race->published[i]);

		found |= version ? published_overlaps(word, 0, PAGES) && !published_is_of(word, *version)
				 : published_overlaps(word, page, 1);
	}
	return found;
}

static void race_settle(struct race *race)
{
	uint32_t version = chunk_version(&race->table, 0);

	while (race_is_at(race, 0, &version))
		sched_yield(); /* to the writer, if it waits for the processor */
}

/*
 * Adds a replica as client/lease/leases_joins.c and client/rebuild/copier.c do: slot @index on @slab, filled from
 * @source.
 */
static void race_join(struct race *race, unsigned index, uint64_t slab, uint64_t source, struct random_state *random)
{
	struct chunk_slot slot = race_slot(slab);

	for (uint64_t page = 0; page < PAGES; page++)
		race->slabs[slab][page] = UINT64_MAX; /* leftovers of another chunk */
	chunk_join(&race->table, 0, index, &slot);
	race_settle(race);
	for (uint64_t page = 0; page < PAGES; page++) {
		uint64_t content;

		atomic_store(&race->window, published_make(page, 1, 0, true));
		while (race_is_at(race, page, NULL))
			sched_yield();
		content = race->slabs[source][page];
		turn(random);
		race->slabs[slab][page] = content;
		atomic_store(&race->window, PUBLISHED_NONE);
	}
	turn(random);
	chunk_promote(&race->table, 0, index);
}

static void racing_writers_reach_every_readable_replica(void)
{
	static struct race race;
	const struct chunk_slot slots[FAR_REPLICAS_MAX] = {race_slot(0), race_slot(1)};
	pthread_t threads[WRITERS];
	struct random_state random;
	struct chunk_view view;
	unsigned differ = 0;

	random_seed(&random, 99);
	chunk_table_open(&race.table, PAGES, PAGES, 2);
	chunk_hold(&race.table, 0, 1, &view);
	chunk_publish(&race.table, 0, slots);
	chunk_hold(&race.table, 0, PAGES, &view);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, race_writer, &race);
	while (race.writers < WRITERS)
		sched_yield();
	for (unsigned i = 0; i < ROUNDS; i++) {
		/* Slab i leaves, and slab i + 2 takes its place. */
		chunk_detach(&race.table, 0, i % 2);
		race_settle(&race);
		race_join(&race, i % 2, (i + 2) % SLABS, (i + 1) % SLABS, &random);
		turn(&random);
	}
	race.stop = true;
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	for (uint64_t page = 0; page < PAGES; page++)
		differ += race.slabs[ROUNDS % SLABS][page] != race.slabs[(ROUNDS + 1) % SLABS][page];
	ok(!race.wrong && race.written,
	   "%u writes reach every readable replica, %u of them after a retry, %u kept out of a rebuild window",
	   race.written, race.anew, race.kept_out);
	ok(!differ, "after the race both replicas have the same contents");
	chunk_table_close(&race.table);
}

int main(void)
{
	replicas_come_and_go_within_an_epoch();
	hindered_chunk_is_reported_once();
	recovery_keeps_only_full_replicas();
	racing_writers_reach_every_readable_replica();
	return tap_done();
}
