/* Donors with too little: writes say so, nothing else suffers, and room made by a discard is found. */
#include "tests/func/client/rig.h"
#include "tests/tap.h"

#include <errno.h>

#define SLABS 4u /* both donors together */

static void test_spread(struct rig *rig)
{
	struct far_donor_info donors[2];

	for (unsigned i = 0; i < SLABS; i++) {
		rig_fill(rig->bytes, i * RIG_SLAB_PAGES, 1);
		ok(rig_write(rig, i * RIG_SLAB_PAGES, 1, rig->bytes) == 0, "chunk %u finds a slab", i);
	}
	far_donors(rig->store, donors, 2);
	ok(donors[0].leased_here == 2 * RIG_SLAB && donors[1].leased_here == 2 * RIG_SLAB, "both donors are full");
}

static void test_full(struct rig *rig)
{
	struct store_stats stats;

	rig_fill(rig->bytes, SLABS * RIG_SLAB_PAGES, 1);
	ok(rig_write(rig, SLABS * RIG_SLAB_PAGES, 1, rig->bytes) == -ENOSPC, "one more does not");
	ok(rig_write(rig, SLABS * RIG_SLAB_PAGES, 1, rig->bytes) == -ENOSPC, "nor when asked again");
	ok(rig_read(rig, SLABS * RIG_SLAB_PAGES, 1, rig->bytes) == 0 && rig_is_zero(rig->bytes),
	   "its page is what it was: zero");
	rig_fill(rig->bytes, 1, 1);
	ok(rig_write(rig, 1, 1, rig->bytes) == 0, "chunks that have a slab can be written");
	ok(rig_read(rig, 1, 1, rig->bytes) == 0 && rig_is(rig->bytes, 1, 1), "and read");
	store_stats(rig->store, &stats);
	ok(stats.bytes_available == 0 && stats.bytes_leased == SLABS * RIG_SLAB, "the figures say so");
}

/* A run that ends in a chunk without room fails as a whole, after what was under way has ended. */
static void test_partly(struct rig *rig)
{
	uint64_t first = SLABS * RIG_SLAB_PAGES - 8;

	for (unsigned i = 0; i < 16; i++)
		rig_fill(rig->bytes + i * STORE_PAGE, first + i, 2);
	ok(rig_write(rig, first, 16, rig->bytes) == -ENOSPC, "a run that does not fit fails");
	ok(rig_read(rig, first + 8, 8, rig->bytes) == 0 && rig_is_zero(rig->bytes),
	   "and left nothing where it did not");
}

static void test_room(struct rig *rig)
{
	bool good = true;

	store_discard(rig->store, 0, RIG_SLAB_PAGES);
	rig_fill(rig->bytes, SLABS * RIG_SLAB_PAGES, 3);
	ok(rig_write(rig, SLABS * RIG_SLAB_PAGES, 1, rig->bytes) == 0, "a slab emptied just now is taken at once");
	ok(rig_read(rig, SLABS * RIG_SLAB_PAGES, 1, rig->bytes) == 0 && rig_is(rig->bytes, SLABS * RIG_SLAB_PAGES, 3),
	   "and holds the new page");
	ok(rig_read(rig, 1, 1, rig->bytes) == 0 && rig_is_zero(rig->bytes), "not the old one");
	for (unsigned i = 0; i < 200; i++) {
		rig_fill(rig->bytes, i % 2 * RIG_SLAB_PAGES * SLABS, i);
		store_discard(rig->store, (i + 1) % 2 * RIG_SLAB_PAGES * SLABS, RIG_SLAB_PAGES);
		good &= rig_write(rig, i % 2 * RIG_SLAB_PAGES * SLABS, 1, rig->bytes) == 0;
	}
	ok(good, "one slab serves two chunks in turn");
}

/* Memory that another client gives back is found, though the donors were last heard to be full. */
static void test_other_client(struct rig *rig)
{
	const char *uris[] = {rig->donors[0].uri, rig->donors[1].uri};
	struct far_config config = rig->config;
	struct rig other = {.config = config};
	struct store *store;

	config.donors = uris;
	config.pages = SLABS * RIG_SLAB_PAGES;
	ok(far_open(&config, &store) == 0, "another client comes");
	other.store = store;
	store_queue_open(store, &other.queue);
	store_register(store, rig->bytes, STORE_PAGE, &other.buffer);
	rig_fill(rig->bytes, 0, 7);
	ok(rig_write(&other, 0, 1, rig->bytes) == -ENOSPC, "and finds no room");
	store_discard(rig->store, 0, rig->store->pages);
	ok(rig_wait_leased(rig, 0), "the first one gives everything back");
	ok(rig_write(&other, 0, 1, rig->bytes) == 0, "then there is room");
	ok(rig_wait_leased(rig, RIG_SLAB), "for one slab");
	store_queue_close(other.queue);
	store_deregister(store, other.buffer);
	store_close(store);
	ok(rig_wait_leased(rig, 0), "which comes back when the client ends");
}

int main(int argc, char **argv)
{
	struct rig rig;

	daemon_program(argc > 1 ? argv[1] : NULL);
	rig_donors(&rig, 2, "2M");
	rig_open(&rig, "tcp");
	test_spread(&rig);
	test_full(&rig);
	test_partly(&rig);
	test_room(&rig);
	test_other_client(&rig);
	rig_close(&rig);
	return tap_done();
}
