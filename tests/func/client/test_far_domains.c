/*
 * Two replicas on real donors that name their failure domains: two racks of two donors. A whole rack is killed while
 * requests go on, and no page is lost; what it had is not made anew in the other rack, but in its own when that is
 * back.
 */
#include "common/clock.h"
#include "tests/func/client/traffic.h"
#include "tests/tap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SLABS (TRAFFIC_PAGES / RIG_SLAB_PAGES)
#define TIMEOUT_MS 5000u
#define DONE "rebuild: done"

static const char *const racks[] = {"rack1", "rack1", "rack2", "rack2"};
static struct traffic traffic;

static void check(struct rig *rig, const char *name)
{
	unsigned wrong = traffic_check(&traffic);

	ok(!traffic.failed && !traffic.wrong && !wrong && !rig_stats(rig).lost_pages,
	   "%s: %u requests, all are right, and no page is lost", name, traffic.done);
}

static void open_rig(struct rig *rig, uint64_t seed)
{
	rig_donors_in(rig, 4, "32M", racks);
	rig->config.timeout_ms = TIMEOUT_MS;
	rig->config.replicas = 2;
	rig->config.pages = TRAFFIC_PAGES;
	if (seed > 1)
		rig_state(rig);
	rig_open(rig, "tcp");
	log_begin();
	traffic_begin(&traffic, rig, seed);
}

/* Slabs in a rack, asked of its donors. */
static uint64_t slabs_in(const struct rig *rig, unsigned rack)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < rig->donor_count; i++)
		if (i / 2 == rack)
			bytes += rig_figures(rig, i).leased;
	return bytes / RIG_SLAB;
}

/* Requests until each slab has a replica in each rack, and nothing else is leased. */
static bool run_until_spread(struct rig *rig)
{
	uint64_t end = clock_now() + 60000 * MS;
	bool spread = false;

	while (!spread && clock_now() < end) {
		traffic_run(&traffic, 20);
		spread = !rig_stats(rig).slabs_lacking && slabs_in(rig, 0) == SLABS && slabs_in(rig, 1) == SLABS;
	}
	return spread;
}

static void rack_kill(struct rig *rig, unsigned rack)
{
	for (unsigned i = 2 * rack; i < 2 * rack + 2; i++)
		kill(rig->donors[i].pid, SIGKILL);
	for (unsigned i = 2 * rack; i < 2 * rack + 2; i++)
		daemon_stop(&rig->donors[i], SIGKILL); /* its end is noted */
}

static bool donor_again(struct rig *rig, unsigned index, const char *domain)
{
	const char *arguments[] = {"--donate", "32M", "--slab", "1M", "--reserve", "1M", "--domain", domain, NULL};

	return rig_donor_again(rig, index, arguments);
}

/* Requests until this was told for the @nth time. */
static bool run_until(const char *text, unsigned nth)
{
	uint64_t end = clock_now() + 60000 * MS;

	while (log_count(text) < nth && clock_now() < end)
		traffic_run(&traffic, 50);
	return log_count(text) >= nth;
}

