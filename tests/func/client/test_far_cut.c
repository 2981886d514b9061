/*
 * Wires that go dead silently, and that lose the donor's messages. Afterwards no page is lost. A dead machine is
 * noticed within a second. In one test a process dies at the other end of the wire. The simulation cuts wires again and
 * again.
 */
#include "common/clock.h"
#include "common/log.h"
#include "tests/func/client/proxy.h"
#include "tests/func/client/traffic.h"

#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define MUTE_MS 3500u

static struct traffic traffic;

/* Starts donors behind wires. The store sees only the wires. @timeout_ms is 0 for the default. */
static void open_wired(struct rig *rig, struct proxy *proxies, unsigned count, unsigned replicas, unsigned timeout_ms)
{
	rig_donors(rig, count, "32M");
	rig->config.timeout_ms = timeout_ms;
	rig->config.replicas = replicas;
	for (unsigned i = 0; i < count; i++) {
		proxy_start(&proxies[i], rig->donors[i].port);
		snprintf(rig->donors[i].uri, sizeof rig->donors[i].uri, "tcp://127.0.0.1:%u", proxies[i].port);
	}
	rig_open(rig);
	for (unsigned i = 0; i < count; i++)
		snprintf(rig->donors[i].uri, sizeof rig->donors[i].uri, "tcp://127.0.0.1:%u", rig->donors[i].port);
}

static void close_wired(struct rig *rig, struct proxy *proxies, unsigned count)
{
	rig_close(rig);
	for (unsigned i = 0; i < count; i++)
		proxy_stop(&proxies[i]);
}

/* The wire goes dead, as when a machine loses power or a cable is pulled. */
static void dead_wire_is_noticed_within_a_second(bool busy)
{
	const char *name = busy ? "busy" : "idle";
	uint64_t died_at, lost, took, told_at = 0;
	unsigned failed = 0;
	struct proxy proxies[2];
	struct rig rig;
	bool told;

	log_setup("farpage", LOG_LEVEL_INFO); /* the line about a silent donor has level info at first */
	open_wired(&rig, proxies, 2, 1, 0);
	traffic_begin(&traffic, &rig, 9);
	log_begin();
	sleep_ms(300);
	lost = rig_time_lost(&rig);
	died_at = clock_now();
	proxy_die(&proxies[0], true);
	for (unsigned i = 0; busy && i < TRAFFIC_DEPTH; i++) {
		struct store_io io = {.op = STORE_READ,
				      .count = 1,
				      .page = i * (TRAFFIC_PAGES / TRAFFIC_DEPTH),
				      .data = rig.bytes + i * STORE_PAGE,
				      .buffer = rig.buffer};

		store_submit(rig.queue, &io, 1);
	}
	told = log_wait("does not answer (no answer in time)", 1, &told_at);
	took = told_at - died_at - (rig_time_lost(&rig) - lost);
	ok(told && took < 1000 * MS, "dead, %s: the loss is noticed after %llu ms of the store's own time", name,
	   (unsigned long long)(took / MS));
	sleep_ms(500);
	proxy_die(&proxies[0], false);
	for (unsigned left = busy ? TRAFFIC_DEPTH : 0; left;) {
		struct store_done dones[TRAFFIC_DEPTH];

		for (int i = 0, count = rig_wait(rig.queue, dones, TRAFFIC_DEPTH); i < count; i++, left--)
			failed += dones[i].status != 0;
	}
	ok(!failed, "dead, %s: all requests are answered once the wire works again", name);
	ok(log_wait("answers again", 1, &told_at), "dead, %s: the donor is reported as answering again", name);
	log_show();
	ok(!traffic_check(&traffic), "dead, %s: all pages are right", name);
	close_wired(&rig, proxies, 2);
	log_setup("farpage", LOG_LEVEL_WARNING);
}

/* The donor notices that the store hangs up, and keeps its slabs as long as the store tries to come back. */
static void mute_donor_keeps_its_slabs_and_answers_again(bool busy)
{
	const char *name = busy ? "busy" : "idle";
	struct store_stats stats;
	struct proxy proxies[2];
	struct store_done done;
	uint64_t told_at;
	struct rig rig;
	int failed = 0;

	open_wired(&rig, proxies, 2, 1, 20000);
	traffic_begin(&traffic, &rig, 11);
	log_begin();
	proxy_mute(&proxies[0], true);
	for (unsigned i = 0; busy && i < 2; i++) {
		struct store_io io = {.op = STORE_READ,
				      .count = 1,
				      .page = i * RIG_SLAB_PAGES, /* the first page of slab i */
				      .data = rig.bytes + i * STORE_PAGE,
				      .buffer = rig.buffer};

		store_submit(rig.queue, &io, 1);
	}
	ok(donor_log_wait(&rig.donors[0], "slabs are kept for 601 s"),
	   "mute, %s: the donor knows that the client lives, and keeps its slabs", name);
	sleep_ms(MUTE_MS); /* longer than a donor waits for a client that may be dead */
	proxy_mute(&proxies[0], false);
	for (unsigned left = busy ? 2 : 0; left; left--)
		failed |= rig_wait(rig.queue, &done, 1) != 1 || done.status;
	ok(!failed, "mute, %s: all requests are answered once the donor is heard again", name);
	ok(log_wait("answers again", 1, &told_at), "mute, %s: the donor is reported as answering again", name);
	ok(!log_count("lost"), "mute, %s: no donor is lost", name);
	log_show();
	ok(!traffic_check(&traffic), "mute, %s: all pages are right", name);
	stats = rig_stats(&rig);
	ok(!stats.lost_pages, "mute, %s: no page is lost", name);
	close_wired(&rig, proxies, 2);
}

/* The store logs no line for the first resets of a dying donor, and one line once its connections are refused. */
static void killed_donors_resets_are_reported_in_one_line(void)
{
	uint64_t killed_at, told_at = 0;
	struct proxy proxies[2];
	unsigned lines;
	struct rig rig;
	bool told;

	open_wired(&rig, proxies, 2, 1, 0);
	traffic_begin(&traffic, &rig, 13);
	log_begin();
	killed_at = clock_now();
	proxy_kill(&proxies[0], 1);
	told = log_wait("is gone (connection refused)", 1, &told_at);
	lines = log_count("\n");
	ok(told, "killed: the donor is lost after %llu ms", (unsigned long long)((told_at - killed_at) / MS));
	ok(lines == 1 || told_at - killed_at > TELL_MS * MS,
	   "killed: the reset before the refusal gets no line of its own");
	log_show();
	close_wired(&rig, proxies, 2);

	open_wired(&rig, proxies, 2, 1, 0);
	traffic_begin(&traffic, &rig, 14);
	log_begin();
	proxy_kill(&proxies[0], 4000);
	ok(log_wait("does not answer (connection reset)", 1, &told_at), "killed: resets that last are reported");
	log_show();
	close_wired(&rig, proxies, 2);
}

int main(void)
{
	const char *uri = getenv("FARPAGE_TEST_URI");

	if (uri && strncmp(uri, "tcp://127.0.0.1:", 16) != 0) {
		printf("1..0 # SKIP the wire is a TCP proxy on loopback\n");
		return 0;
	}
	log_keep();
	dead_wire_is_noticed_within_a_second(false);
	dead_wire_is_noticed_within_a_second(true);
	mute_donor_keeps_its_slabs_and_answers_again(false);
	mute_donor_keeps_its_slabs_and_answers_again(true);
	killed_donors_resets_are_reported_in_one_line();
	return tap_done();
}
