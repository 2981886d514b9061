/* A fabric that flips bits, loses operations and breaks off: an error, in time, and never wrong bytes. */
#include "common/clock.h"
#include "common/random.h"
#include "farpage/fabric_faults.h"
#include "tests/func/client/rig.h"
#include "tests/tap.h"

#include <errno.h>

#define PAGES (4 * RIG_SLAB_PAGES)

static void test_read_flips(void)
{
	struct fabric_faults faults = {.corrupt_at = 2}; /* the first operation is the write */
	struct store_stats stats;
	struct rig rig;

	rig_donors(&rig, 1, "16M");
	rig.config.fabric.faults = &faults;
	rig_open(&rig, "fault+tcp");
	rig_fill(rig.bytes, 3, 1);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0, "a page is written");
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EBADMSG, "a bit that flips on its way back is noticed");
	store_stats(rig.store, &stats);
	ok(stats.checksum_errors == 1 && !stats.lost_pages, "and counted");
	ok(rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 1), "the next time it comes back whole");
	rig_close(&rig);
}

static void test_write_flips(void)
{
	struct fabric_faults faults = {.corrupt_at = 1};
	struct rig rig;

	rig_donors(&rig, 1, "16M");
	rig.config.fabric.faults = &faults;
	rig_open(&rig, "fault+tcp");
	for (unsigned i = 0; i < 8; i++)
		rig_fill(rig.bytes + i * STORE_PAGE, i, 1);
	ok(rig_write(&rig, 0, 8, rig.bytes) == 0, "a run is written");
	ok(rig_read(&rig, 0, 8, rig.bytes) == -EBADMSG, "a bit that flipped on its way out is noticed");
	rig_close(&rig);
}

static void test_other_replica(void)
{
	struct fabric_faults faults = {.corrupt_at = 3}; /* two writes, then a read */
	struct rig rig;

	rig_donors(&rig, 2, "16M");
	rig.config.fabric.faults = &faults;
	rig.config.replicas = 2;
	rig_open(&rig, "fault+tcp");
	rig_fill(rig.bytes, 3, 1);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0, "a page is written twice");
	ok(rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 1), "one copy is bad, so the other is read");
	rig_close(&rig);
}

/* No donor has both pages of a read as they were written, but each page is on one of them. */
static void test_each_replica(void)
{
	struct fabric_faults faults = {.corrupt_at = 1};
	struct rig rig;

	rig_donors(&rig, 2, "16M");
	rig.config.fabric.faults = &faults;
	rig.config.replicas = 2;
	rig_open(&rig, "fault+tcp");
	for (unsigned i = 0; i < 4; i++)
		rig_fill(rig.bytes + i * STORE_PAGE, i, 1);
	ok(rig_write(&rig, 1, 1, rig.bytes + STORE_PAGE) == 0, "a page is written twice, one copy is bad");
	faults.corrupt_at = 4;
	ok(rig_write(&rig, 2, 1, rig.bytes + 2 * STORE_PAGE) == 0, "the next one's other copy is bad");
	ok(rig_write(&rig, 0, 1, rig.bytes) == 0 && rig_write(&rig, 3, 1, rig.bytes + 3 * STORE_PAGE) == 0,
	   "two around them are written");
	memset(rig.bytes, 0xee, 4 * STORE_PAGE);
	ok(rig_read(&rig, 0, 4, rig.bytes) == 0, "all four are read at once");
	for (unsigned i = 0; i < 4; i++)
		ok(rig_is(rig.bytes + i * STORE_PAGE, i, 1), "page %u is right", i);
	ok(rig_stats(&rig).checksum_errors >= 2, "both bad copies were seen");
	for (unsigned i = 0; i < 100 && rig_stats(&rig).repaired_pages < 2; i++)
		rig_sleep_ms(100);
	ok(rig_stats(&rig).repaired_pages == 2, "and are mended");
	rig_close(&rig);
}

/* Thousands of requests with bad luck: what is answered well is right. */
static void test_chances(const char *name, struct fabric_faults faults, bool flips)
{
	struct random_state random;
	static uint64_t versions[PAGES];
	unsigned wrong = 0, failed = 0;
	uint64_t slowest = 0;
	struct rig rig;

	memset(versions, 0, sizeof versions);
	random_seed(&random, 9);
	rig_donors(&rig, 2, "16M");
	rig.config.fabric.faults = &faults;
	rig.config.fabric.io_ms = 500;
	rig_open(&rig, "fault+tcp");
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
	ok(!wrong, "%s: no read that succeeds is wrong", name);
	/* Connections that break, and operations that are never answered, cost time. */
	ok(flips ? failed > 0 && failed < 1000 : !failed, "%s: %u of 3000 fail", name, failed);
	ok(flips || faults.seen.dropped || faults.seen.disconnected, "%s: connections broke", name);
	ok(slowest < 2000000000, "%s: none takes much longer than the timeout: %llu ms", name,
	   (unsigned long long)slowest / 1000000);
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	daemon_program(argc > 1 ? argv[1] : NULL);
	test_read_flips();
	test_write_flips();
	test_each_replica();
	test_other_replica();
	test_chances("flips", (struct fabric_faults){.seed = 1, .corrupt_chance = 20000}, true);
	test_chances("drops", (struct fabric_faults){.seed = 5, .drop_chance = 2000}, false);
	test_chances("breaks", (struct fabric_faults){.seed = 3, .disconnect_chance = 2000}, false);
	test_chances(
	    "late and breaks",
	    (struct fabric_faults){
		.seed = 4, .disconnect_at = 1000, .delay_chance = 100000, .delay_min_us = 10, .delay_max_us = 1000},
	    false);
	return tap_done();
}
