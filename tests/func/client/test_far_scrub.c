/*
 * Pages that nobody reads, on real donors, and a client that looks at them now and then: a bit that is wrong is found
 * and mended while another donor has it right, and told when none has. Requests meanwhile notice nothing.
 */
#include "client/rebuild/rebuild.h"
#include "common/clock.h"
#include "farpage/fabric_faults.h"
#include "tests/func/client/traffic.h"
#include "tests/tap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
/* So fast that passes follow each other at once. */
#define FAST (UINT64_C(1) << 40)
#define CHANGED "found before anybody read it"
#define SPOILT "no replica has page 3 as it was written"

static struct traffic traffic;

/* Until *@figure, of rig_stats(), is @least at least: whether it is, in time. */
#define reaches(rig, figure, least) rig_figure_is(rig, offsetof(struct store_stats, figure), least, UINT64_MAX)

/* A bit of what the first operation writes is flipped; nothing is read. */
static void open_flipped(struct rig *rig, struct fabric_faults *faults, unsigned donors, uint64_t rate)
{
	rig_donors(rig, donors, "16M");
	rig->config.fabric.faults = faults;
	rig->config.replicas = donors;
	rig->config.scrub_rate = rate;
	rig_open(rig, "fault+tcp");
	log_begin();
	rig_fill(rig->bytes, 3, 1);
	ok(rig_write(rig, 3, 1, rig->bytes) == 0, "%u replicas: a page is written, with a wrong bit in one", donors);
}

static void test_mended(void)
{
	struct fabric_faults faults = {.corrupt_at = 1};
	struct store_stats stats;
	bool passes;
	struct rig rig;

	open_flipped(&rig, &faults, 2, FAST);
	ok(reaches(&rig, repaired_pages, 1), "it is written anew, and nobody has read it");
	ok(rig_stats(&rig).checksum_errors == 1 && log_count(CHANGED) == 1, "it is counted, and told in one line");
	passes = reaches(&rig, scrubbed_pages, rig_stats(&rig).scrubbed_pages + 5);
	stats = rig_stats(&rig);
	ok(passes && stats.checksum_errors == 1 && stats.repaired_pages == 1 && !log_count(SPOILT),
	   "then both have it right");
	ok(!stats.reads && rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 1), "and it reads so");
	log_show();
	rig_close(&rig);
}

static void test_told(void)
{
	struct fabric_faults faults = {.corrupt_at = 1};
	uint64_t errors, told;
	struct rig rig;

	open_flipped(&rig, &faults, 1, FAST);
	ok(log_wait(SPOILT, 1, &told) && log_count(CHANGED) >= 1, "one copy: that no donor has it right is told");
	ok(rig_stats(&rig).checksum_errors && !rig_stats(&rig).repaired_pages, "and counted, and nothing is mended");
	/* Another page is found right three times: of as many passes the last two have begun after that. */
	rig_fill(rig.bytes, 5, 1);
	ok(rig_write(&rig, 5, 1, rig.bytes) == 0 && reaches(&rig, scrubbed_pages, 3) &&
	       rig_stats(&rig).checksum_errors == 1 && log_count(CHANGED) == 1 && log_count(SPOILT) == 1,
	   "once, however often it is found so");
	ok(rig_read(&rig, 3, 1, rig.bytes) == -EBADMSG, "reading it is an error");
	rig_fill(rig.bytes, 3, 2);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0 && rig_read(&rig, 3, 1, rig.bytes) == 0 && rig_is(rig.bytes, 3, 2),
	   "until it is written again");
	/* Two pages each: of two passes the second has begun after that. */
	reaches(&rig, scrubbed_pages, rig_stats(&rig).scrubbed_pages + 4);
	errors = rig_stats(&rig).checksum_errors;
	ok(reaches(&rig, scrubbed_pages, rig_stats(&rig).scrubbed_pages + 4) &&
	       rig_stats(&rig).checksum_errors == errors,
	   "then it is found right");
	log_show();
	rig_close(&rig);
}

