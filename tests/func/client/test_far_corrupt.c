/* A fabric that flips bits, loses operations and breaks off: requests fail in time, and never return wrong bytes. */
#include "common/clock.h"
#include "common/random.h"
#include "farpage/fabric_faults.h"
#include "tests/func/client/rig.h"

#include <errno.h>

#define PAGES (4 * RIG_SLAB_PAGES)

/* Opens a store with a replica on each donor. */
static void open_faulty(struct rig *rig, unsigned donors, struct fabric_faults *faults)
{
	rig_donors(rig, donors, "16M");
	rig->config.fabric.faults = faults;
	rig->config.replicas = donors;
	rig_open(rig, "fault+tcp");
}

static void flipped_bit_of_a_read_is_an_error(void)
{
	struct fabric_faults faults = {.corrupt_at = 2}; /* the first operation is the write */
	struct store_stats stats;
	struct rig rig;

	open_faulty(&rig, 1, &faults);
	ok(rig_put(&rig, 3, 1) == 0, "a page is written before a read flips a bit");
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EBADMSG, "a read with a flipped bit fails with -EBADMSG");
	stats = rig_stats(&rig);
	ok(stats.checksum_errors == 1 && !stats.lost_pages,
	   "a flipped bit counts as a checksum error, and no page is lost");
	ok(rig_has(&rig, 3, 1), "a second read of the page returns its contents");
	rig_close(&rig);
}

static void flipped_bit_of_a_write_is_an_error(void)
{
	struct fabric_faults faults = {.corrupt_at = 1};
	struct rig rig;

	open_faulty(&rig, 1, &faults);
	ok(rig_put_run(&rig, 0, 8, 1) == 0, "a run is written with a bit flipped on its way");
	ok(rig_read(&rig, 0, 8, rig.bytes) == -EBADMSG,
	   "a read of a run with a bit flipped by its write fails with -EBADMSG");
	rig_close(&rig);
}

static void good_replica_is_read_instead_of_a_bad_one(void)
{
	struct fabric_faults faults = {.corrupt_at = 3}; /* two writes, then a read */
	struct rig rig;

	open_faulty(&rig, 2, &faults);
	ok(rig_put(&rig, 3, 1) == 0, "a page is written to two donors");
	ok(rig_has(&rig, 3, 1), "a page is read right although a bit of one operation flips");
	rig_close(&rig);
}

/* Neither donor has both pages right, but each page is right on one of them. */
static void read_combines_pages_of_both_replicas(void)
{
	struct fabric_faults faults = {.corrupt_at = 1};
	struct rig rig;

	open_faulty(&rig, 2, &faults);
	for (unsigned i = 0; i < 4; i++)
		rig_fill(rig.bytes + i * STORE_PAGE, i, 1);
	ok(rig_write(&rig, 1, 1, rig.bytes + STORE_PAGE) == 0, "a page is written with its first replica bad");
	faults.corrupt_at = 4;
	ok(rig_write(&rig, 2, 1, rig.bytes + 2 * STORE_PAGE) == 0,
	   "the next page is written with its other replica bad");
	ok(rig_write(&rig, 0, 1, rig.bytes) == 0 && rig_write(&rig, 3, 1, rig.bytes + 3 * STORE_PAGE) == 0,
	   "the pages around two bad ones are written");
	memset(rig.bytes, 0xee, 4 * STORE_PAGE);
	ok(rig_read(&rig, 0, 4, rig.bytes) == 0, "a read of four pages succeeds although each donor has a bad one");
	for (unsigned i = 0; i < 4; i++)
		ok(rig_is(rig.bytes + i * STORE_PAGE, i, 1), "page %u of the combined read is right", i);
	ok(rig_stats(&rig).checksum_errors >= 2, "both bad replicas are counted as checksum errors");
	ok(rig_becomes(&rig, repaired_pages, 2), "both bad replicas are repaired");
	rig_close(&rig);
}

/* Thousands of requests with random faults: each successful read must be right. */
static void random_faults_never_give_wrong_bytes(const char *name, struct fabric_faults faults, bool flips)
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
			status = rig_put(&rig, page, i);
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
	/* Broken connections and unanswered operations cost time. */
	ok(flips ? failed > 0 && failed < 1000 : !failed, "%s: %u of 3000 requests fail, as many as expected", name,
	   failed);
	ok(flips || faults.seen.dropped || faults.seen.disconnected,
	   "%s: connections break where the faults ask for it", name);
	ok(slowest < 2000000000, "%s: no request takes 2 s, and the slowest takes %llu ms", name,
	   (unsigned long long)slowest / 1000000);
	rig_close(&rig);
}

int main(void)
{
	flipped_bit_of_a_read_is_an_error();
	flipped_bit_of_a_write_is_an_error();
	read_combines_pages_of_both_replicas();
	good_replica_is_read_instead_of_a_bad_one();
	random_faults_never_give_wrong_bytes("flips", (struct fabric_faults){.seed = 1, .corrupt_chance = 20000}, true);
	random_faults_never_give_wrong_bytes("drops", (struct fabric_faults){.seed = 5, .drop_chance = 2000}, false);
	random_faults_never_give_wrong_bytes("breaks", (struct fabric_faults){.seed = 3, .disconnect_chance = 2000},
					     false);
	random_faults_never_give_wrong_bytes(
	    "late and breaks",
	    (struct fabric_faults){
		.seed = 4, .disconnect_at = 1000, .delay_chance = 100000, .delay_min_us = 10, .delay_max_us = 1000},
	    false);
	return tap_done();
}
