/* Bits that flip on their way to and from donors: requests fail, or another replica helps. No bytes are wrong. */
#include "common/clock.h"
#include "common/random.h"
#include "tests/func/client/flips.h"
#include "tests/func/client/rig.h"
#include "tests/lib/tap.h"

#include <errno.h>

#define PAGES (4 * RIG_SLAB_PAGES)

static void flipped_bit_of_a_read_is_an_error(void)
{
	struct store_stats stats;
	struct rig rig;

	rig_donors(&rig, 1, "16M");
	rig_open(&rig);
	rig_fill(rig.bytes, 3, 1);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0, "a page is written before a read flips a bit");
	flips_at(1);
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EBADMSG, "a read with a flipped bit fails with -EBADMSG");
	store_stats(rig.store, &stats);
	ok(stats.checksum_errors == 1 && !stats.lost_pages,
	   "a flipped bit counts as a checksum error, and no page is lost");
	ok(rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 1),
	   "a second read of the page returns its contents");
	rig_close(&rig);
}

static void flipped_bit_of_a_write_is_an_error(void)
{
	struct rig rig;

	rig_donors(&rig, 1, "16M");
	rig_open(&rig);
	for (unsigned i = 0; i < 8; i++)
		rig_fill(rig.bytes + i * STORE_PAGE, i, 1);
	flips_at(1);
	ok(rig_write(&rig, 0, 8, rig.bytes) == 0, "a run is written with a bit flipped on its way");
	ok(rig_read(&rig, 0, 8, rig.bytes) == -EBADMSG,
	   "a read of a run with a bit flipped by its write fails with -EBADMSG");
	rig_close(&rig);
}

static void good_replica_is_read_instead_of_a_bad_one(void)
{
	struct rig rig;

	rig_donors(&rig, 2, "16M");
	rig.config.replicas = 2;
	rig_open(&rig);
	rig_fill(rig.bytes, 3, 1);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0, "a page is written to two donors");
	flips_at(1);
	ok(rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 1),
	   "a page is read right although a bit of the first read flips");
	ok(rig_stats(&rig).checksum_errors == 1, "a flipped bit in the read of one replica is a checksum error");
	rig_close(&rig);
}

/* Neither donor has both pages right, but each page is right on one of them. */
static void read_combines_pages_of_both_replicas(void)
{
	struct rig rig;

	rig_donors(&rig, 2, "16M");
	rig.config.replicas = 2;
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_fill(rig.bytes + i * STORE_PAGE, i, 1);
	flips_at(1);
	ok(rig_write(&rig, 1, 1, rig.bytes + STORE_PAGE) == 0, "a page is written with its first replica bad");
	flips_at(2);
	ok(rig_write(&rig, 2, 1, rig.bytes + 2 * STORE_PAGE) == 0,
	   "the next page is written with its other replica bad");
	ok(rig_write(&rig, 0, 1, rig.bytes) == 0 && rig_write(&rig, 3, 1, rig.bytes + 3 * STORE_PAGE) == 0,
	   "the pages around two bad ones are written");
	memset(rig.bytes, 0xee, 4 * STORE_PAGE);
	ok(rig_read(&rig, 0, 4, rig.bytes) == 0, "a read of four pages succeeds although each donor has a bad one");
	for (unsigned i = 0; i < 4; i++)
		ok(rig_is(rig.bytes + i * STORE_PAGE, i, 1), "page %u of the combined read is right", i);
	ok(rig_stats(&rig).checksum_errors >= 2, "both bad replicas are counted as checksum errors");
	for (unsigned i = 0; i < 100 && rig_stats(&rig).repaired_pages < 2; i++)
		sleep_ms(100);
	ok(rig_stats(&rig).repaired_pages == 2, "both bad replicas are repaired");
	rig_close(&rig);
}

/* Thousands of requests with random flips: each successful read must be right. */
static void random_flips_never_give_wrong_bytes(void)
{
	struct random_state random;
	static uint64_t versions[PAGES];
	unsigned wrong = 0, failed = 0;
	uint64_t slowest = 0;
	struct rig rig;

	memset(versions, 0, sizeof versions);
	random_seed(&random, 9);
	rig_donors(&rig, 2, "16M");
	rig_open(&rig);
	flips_often(20000);
	for (uint64_t i = 1; i <= 3000; i++) {
		uint64_t page = random_below(&random, PAGES), start = clock_now(), time;
		int status;

		if (random_below(&random, 2)) {
			rig_fill(rig.bytes, page, i);
			status = rig_write(&rig, page, 1, rig.bytes);
			if (status == 0)
				versions[page] = i;
		} else {
			status = rig_read(&rig, page, 1, rig.bytes);
			wrong += status == 0 &&
				 !(versions[page] ? rig_is(rig.bytes, page, versions[page]) : rig_is_zero(rig.bytes));
		}
		failed += status != 0;
		time = clock_now() - start;
		slowest = time > slowest ? time : slowest;
	}
	flips_often(0);
	ok(!wrong, "no read that succeeds is wrong although bits flip");
	ok(failed > 0 && failed < 1000, "%u of 3000 requests fail because of flipped bits", failed);
	ok(slowest < 2000000000, "no request takes 2 s because of a flipped bit, and the slowest takes %llu ms",
	   (unsigned long long)slowest / 1000000);
	rig_close(&rig);
}

int main(void)
{
	flipped_bit_of_a_read_is_an_error();
	flipped_bit_of_a_write_is_an_error();
	read_combines_pages_of_both_replicas();
	good_replica_is_read_instead_of_a_bad_one();
	random_flips_never_give_wrong_bytes();
	return tap_done();
}