static bool is_dormant(const struct rig *rig)
{
	uint64_t begun = clock_now();

	while (!atomic_load(&((struct far *)rig->store)->rebuild->scrub.dormant)) {
		if (clock_now() - begun > 60000 * MS)
			return false;
		rig_sleep_ms(5);
	}
	return true;
}

/* Nothing to do, then something, then nothing; and not at all. */
static void test_sleeps(void)
{
	struct rig rig;

	rig_donors(&rig, 1, "16M");
	rig.config.scrub_rate = FAST;
	rig_open(&rig, "tcp");
	ok(is_dormant(&rig), "an empty store's scrub sleeps");
	rig_fill(rig.bytes, 3, 1);
	ok(rig_write(&rig, 3, 1, rig.bytes) == 0 && reaches(&rig, scrubbed_pages, 3), "until a page is written");
	store_discard(rig.store, 0, rig.store->pages);
	ok(rig_wait_leased(&rig, 0) && is_dormant(&rig),
	   "and again when it is discarded, and all memory is given back");
	rig_shut(&rig, false);
	rig.config.scrub_rate = 0;
	rig_open(&rig, "tcp");
	ok(!((struct far *)rig.store)->rebuild, "a rate of 0 and one donor: there is no such thread");
	rig_close(&rig);
}

/* With one donor the thread only looks, a little at a time. */
static void test_memory(void)
{
	struct store_queue *queue;
	uint64_t with, without, queued;
	struct rig rig;

	rig_donors(&rig, 1, "16M");
	rig.config.scrub_rate = FAST;
	rig_open(&rig, "tcp");
	with = rig_stats(&rig).memory;
	rig_shut(&rig, false);
	rig.config.scrub_rate = 0;
	rig_open(&rig, "tcp");
	without = rig_stats(&rig).memory;
	if (store_queue_open(rig.store, &queue) < 0)
		abort();
	queued = rig_stats(&rig).memory - without;
	store_queue_close(queue);
	ok(with > without && with - without < queued + (64u << 10),
	   "one donor: it takes %llu KiB, of which a queue is %llu", (unsigned long long)((with - without) >> 10),
	   (unsigned long long)(queued >> 10));
	rig_close(&rig);
}

/* What is written, read and discarded meanwhile looks wrong to nobody; and donors go away. */
static void test_busy(void)
{
	struct store_stats stats;
	uint64_t before;
	struct rig rig;

	rig_donors(&rig, 3, "32M");
	rig.config.replicas = 2;
	rig.config.scrub_rate = FAST;
	rig.config.timeout_ms = 10000;
	rig_open(&rig, "tcp");
	log_begin();
	traffic_begin(&traffic, &rig, 7);
	before = rig_stats(&rig).scrubbed_pages;
	traffic_run(&traffic, 1500);
	ok(reaches(&rig, scrubbed_pages, before + TRAFFIC_PAGES), "pages are looked at while others are written");
	daemon_stop(&rig.donors[0], SIGKILL);
	traffic_run(&traffic, 1500);
	ok(!traffic_check(&traffic) && !traffic.failed && !traffic.wrong,
	   "one donor is killed: %u requests, all are right, and so are all pages", traffic.done);
	stats = rig_stats(&rig);
	ok(!stats.lost_pages && !stats.checksum_errors && !stats.repaired_pages && !log_count(CHANGED) &&
	       !log_count("as it was written"),
	   "and none of them looked wrong");
	before = clock_now();
	log_show();
	rig_shut(&rig, false);
	ok(clock_now() - before < 20000 * MS, "the store closes while it goes on");
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	daemon_program(argc > 1 ? argv[1] : NULL);
	log_keep();
	test_mended();
	test_told();
	test_sleeps();
	test_memory();
	test_busy();
	return tap_done();
}
