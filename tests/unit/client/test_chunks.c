/* chunks: each transition between states, pages counted under each epoch, and threads that race for a chunk. */
#include "client/page/chunks.h"
#include "client/page/integrity.h"
#include "common/random.h"
#include "tests/lib/tap.h"
#include "tests/unit/client/turn.h"

#include <errno.h>
#include <pthread.h>

#define CHUNKS 100u

static const struct chunk_slot slots_a[FAR_SLOTS_MAX] = {
    {.address = 0x1000, .rkey = 1, .donor = 3, .slab = 11},
    {.address = 0x2000, .rkey = 2, .donor = 4, .slab = 12},
};

static bool attended(struct chunk_table *table, uint64_t index)
{
	bool set = table->attention[index / 64] >> (index % 64) & 1;

	chunk_attention_clear(table, index);
	return set;
}

static void first_write_asks_for_a_slab_and_last_drop_frees_it(struct chunk_table *table)
{
	struct chunk_view view;

	ok(chunk_is_untouched(table, 70) && chunk_state(table, 70) == CHUNK_NONE,
	   "a new chunk is untouched and has no state");
	ok(!chunk_view(table, 70, &view), "a new chunk has no slots to read");
	ok(chunk_hold(table, 70, 2, &view) == CHUNK_ASKED && chunk_state(table, 70) == CHUNK_WANTED &&
	       attended(table, 70),
	   "the first write to a chunk asks for a slab");
	ok(chunk_hold(table, 70, 2, &view) == CHUNK_WAIT && !attended(table, 70),
	   "a second write to a chunk waits for the slab already asked for");
	chunk_publish(table, 70, slots_a);
	ok(chunk_hold(table, 70, 2, &view) == CHUNK_HELD && chunk_pages_held(table, 70) == 2,
	   "a published chunk can be held, and its held pages are counted");
	ok(view.slots[0].address == 0x1000 && view.slots[0].rkey == 1 && view.slots[0].donor == 3 &&
	       view.slots[1].address == 0x2000 && view.slots[1].donor == 4,
	   "a held chunk's view has the published slots");
	ok(!chunk_is_untouched(table, 70) && chunk_is_current(table, 70, view.epoch),
	   "a held chunk is in its current epoch");
	ok(!chunk_drop(table, 70, view.epoch, 1) && !attended(table, 70),
	   "dropping one of two held pages does not call the control thread");
	ok(chunk_drop(table, 70, view.epoch, 1) && attended(table, 70),
	   "dropping the last held page calls the control thread");
	ok(chunk_hold(table, 70, 1, &view) == CHUNK_HELD,
	   "an emptied chunk can be held again before its slab is taken");
	struct chunk_slot slots[FAR_SLOTS_MAX];
	ok(!chunk_take_idle(table, 70, slots), "a chunk that is held again is not taken as idle");
	chunk_drop(table, 70, view.epoch, 1);
	ok(chunk_take_idle(table, 70, slots) && slots[0].slab == 11 && slots[1].slab == 12,
	   "an idle chunk is taken with its slots");
	ok(chunk_state(table, 70) == CHUNK_NONE && !chunk_is_current(table, 70, view.epoch),
	   "a chunk that was taken as idle has no state, and its epoch is over");
}

static void denied_chunk_can_be_asked_for_again(struct chunk_table *table)
{
	uint32_t before = table->chunks[5].denials;
	struct chunk_view view;

	chunk_hold(table, 5, 1, &view);
	chunk_deny(table, 5, -ENOSPC);
	ok(chunk_state(table, 5) == CHUNK_NONE && table->chunks[5].denials == before + 1 &&
	       table->chunks[5].denial == -ENOSPC,
	   "a denied chunk counts the denial and keeps its reason");
	ok(!chunk_is_untouched(table, 5), "a chunk denied for lack of room no longer counts as untouched");
	ok(chunk_hold(table, 5, 1, &view) == CHUNK_ASKED, "a denied chunk can be asked for again");
	chunk_deny(table, 5, -ENOSPC);
	chunk_hold(table, 6, 1, &view);
	chunk_deny(table, 6, -ENOMEM);
	ok(chunk_state(table, 6) == CHUNK_NONE && chunk_is_untouched(table, 6),
	   "a chunk denied for lack of memory still counts as untouched");
}

static void lost_chunk_ends_its_epoch(struct chunk_table *table)
{
	struct chunk_view view, later;
	uint32_t epoch;

	chunk_hold(table, 6, 3, &view);
	chunk_publish(table, 6, slots_a);
	chunk_hold(table, 6, 3, &view);
	chunk_lose(table, 6);
	ok(!chunk_view(table, 6, &later) && !chunk_epoch(table, 6, &epoch), "a chunk being lost cannot be read");
	ok(chunk_hold(table, 6, 1, &later) == CHUNK_WAIT, "a write to a chunk being lost waits");
	ok(!chunk_is_current(table, 6, view.epoch), "a chunk being lost has ended its epoch");
	chunk_lost(table, 6);
	ok(chunk_hold(table, 6, 1, &later) == CHUNK_ASKED, "a lost chunk can be asked for again by a write");
	chunk_publish(table, 6, slots_a);
	chunk_hold(table, 6, 1, &later);
	ok(!chunk_drop(table, 6, view.epoch, 3) && chunk_pages_held(table, 6) == 1,
	   "a drop under an old epoch does not change the pages held in the new one");
}

