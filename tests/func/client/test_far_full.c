/*
 * Donors with too little memory: writes fail with -ENOSPC, no other request suffers, and room made by a discard is
 * found.
 */
#include "tests/func/client/rig.h"

#include <errno.h>

#define SLABS 4u /* slabs that both donors have together */

static void slabs_are_spread_over_both_donors(struct rig *rig)
{
	struct far_donor_info donors[2];

	for (unsigned i = 0; i < SLABS; i++) {
		ok(rig_put(rig, i * RIG_SLAB_PAGES, 1) == 0, "chunk %u finds a slab", i);
	}
	far_donors(rig->store, donors, 2);
	ok(donors[0].leased_here == 2 * RIG_SLAB && donors[1].leased_here == 2 * RIG_SLAB,
	   "both donors have lent all their slabs");
}

static void full_donors_refuse_new_chunks_only(struct rig *rig)
{
	struct store_stats stats;

	ok(rig_put(rig, SLABS * RIG_SLAB_PAGES, 1) == -ENOSPC, "a write to one more chunk fails with -ENOSPC");
	ok(rig_write(rig, SLABS * RIG_SLAB_PAGES, 1, rig->bytes) == -ENOSPC,
	   "a second write to one more chunk fails with -ENOSPC");
	ok(rig_has(rig, SLABS * RIG_SLAB_PAGES, 0), "a page whose write failed for lack of room reads as zero");
	ok(rig_put(rig, 1, 1) == 0, "a chunk that has a slab can be written while donors are full");
	ok(rig_has(rig, 1, 1), "a chunk that has a slab can be read while donors are full");
	stats = rig_stats(rig);
	ok(stats.bytes_available == 0 && stats.bytes_leased == SLABS * RIG_SLAB,
	   "store_stats() counts no available bytes when donors are full");
}

/* A run that ends in a chunk without room fails as a whole, after its requests in flight have ended. */
static void run_that_does_not_fit_fails_whole(struct rig *rig)
{
	uint64_t first = SLABS * RIG_SLAB_PAGES - 8;

	ok(rig_put_run(rig, first, 16, 2) == -ENOSPC, "a run that ends in a chunk without room fails with -ENOSPC");
	ok(rig_read(rig, first + 8, 8, rig->bytes) == 0 && rig_is_zero(rig->bytes),
	   "a run that fails leaves zeroes in the chunk without room");
}

static void discarded_slab_serves_another_chunk(struct rig *rig)
{
	bool good = true;

	store_discard(rig->store, 0, RIG_SLAB_PAGES);
	ok(rig_put(rig, SLABS * RIG_SLAB_PAGES, 3) == 0, "a slab emptied by a discard serves another chunk at once");
	ok(rig_has(rig, SLABS * RIG_SLAB_PAGES, 3), "a page in a reused slab is read back");
	ok(rig_has(rig, 1, 0), "a discarded page whose slab is reused reads as zero");
	for (unsigned i = 0; i < 200; i++) {
		store_discard(rig->store, (i + 1) % 2 * RIG_SLAB_PAGES * SLABS, RIG_SLAB_PAGES);
		good &= rig_put(rig, i % 2 * RIG_SLAB_PAGES * SLABS, i) == 0;
	}
	ok(good, "one slab serves two chunks in turn, 200 times");
}

/* Memory that another client releases is found, although the donors last reported that they were full. */
static void memory_released_by_another_client_is_found(struct rig *rig)
{
	const char *uris[] = {rig->donors[0].uri, rig->donors[1].uri};
	struct far_config config = rig->config;
	struct rig other = {.config = config, .bytes = rig->bytes};
	struct store *store;

	config.donors = uris;
	config.pages = SLABS * RIG_SLAB_PAGES;
	ok(far_open(&config, &store) == 0, "another client opens a store while donors are full");
	other.store = store;
	store_queue_open(store, &other.queue);
	store_register(store, rig->bytes, STORE_PAGE, &other.buffer);
	ok(rig_put(&other, 0, 7) == -ENOSPC, "a write of another client fails with -ENOSPC while donors are full");
	store_discard(rig->store, 0, rig->store->pages);
	ok(rig_wait_leased(rig, 0), "the first client releases all slabs after a discard");
	ok(rig_wait_room(rig), "a donor has cleared a slab");
	ok(rig_write(&other, 0, 1, rig->bytes) == 0, "another client's write succeeds once there is room");
	ok(rig_wait_leased(rig, RIG_SLAB), "another client's write leases one slab");
	store_queue_close(other.queue);
	store_deregister(store, other.buffer);
	store_close(store);
	ok(rig_wait_leased(rig, 0), "the slabs of a client that ends are released");
}

int main(void)
{
	struct rig rig;

	rig_donors(&rig, 2, "2M");
	rig_open(&rig);
	slabs_are_spread_over_both_donors(&rig);
	full_donors_refuse_new_chunks_only(&rig);
	run_that_does_not_fit_fails_whole(&rig);
	discarded_slab_serves_another_chunk(&rig);
	memory_released_by_another_client_is_found(&rig);
	rig_close(&rig);
	return tap_done();
}
