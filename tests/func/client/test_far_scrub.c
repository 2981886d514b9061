/*
 * A client scrubs pages at rest on real donors. A wrong bit is found. It is mended if another donor has the page
 * intact, and otherwise reported. Requests are not disturbed.
 */
#include "client/rebuild/rebuild.h"
#include "common/clock.h"
#include "tests/func/client/flips.h"
#include "tests/func/client/traffic.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
/* A rate at which passes follow each other at once. */
#define FAST (UINT64_C(1) << 40)
#define CHANGED "found before anybody read it"
#define SPOILT "no replica has page 3 as it was written"

static struct traffic traffic;

/* Opens a store and writes a page. A bit flips on the way to the first donor. The page is not read. */
static void open_flipped(struct rig *rig, unsigned donors, uint64_t rate)
{
	rig_donors(rig, donors, "16M");
	rig->config.replicas = donors;
	rig->config.scrub_rate = rate;
	rig_open(rig);
	log_begin();
	rig_fill(rig->bytes, 3, 1);
	flips_at(1);
	ok(rig_write(rig, 3, 1, rig->bytes) == 0, "%u replicas: a page is written, with a wrong bit in one replica",
	   donors);
}

static void wrong_replica_is_mended_before_anybody_reads_it(void)
{
	struct store_stats stats;
	bool passes;
	struct rig rig;

	open_flipped(&rig, 2, FAST);
	ok(rig_reaches(&rig, repaired_pages, 1), "a wrong replica that was never read is repaired");
	ok(rig_stats(&rig).checksum_errors == 1 && log_count(CHANGED) == 1,
	   "a wrong replica counts as one checksum error and is reported in one line");
	passes = rig_reaches(&rig, scrubbed_pages, rig_stats(&rig).scrubbed_pages + 5);
	stats = rig_stats(&rig);
	ok(passes && stats.checksum_errors == 1 && stats.repaired_pages == 1 && !log_count(SPOILT),
	   "a repaired page is found right by the scrubs that follow");
	ok(!stats.reads && rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 1),
	   "a page that was never read before its repair reads right");
	log_show();
	rig_close(&rig);
}

static void wrong_only_copy_is_reported_once(void)
{
	uint64_t errors, told;
	struct rig rig;

	open_flipped(&rig, 1, FAST);
	ok(log_wait(SPOILT, 1, &told) && log_count(CHANGED) >= 1, "a page that is wrong in its only copy is reported");
	ok(rig_stats(&rig).checksum_errors && !rig_stats(&rig).repaired_pages,
	   "a page that is wrong in its only copy counts as an error and is not repaired");
	/* Another page is found right three times, so the last two of these passes began after its write. */
	rig_fill(rig.bytes, 5, 1);
	ok(rig_write(&rig, 5, 1, rig.bytes) == 0 && rig_reaches(&rig, scrubbed_pages, 3) &&
	       rig_stats(&rig).checksum_errors == 1 && log_count(CHANGED) == 1 && log_count(SPOILT) == 1,
	   "a page found wrong again and again is counted and reported once");
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EBADMSG,
	   "reading a page that is wrong in its only copy fails with -EBADMSG");
	rig_fill(rig.bytes, 3, 2);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0 && rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 2),
	   "a wrong page is right once it is written again");
	/* Each pass reads two pages, so the second of two passes began after the write. */
	rig_reaches(&rig, scrubbed_pages, rig_stats(&rig).scrubbed_pages + 4);
	errors = rig_stats(&rig).checksum_errors;
	ok(rig_reaches(&rig, scrubbed_pages, rig_stats(&rig).scrubbed_pages + 4) &&
	       rig_stats(&rig).checksum_errors == errors,
	   "a page written again is found right by the scrubs that follow");
	log_show();
	rig_close(&rig);
}