static void half_full_chunk_asks_for_the_next_one(struct chunk_table *table)
{
	struct chunk_view view;

	chunk_hold(table, 20, 1, &view);
	chunk_publish(table, 20, slots_a);
	chunk_hold(table, 20, 7, &view);
	ok(!chunk_look_ahead(table, 20) && chunk_state(table, 21) == CHUNK_NONE,
	   "a chunk that is less than half full does not ask for the next one");
	chunk_hold(table, 20, 1, &view);
	attended(table, 21);
	ok(chunk_look_ahead(table, 20) && chunk_state(table, 21) == CHUNK_WANTED && table->chunks[21].ahead &&
	       attended(table, 21),
	   "a chunk that is half full asks for the next one ahead of need");
	chunk_deny(table, 21, -ENOSPC);
	ok(!chunk_look_ahead(table, 20) && chunk_state(table, 21) == CHUNK_NONE, "a chunk looks ahead only once");
	ok(chunk_hold(table, 21, 1, &view) == CHUNK_ASKED && !table->chunks[21].ahead,
	   "a write to a chunk whose look-ahead was denied asks for a slab itself");
	chunk_deny(table, 21, -ENOSPC);
	chunk_hold(table, CHUNKS - 1, 1, &view);
	chunk_publish(table, CHUNKS - 1, slots_a);
	chunk_hold(table, CHUNKS - 1, 16, &view);
	ok(!chunk_look_ahead(table, CHUNKS - 1), "the last chunk has no next chunk to ask for");
}

static void touched_chunks_are_counted_once(const struct chunk_table *table)
{
	uint64_t touched = 0;

	for (uint64_t i = 0; i < table->count; i++)
		touched += !chunk_is_untouched(table, i);
	ok(touched == 6 && table->touched == touched, "the table counts each chunk once that is not untouched (%llu)",
	   (unsigned long long)table->touched);
}

static void epochs_wrap_without_looking_untouched(struct chunk_table *table)
{
	struct chunk_view view;

	/* The last epoch before epochs wrap around. */
	table->chunks[8].word = ~((UINT64_C(1) << 34) - 1);
	chunk_hold(table, 8, 1, &view);
	chunk_publish(table, 8, slots_a);
	ok(!chunk_is_untouched(table, 8), "a chunk whose epoch wraps around does not look untouched");
}

/* --- Racing ------------------------------------------------------------------------------------------------- */

#define ROUNDS 20000u

struct race {
	struct chunk_table table;
	_Atomic uint64_t seed; /* of the next thread */
	_Atomic bool stop;
	_Atomic unsigned torn, held;
};

/* Fills @slots with values that all derive from @n, so that a torn view shows. */
static void race_slots(struct chunk_slot slots[], uint64_t n)
{
	for (unsigned i = 0; i < FAR_REPLICAS_MAX; i++)
		slots[i] = (struct chunk_slot){.address = n << 20, .rkey = (uint32_t)n, .donor = n % 50, .slab = n};
}

static bool view_is_whole(const struct chunk_view *view)
{
	for (unsigned i = 0; i < FAR_REPLICAS_MAX; i++) {
		uint64_t n = view->slots[i].rkey;

		if (view->slots[i].address != n << 20 || view->slots[i].donor != n % 50 || n != view->slots[0].rkey)
			return false;
	}
	return true;
}

static void *race_queue(void *argument)
{
	struct race *race = argument;
	struct random_state random;
	struct chunk_view view;

	random_seed(&random, race->seed++);
	while (!race->stop) {
		if (chunk_hold(&race->table, 0, 3, &view) == CHUNK_HELD) {
			race->held++;
			race->torn += !view_is_whole(&view);
			turn(&random);
			chunk_drop(&race->table, 0, view.epoch, 1);
			chunk_drop(&race->table, 0, view.epoch, 2);
		}
		turn(&random);
		if (chunk_view(&race->table, 0, &view))
			race->torn += !view_is_whole(&view);
	}
	return NULL;
}

