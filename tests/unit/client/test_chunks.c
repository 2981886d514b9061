/* chunks: each way through the states, who is counted under which epoch, and threads that race for it. */
#include "client/page/chunks.h"
#include "client/page/integrity.h"
#include "common/random.h"
#include "tests/tap.h"

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

static void test_first_write(struct chunk_table *table)
{
	struct chunk_view view;

	ok(chunk_is_untouched(table, 70) && chunk_state(table, 70) == CHUNK_NONE, "a chunk begins with nothing");
	ok(!chunk_view(table, 70, &view), "there is nothing to read");
	ok(chunk_hold(table, 70, 2, &view) == CHUNK_ASKED && chunk_state(table, 70) == CHUNK_WANTED &&
	       attended(table, 70),
	   "the first write asks for a slab");
	ok(chunk_hold(table, 70, 2, &view) == CHUNK_WAIT && !attended(table, 70), "the second waits");
	chunk_publish(table, 70, slots_a);
	ok(chunk_hold(table, 70, 2, &view) == CHUNK_HELD && chunk_pages_held(table, 70) == 2, "then it is held");
	ok(view.slots[0].address == 0x1000 && view.slots[0].rkey == 1 && view.slots[0].donor == 3 &&
	       view.slots[1].address == 0x2000 && view.slots[1].donor == 4,
	   "with its slots");
	ok(!chunk_is_untouched(table, 70) && chunk_is_current(table, 70, view.epoch), "in the epoch that is");
	ok(!chunk_drop(table, 70, view.epoch, 1) && !attended(table, 70), "one of two dropped: nothing to do");
	ok(chunk_drop(table, 70, view.epoch, 1) && attended(table, 70), "the last: the control thread must know");
	ok(chunk_hold(table, 70, 1, &view) == CHUNK_HELD, "it can be held again meanwhile");
	struct chunk_slot slots[FAR_SLOTS_MAX];
	ok(!chunk_take_idle(table, 70, slots), "then it is not idle");
	chunk_drop(table, 70, view.epoch, 1);
	ok(chunk_take_idle(table, 70, slots) && slots[0].slab == 11 && slots[1].slab == 12, "but now it is");
	ok(chunk_state(table, 70) == CHUNK_NONE && !chunk_is_current(table, 70, view.epoch), "and nothing any more");
}

static void test_denied(struct chunk_table *table)
{
	uint32_t before = table->chunks[5].denials;
	struct chunk_view view;

	chunk_hold(table, 5, 1, &view);
	chunk_deny(table, 5, -ENOSPC);
	ok(chunk_state(table, 5) == CHUNK_NONE && table->chunks[5].denials == before + 1 &&
	       table->chunks[5].denial == -ENOSPC,
	   "a denial is told");
	ok(!chunk_is_untouched(table, 5), "what is kept of its pages is there from then on");
	ok(chunk_hold(table, 5, 1, &view) == CHUNK_ASKED, "it can be asked for again");
	chunk_deny(table, 5, -ENOSPC);
	chunk_hold(table, 6, 1, &view);
	chunk_deny(table, 6, -ENOMEM);
	ok(chunk_state(table, 6) == CHUNK_NONE && chunk_is_untouched(table, 6), "or is not, for lack of memory");
}

static void test_lost(struct chunk_table *table)
{
	struct chunk_view view, later;
	uint32_t epoch;

	chunk_hold(table, 6, 3, &view);
	chunk_publish(table, 6, slots_a);
	chunk_hold(table, 6, 3, &view);
	chunk_lose(table, 6);
	ok(!chunk_view(table, 6, &later) && !chunk_epoch(table, 6, &epoch), "a chunk being lost cannot be read");
	ok(chunk_hold(table, 6, 1, &later) == CHUNK_WAIT, "nor written");
	ok(!chunk_is_current(table, 6, view.epoch), "its epoch is over");
	chunk_lost(table, 6);
	ok(chunk_hold(table, 6, 1, &later) == CHUNK_ASKED, "lost, it can be written again");
	chunk_publish(table, 6, slots_a);
	chunk_hold(table, 6, 1, &later);
	ok(!chunk_drop(table, 6, view.epoch, 3) && chunk_pages_held(table, 6) == 1,
	   "what was held under the old epoch counts no more");
}

