/* One client, one page at a time: a written page is read back, an unwritten or discarded page is zero. */
#include "tests/func/client/rig.h"

static void one_page_is_written_and_read_back(struct rig *rig)
{
	struct store_stats stats;

	ok(rig_has(rig, 7, 0), "a page never written reads as zero");
	ok(rig_wait_leased(rig, 0), "reading an unwritten page leases no slab");
	ok(rig_put(rig, 7, 1) == 0, "a page is written");
	ok(rig_has(rig, 7, 1), "a written page is read back");
	ok(rig_wait_leased(rig, RIG_SLAB), "the first written page leases one slab");
	ok(rig_has(rig, 8, 0), "the neighbour of a written page reads as zero");
	stats = rig_stats(rig);
	ok(stats.pages_live == 1 && stats.bytes_leased == RIG_SLAB && stats.reads == 3 && stats.writes == 1 &&
	       stats.zero_reads == 2 && !stats.checksum_errors && !stats.lost_pages,
	   "store_stats() counts the requests, live pages and leased bytes so far");
}

static void store_same_compares_contents(struct rig *rig)
{
	rig_fill(rig->bytes, 7, 1);
	ok(store_same(rig->store, 7, rig->bytes), "store_same() recognises a page's contents");
	ok(!store_same(rig->store, 8, rig->bytes), "store_same() rejects contents for a page never written");
	rig->bytes[4095] ^= 1;
	ok(!store_same(rig->store, 7, rig->bytes), "store_same() rejects contents with one bit changed");
	memset(rig->bytes, 0, STORE_PAGE);
	ok(store_same(rig->store, 8, rig->bytes) && !store_same(rig->store, 7, rig->bytes),
	   "store_same() finds zeroes in a page never written, and not in a written one");
}

static void discarded_page_is_zero_and_releases_its_slab(struct rig *rig)
{
	store_discard(rig->store, 7, 1);
	ok(rig_has(rig, 7, 0), "a discarded page reads as zero");
	ok(rig_wait_leased(rig, 0), "the slab of a discarded page is released");
	ok(rig_put(rig, 7, 2) == 0, "a discarded page can be written again");
	ok(rig_has(rig, 7, 2), "a page written after a discard is read back");
	memset(rig->bytes, 0, STORE_PAGE);
	ok(rig_write(rig, 7, 1, rig->bytes) == 0 && rig_wait_leased(rig, 0),
	   "a page overwritten with zeroes releases its slab");
	ok(rig_has(rig, 7, 0), "a page overwritten with zeroes reads as zero");
}

static void runs_cross_slabs_and_zero_pages(struct rig *rig)
{
	uint64_t first = RIG_SLAB_PAGES - 100;
	bool same = true;

	for (unsigned i = 0; i < STORE_RUN_MAX; i++)
		if (i % 5)
			rig_fill(rig->bytes + i * STORE_PAGE, first + i, 3);
		else
			memset(rig->bytes + i * STORE_PAGE, 0, STORE_PAGE);
	ok(rig_write(rig, first, STORE_RUN_MAX, rig->bytes) == 0,
	   "a run across two slabs with zero pages in it is written");
	memset(rig->bytes, 0xee, STORE_RUN_MAX * STORE_PAGE);
	ok(rig_read(rig, first, STORE_RUN_MAX, rig->bytes) == 0, "a run across two slabs is read with one request");
	for (unsigned i = 0; i < STORE_RUN_MAX; i++)
		same &= i % 5 ? rig_is(rig->bytes + i * STORE_PAGE, first + i, 3)
			      : rig_is_zero(rig->bytes + i * STORE_PAGE);
	ok(same, "a run across two slabs is read as it was written");
	store_discard(rig->store, 0, rig->store->pages);
	ok(rig_wait_leased(rig, 0), "discarding the whole store releases all slabs");
}

int main(void)
{
	struct rig rig;

	rig_donors(&rig, 2, "16M");
	rig_open(&rig);
	ok(rig.store->pages == 4 * 2 * (16u << 20) / STORE_PAGE,
	   "the store has four times the pages that its donors lend");
	one_page_is_written_and_read_back(&rig);
	store_same_compares_contents(&rig);
	discarded_page_is_zero_and_releases_its_slab(&rig);
	runs_cross_slabs_and_zero_pages(&rig);
	rig_close(&rig);
	return tap_done();
}