static void racing_queues_never_see_a_torn_view(void)
{
	struct race race = {.stop = false};
	struct random_state random;
	pthread_t threads[2];
	uint64_t n = 1, last = 0;
	unsigned wrong = 0;

	random_seed(&random, 1);
	chunk_table_open(&race.table, 16, 16, FAR_REPLICAS_MAX);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, race_queue, &race);
	while (n < ROUNDS || !race.held) {
		struct chunk_slot slots[FAR_SLOTS_MAX];

		turn(&random);
		switch (chunk_state(&race.table, 0)) {
		case CHUNK_WANTED:
			race_slots(slots, ++n);
			chunk_publish(&race.table, 0, slots);
			last = n;
			break;
		case CHUNK_READY:
			if (random_below(&random, 2)) {
				chunk_lose(&race.table, 0);
				chunk_lost(&race.table, 0);
			} else if (chunk_take_idle(&race.table, 0, slots)) {
				wrong += slots[0].slab != last;
			}
			break;
		default:
			break;
		}
	}
	race.stop = true;
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ok(!race.torn && !wrong, "no view of the chunk is torn in %u holds that race with the control thread",
	   race.held);
	ok(chunk_state(&race.table, 0) != CHUNK_READY || chunk_pages_held(&race.table, 0) == 0,
	   "after the race no page is held in the READY chunk");
	chunk_table_close(&race.table);
}

/* --- Writes that complete while their donor is declared dead -------------------------------------------------- */

#define DEATHS 5000u
#define DEATH_PAGES 8u

struct deaths {
	struct chunk_table table;
	struct integrity integrity;
	_Atomic bool stop;
	_Atomic unsigned committed, late;
	_Atomic uint64_t next; /* the next page to hand out; each page has one writer */
};

/* Completes writes as client/io/far_answer.c does. */
static void *deaths_write(void *argument)
{
	static const uint8_t data[4096] = {1};
	struct deaths *deaths = argument;
	uint64_t first = atomic_fetch_add(&deaths->next, DEATH_PAGES / 2);
	struct random_state random;
	struct chunk_view view;

	random_seed(&random, first);
	for (uint64_t i = 0; !deaths->stop; i++) {
		uint64_t page = first + i % (DEATH_PAGES / 2);
		uint32_t live;

		turn(&random);
		if (chunk_hold(&deaths->table, 0, 1, &view) != CHUNK_HELD)
			continue;
		turn(&random);
		integrity_prepare(&deaths->integrity, page, data);
		live = integrity_commit(&deaths->integrity, page, 1);
		if (chunk_is_current(&deaths->table, 0, view.epoch)) {
			chunk_drop(&deaths->table, 0, view.epoch, live);
			deaths->committed++;
		} else {
			integrity_lose(&deaths->integrity, page, 1);
			deaths->late++;
		}
	}
	return NULL;
}

static void writes_completing_during_a_loss_leave_no_live_page(void)
{
	struct deaths deaths = {.stop = false};
	struct random_state random;
	pthread_t threads[2];
	unsigned lost = 0;

	random_seed(&random, 1);
	chunk_table_open(&deaths.table, DEATH_PAGES, DEATH_PAGES, 1);
	integrity_open(&deaths.integrity, DEATH_PAGES);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, deaths_write, &deaths);
	/* Goes on until a page was lost after its write had completed, and a write has completed too late. */
	for (unsigned i = 0; i < DEATHS || !lost || !deaths.late;) {
		uint32_t epoch;

		turn(&random);
		if (chunk_state(&deaths.table, 0) == CHUNK_WANTED)
			chunk_publish(&deaths.table, 0, slots_a);
		/* Lose the chunk only when a writer holds a page of it. */
		if (!chunk_epoch(&deaths.table, 0, &epoch) || !chunk_pages_held(&deaths.table, 0))
			continue;
		chunk_lose(&deaths.table, 0);
		lost += integrity_lose(&deaths.integrity, 0, DEATH_PAGES) > 0;
		chunk_lost(&deaths.table, 0);
		i++;
	}
	deaths.stop = true;
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	if (chunk_state(&deaths.table, 0) == CHUNK_READY)
		chunk_lose(&deaths.table, 0), integrity_lose(&deaths.integrity, 0, DEATH_PAGES);
	for (uint64_t page = 0; page < DEATH_PAGES; page++)
		ok(integrity_kind(&deaths.integrity, page) != INTEGRITY_IS_LIVE,
		   "page %u is not live after its chunk was lost under racing writes", (unsigned)page);
	printf("# %u deaths took pages, %u writes completed, %u too late\n", lost, deaths.committed, deaths.late);
	chunk_table_close(&deaths.table);
	integrity_close(&deaths.integrity);
}

int main(void)
{
	struct chunk_table table;

	ok(chunk_table_open(&table, (CHUNKS - 1) * 16 + 1, 16, 2) == 0 && table.count == CHUNKS,
	   "a chunk table opens with as many chunks as its pages need");
	first_write_asks_for_a_slab_and_last_drop_frees_it(&table);
	denied_chunk_can_be_asked_for_again(&table);
	lost_chunk_ends_its_epoch(&table);
	half_full_chunk_asks_for_the_next_one(&table);
	touched_chunks_are_counted_once(&table);
	epochs_wrap_without_looking_untouched(&table);
	chunk_table_close(&table);
	chunk_table_close(&table);
	ok(chunk_table_open(&table, UINT64_MAX / 2, 1, 1) == -EINVAL,
	   "a table of too many chunks is refused with -EINVAL");
	racing_queues_never_see_a_torn_view();
	writes_completing_during_a_loss_leave_no_live_page();
	return tap_done();
}