static void test_ahead(struct chunk_table *table)
{
	struct chunk_view view;

	chunk_hold(table, 20, 1, &view);
	chunk_publish(table, 20, slots_a);
	chunk_hold(table, 20, 7, &view);
	ok(!chunk_look_ahead(table, 20) && chunk_state(table, 21) == CHUNK_NONE, "less than half full: no look ahead");
	chunk_hold(table, 20, 1, &view);
	attended(table, 21);
	ok(chunk_look_ahead(table, 20) && chunk_state(table, 21) == CHUNK_WANTED && table->chunks[21].ahead &&
	       attended(table, 21),
	   "half full: the next is asked for");
	chunk_deny(table, 21, -ENOSPC);
	ok(!chunk_look_ahead(table, 20) && chunk_state(table, 21) == CHUNK_NONE, "but only once");
	ok(chunk_hold(table, 21, 1, &view) == CHUNK_ASKED && !table->chunks[21].ahead, "a write asks for itself");
	chunk_deny(table, 21, -ENOSPC);
	chunk_hold(table, CHUNKS - 1, 1, &view);
	chunk_publish(table, CHUNKS - 1, slots_a);
	chunk_hold(table, CHUNKS - 1, 16, &view);
	ok(!chunk_look_ahead(table, CHUNKS - 1), "after the last there is none");
}

static void test_epochs(struct chunk_table *table)
{
	struct chunk_view view;

	/* The last epoch before they come round. */
	table->chunks[8].word = ~((UINT64_C(1) << 34) - 1);
	chunk_hold(table, 8, 1, &view);
	chunk_publish(table, 8, slots_a);
	ok(!chunk_is_untouched(table, 8), "epochs come round without looking like the beginning");
}

/* --- Racing ------------------------------------------------------------------------------------------------- */

#define ROUNDS 20000u

struct race {
	struct chunk_table table;
	_Atomic bool stop;
	_Atomic unsigned torn, held;
};

/* Slots whose parts can be told to belong together. */
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
	struct chunk_view view;

	while (!race->stop) {
		if (chunk_hold(&race->table, 0, 3, &view) == CHUNK_HELD) {
			race->held++;
			race->torn += !view_is_whole(&view);
			chunk_drop(&race->table, 0, view.epoch, 1);
			chunk_drop(&race->table, 0, view.epoch, 2);
		}
		if (chunk_view(&race->table, 0, &view))
			race->torn += !view_is_whole(&view);
	}
	return NULL;
}

static void test_race(void)
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
	while (n < ROUNDS) {
		struct chunk_slot slots[FAR_SLOTS_MAX];

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
	ok(!race.torn && !wrong, "no view is torn in %u held ones", race.held);
	ok(chunk_state(&race.table, 0) != CHUNK_READY || chunk_pages_held(&race.table, 0) == 0,
	   "in the end nothing is held");
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
	_Atomic uint64_t turn; /* which of the pages: each has one writer */
};

/* What client/io/far_request.c does about a completed write. */
static void *deaths_write(void *argument)
{
	static const uint8_t data[4096] = {1};
	struct deaths *deaths = argument;
	uint64_t first = atomic_fetch_add(&deaths->turn, DEATH_PAGES / 2);
	struct chunk_view view;

	for (uint64_t i = 0; !deaths->stop; i++) {
		uint64_t page = first + i % (DEATH_PAGES / 2);
		uint32_t live;

		if (chunk_hold(&deaths->table, 0, 1, &view) != CHUNK_HELD)
			continue;
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

static void test_deaths(void)
{
	struct deaths deaths = {.stop = false};
	pthread_t threads[2];
	unsigned lost = 0;

	chunk_table_open(&deaths.table, DEATH_PAGES, DEATH_PAGES, 1);
	integrity_open(&deaths.integrity, DEATH_PAGES);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, deaths_write, &deaths);
	for (unsigned i = 0; i < DEATHS;) {
		uint32_t epoch;

		if (chunk_state(&deaths.table, 0) == CHUNK_WANTED)
			chunk_publish(&deaths.table, 0, slots_a);
		/* Only one that someone has got at. */
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
		ok(integrity_kind(&deaths.integrity, page) != INTEGRITY_IS_LIVE, "page %u is not thought to be there",
		   (unsigned)page);
	printf("# %u deaths took pages, %u writes completed, %u too late\n", lost, deaths.committed, deaths.late);
	chunk_table_close(&deaths.table);
	integrity_close(&deaths.integrity);
}

int main(void)
{
	struct chunk_table table;

	ok(chunk_table_open(&table, (CHUNKS - 1) * 16 + 1, 16, 2) == 0 && table.count == CHUNKS, "open");
	test_first_write(&table);
	test_denied(&table);
	test_lost(&table);
	test_ahead(&table);
	test_epochs(&table);
	chunk_table_close(&table);
	chunk_table_close(&table);
	ok(chunk_table_open(&table, UINT64_MAX / 2, 1, 1) == -EINVAL, "too many chunks are refused");
	ok(!strcmp(chunk_state_name(CHUNK_LOSING), "losing"), "states have names");
	test_race();
	test_deaths();
	return tap_done();
}