static bool is_dormant(const struct rig *rig)
{
	uint64_t begun = clock_now();

	while (!atomic_load(&((struct far *)rig->store)->rebuild->scrub.dormant)) {
		if (clock_now() - begun > 60000 * MS)
			return false;
		sleep_ms(5);
	}
	return true;
}

/* The store has no page, then one, then none. At last there is no scrub. */
static void scrub_sleeps_without_pages(void)
{
	struct rig rig;

	rig_donors(&rig, 1, "16M");
	rig.config.scrub_rate = FAST;
	rig_open(&rig);
	ok(is_dormant(&rig), "the scrub of an empty store sleeps");
	rig_fill(rig.bytes, 3, 1);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0 && rig_reaches(&rig, scrubbed_pages, 3),
	   "the scrub wakes up when a page is written");
	store_discard(rig.store, 0, rig.store->pages);
	ok(rig_wait_leased(&rig, 0) && is_dormant(&rig),
	   "the scrub sleeps again after a discard, and all memory is released");
	rig_shut(&rig, false);
	rig.config.scrub_rate = 0;
	rig_open(&rig);
	ok(!((struct far *)rig.store)->rebuild, "a store of one donor with a scrub rate of 0 has no rebuild thread");
	rig_close(&rig);
}

/* With one donor the thread only checks pages, a few at a time. */
static void scrub_of_one_donor_takes_little_memory(void)
{
	struct store_queue *queue;
	uint64_t with, without, queued;
	struct rig rig;

	rig_donors(&rig, 1, "16M");
	rig.config.scrub_rate = FAST;
	rig_open(&rig);
	with = rig_stats(&rig).memory;
	rig_shut(&rig, false);
	rig.config.scrub_rate = 0;
	rig_open(&rig);
	without = rig_stats(&rig).memory;
	if (store_queue_open(rig.store, &queue) < 0)
		abort();
	queued = rig_stats(&rig).memory - without;
	store_queue_close(queue);
	ok(with > without && with - without < queued + (64u << 10),
	   "the scrub of one donor takes %llu KiB, of which a queue takes %llu KiB",
	   (unsigned long long)((with - without) >> 10), (unsigned long long)(queued >> 10));
	rig_close(&rig);
}

/* Writes, reads and discards during the scrub must not look wrong, also while donors go away. */
static void scrub_reports_no_error_amid_requests(void)
{
	struct store_stats stats;
	uint64_t before;
	struct rig rig;

	rig_donors(&rig, 3, "32M");
	rig.config.replicas = 2;
	rig.config.scrub_rate = FAST;
	rig.config.timeout_ms = 10000;
	rig_open(&rig);
	log_begin();
	traffic_begin(&traffic, &rig, 7);
	before = rig_stats(&rig).scrubbed_pages;
	traffic_run(&traffic, 1500);
	ok(rig_reaches(&rig, scrubbed_pages, before + TRAFFIC_PAGES), "pages are scrubbed while others are written");
	donor_kill(&rig.donors[0]);
	traffic_run(&traffic, 1500);
	ok(!traffic_check(&traffic) && !traffic.failed && !traffic.wrong,
	   "all of %u requests and all pages are right when a donor is killed during the scrub", traffic.done);
	stats = rig_stats(&rig);
	ok(!stats.lost_pages && !stats.checksum_errors && !stats.repaired_pages && !log_count(CHANGED) &&
	       !log_count("as it was written"),
	   "no page looks wrong to the scrub amid requests");
	before = clock_now();
	log_show();
	rig_shut(&rig, false);
	ok(clock_now() - before < 20000 * MS, "the store closes within 20 s during a scrub");
	rig_close(&rig);
}

int main(void)
{
	log_keep();
	wrong_replica_is_mended_before_anybody_reads_it();
	wrong_only_copy_is_reported_once();
	scrub_sleeps_without_pages();
	scrub_of_one_donor_takes_little_memory();
	scrub_reports_no_error_amid_requests();
	return tap_done();
}
