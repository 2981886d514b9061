/* One client, one page at a time: what was written is read, what was not is zero, what is discarded is zero again. */
#include "tests/func/client/rig.h"
#include "tests/tap.h"

static void test_one_page(struct rig *rig)
{
	struct store_stats stats;

	memset(rig->bytes, 0xee, STORE_PAGE);
	ok(rig_read(rig, 7, 1, rig->bytes) == 0 && rig_is_zero(rig->bytes), "a page never written is zero");
	ok(rig_wait_leased(rig, 0), "reading it takes no slab");
	rig_fill(rig->bytes, 7, 1);
	ok(rig_write(rig, 7, 1, rig->bytes) == 0, "a page is written");
	ok(rig_read(rig, 7, 1, rig->bytes + STORE_PAGE) == 0 && rig_is(rig->bytes + STORE_PAGE, 7, 1), "and read back");
	ok(rig_wait_leased(rig, RIG_SLAB), "it takes one slab");
	ok(rig_read(rig, 8, 1, rig->bytes) == 0 && rig_is_zero(rig->bytes), "its neighbour is still zero");
	store_stats(rig->store, &stats);
	ok(stats.pages_live == 1 && stats.bytes_leased == RIG_SLAB && stats.reads == 3 && stats.writes == 1 &&
	       stats.zero_reads == 2 && !stats.checksum_errors && !stats.lost_pages,
	   "the figures say so");
}

static void test_same(struct rig *rig)
{
	rig_fill(rig->bytes, 7, 1);
	ok(store_same(rig->store, 7, rig->bytes), "the same contents are the same");
	ok(!store_same(rig->store, 8, rig->bytes), "they are not those of a page never written");
	rig->bytes[4095] ^= 1;
	ok(!store_same(rig->store, 7, rig->bytes), "one bit makes a difference");
	memset(rig->bytes, 0, STORE_PAGE);
	ok(store_same(rig->store, 8, rig->bytes) && !store_same(rig->store, 7, rig->bytes),
	   "zeroes are those of a page never written");
}

static void test_discard(struct rig *rig)
{
	store_discard(rig->store, 7, 1);
	memset(rig->bytes, 0xee, STORE_PAGE);
	ok(rig_read(rig, 7, 1, rig->bytes) == 0 && rig_is_zero(rig->bytes), "a discarded page is zero");
	ok(rig_wait_leased(rig, 0), "its slab goes back");
	rig_fill(rig->bytes, 7, 2);
	ok(rig_write(rig, 7, 1, rig->bytes) == 0, "it can be written again");
	ok(rig_read(rig, 7, 1, rig->bytes + STORE_PAGE) == 0 && rig_is(rig->bytes + STORE_PAGE, 7, 2), "and read back");
	memset(rig->bytes, 0, STORE_PAGE);
	ok(rig_write(rig, 7, 1, rig->bytes) == 0 && rig_wait_leased(rig, 0), "written with zeroes it costs nothing");
	memset(rig->bytes, 0xee, STORE_PAGE);
	ok(rig_read(rig, 7, 1, rig->bytes) == 0 && rig_is_zero(rig->bytes), "and reads as zeroes");
}

static void test_runs(struct rig *rig)
{
	uint64_t first = RIG_SLAB_PAGES - 100;
	bool same = true;

	for (unsigned i = 0; i < STORE_RUN_MAX; i++)
		if (i % 5)
			rig_fill(rig->bytes + i * STORE_PAGE, first + i, 3);
		else
			memset(rig->bytes + i * STORE_PAGE, 0, STORE_PAGE);
	ok(rig_write(rig, first, STORE_RUN_MAX, rig->bytes) == 0, "a run over a slab's end, with zero pages in it");
	memset(rig->bytes, 0xee, STORE_RUN_MAX * STORE_PAGE);
	ok(rig_read(rig, first, STORE_RUN_MAX, rig->bytes) == 0, "is read in one go");
	for (unsigned i = 0; i < STORE_RUN_MAX; i++)
		same &= i % 5 ? rig_is(rig->bytes + i * STORE_PAGE, first + i, 3)
			      : rig_is_zero(rig->bytes + i * STORE_PAGE);
	ok(same, "and is what was written");
	store_discard(rig->store, 0, rig->store->pages);
	ok(rig_wait_leased(rig, 0), "discarding everything gives everything back");
}

int main(int argc, char **argv)
{
	struct rig rig;

	daemon_program(argc > 1 ? argv[1] : NULL);
	rig_donors(&rig, 2, "16M");
	rig_open(&rig, "tcp");
	ok(rig.store->pages == 4 * 2 * (16u << 20) / STORE_PAGE, "the array is four times what donors lend");
	test_one_page(&rig);
	test_same(&rig);
	test_discard(&rig);
	test_runs(&rig);
	rig_close(&rig);
	return tap_done();
}