static void test_rack(void)
{
	struct far_donor_info donors[4];
	struct rig rig;

	open_rig(&rig, 1);
	far_donors(rig.store, donors, 4);
	ok(strcmp(donors[1].domain, "rack1") == 0 && strcmp(donors[2].domain, "rack2") == 0 &&
	       strcmp(rig_figures(&rig, 3).domain, "rack2") == 0,
	   "donors say where they are");
	ok(run_until_spread(&rig), "each slab has a replica in each rack");
	traffic_run(&traffic, 200);
	rack_kill(&rig, 0);
	traffic_run(&traffic, 300);
	check(&rig, "a rack is killed");
	ok(run_until("what it held is lost", 2), "both of its donors are given up");
	traffic_run(&traffic, 1500); /* longer than the pause between two looks for a donor with room */
	ok(rig_stats(&rig).slabs_lacking == SLABS && slabs_in(&rig, 1) == SLABS,
	   "what it had is not made anew in the other rack");
	ok(donor_again(&rig, 0, "rack2") && donor_again(&rig, 1, "rack2") &&
	       run_until("2 replicas cannot be kept in 1 failure domain:", 1) &&
	       log_count("is in failure domain 'rack2' now, not 'rack1'") == 2,
	   "nor on donors that come back in that one, of which a line is told");
	traffic_run(&traffic, 1500);
	ok(rig_stats(&rig).slabs_lacking == SLABS && !rig_figures(&rig, 0).leased && !rig_figures(&rig, 1).leased,
	   "they get nothing");
	daemon_stop(&rig.donors[1], SIGKILL);
	ok(donor_again(&rig, 1, "rack1") && run_until(DONE, 1) && !rig_stats(&rig).slabs_lacking,
	   "but on one that is back where it was");
	ok(rig_figures(&rig, 1).leased == SLABS * RIG_SLAB, "all of it");
	check(&rig, "a rack is back");
	daemon_stop(&rig.donors[0], SIGKILL);
	rack_kill(&rig, 1);
	traffic_run(&traffic, 300);
	check(&rig, "the other rack is killed");
	log_show();
	rig_close(&rig);
}

static void test_adopted(void)
{
	struct rig rig;

	open_rig(&rig, 2);
	rig_shut(&rig, true);
	rig_open(&rig, "tcp");
	/* A slab's worth anew, at a time when not all donors need have been reached again. */
	store_discard(rig.store, 0, RIG_SLAB_PAGES);
	for (uint32_t page = 0; page < RIG_SLAB_PAGES; page++) {
		traffic.versions[page] = ++traffic.version;
		rig_fill(rig.bytes, page, traffic.version);
		traffic.failed += rig_write(&rig, page, 1, rig.bytes) != 0;
	}
	ok(run_until_spread(&rig), "adopted: each slab has a replica in each rack");
	rack_kill(&rig, 1);
	traffic_run(&traffic, 300);
	check(&rig, "adopted, and a rack is killed");
	log_show();
	rig_close(&rig);
}

static void test_too_few(void)
{
	static const char *const names[] = {"rack1", "rack1", "rack1"};
	struct rig rig;

	rig_donors_in(&rig, 3, "32M", names);
	rig.config.replicas = 2;
	log_begin();
	ok(rig_try(&rig, "tcp") == -EINVAL && log_count("2 replicas cannot be kept in 1 failure domain (") == 1 &&
	       log_count("--domain") == 1,
	   "three donors in one domain cannot keep two replicas: one line says so");
	log_show();
	rig_close(&rig);
}

/* What two racks of unequal room can take is what the smaller one has. */
static void test_room(void)
{
	static const char *const names[] = {"rack1", "rack1", "rack2"};
	struct rig rig;

	rig_donors_in(&rig, 3, "4M", names);
	rig.config.replicas = 2;
	rig_open(&rig, "tcp");
	ok(rig_stats(&rig).bytes_available == 8 * RIG_SLAB && rig.store->pages == 4 * 4 * RIG_SLAB_PAGES,
	   "of 12 slabs in two racks 8 can be leased for two replicas, and the store is four times what fits");
	rig_fill(rig.bytes, 0, 1);
	ok(rig_write(&rig, 0, 1, rig.bytes) == 0 && rig_stats(&rig).bytes_available == 6 * RIG_SLAB,
	   "with a chunk written two less");
	daemon_stop(&rig.donors[2], SIGKILL);
	ok(log_wait("what it held is lost", 1, &(uint64_t){0}) && rig_stats(&rig).bytes_available == 7 * RIG_SLAB,
	   "with the smaller one lost, what the other one has: chunks begin with a single replica");
	log_show();
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	daemon_program(argv[1]);
	log_keep();
	test_rack();
	test_adopted();
	test_too_few();
	log_begin();
	test_room();
	return tap_done();
}
