/*
 * Two replicas on real donors in two racks of two donors. A whole rack is killed while requests continue, and no page
 * is lost. The replicas of the killed rack are rebuilt only in that rack, once it is back.
 */
#include "common/clock.h"
#include "tests/func/client/traffic.h"

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
	ok(traffic_good(&traffic) && !rig_stats(rig).lost_pages,
	   "%s: %u requests and all pages are right, and no page is lost", name, traffic.done);
}

static void open_rig(struct rig *rig, uint64_t seed)
{
	rig_donors_in(rig, 4, "32M", racks);
	rig->config.timeout_ms = TIMEOUT_MS;
	rig->config.replicas = 2;
	rig->config.pages = TRAFFIC_PAGES;
	if (seed > 1)
		rig_state(rig);
	rig_open(rig);
	log_begin();
	traffic_begin(&traffic, rig, seed);
}

/* Returns the slabs that the donors of a rack have lent. */
static uint64_t slabs_in(const struct rig *rig, unsigned rack)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < rig->donor_count; i++)
		if (i / 2 == rack)
			bytes += rig_figures(rig, i).leased;
	return bytes / RIG_SLAB;
}

/* Sends requests until each slab has a replica in each rack and no other slab is leased. */
static bool run_until_spread(struct rig *rig)
{
	return wait_until_ms(60000,
			     (traffic_run(&traffic, 20),
			      !rig_stats(rig).slabs_lacking && slabs_in(rig, 0) == SLABS && slabs_in(rig, 1) == SLABS));
}

static void rack_kill(struct rig *rig, unsigned rack)
{
	for (unsigned i = 2 * rack; i < 2 * rack + 2; i++)
		kill(rig->donors[i].pid, SIGKILL);
	for (unsigned i = 2 * rack; i < 2 * rack + 2; i++)
		donor_kill(&rig->donors[i]); /* returns after the donor's end */
}

static void donor_moves(struct donor_process *donor, const char *domain)
{
	donor_start_at(donor, donor->uri, "--donate", "32M", "--slab", "1M", "--reserve", "1M", "--domain", domain);
}

/* Sends requests until @text was logged @nth times. */
static bool run_until(const char *text, unsigned nth)
{
	return wait_until_ms(60000, (traffic_run(&traffic, 50), log_count(text) >= nth));
}

static void killed_rack_loses_no_page_and_is_rebuilt_in_place(void)
{
	struct far_donor_info donors[4];
	struct rig rig;

	open_rig(&rig, 1);
	far_donors(rig.store, donors, 4);
	ok(strcmp(donors[1].failure_domain, "rack1") == 0 && strcmp(donors[2].failure_domain, "rack2") == 0 &&
	       strcmp(rig_figures(&rig, 3).failure_domain, "rack2") == 0,
	   "a donor reports its failure domain");
	ok(run_until_spread(&rig), "each slab has a replica in each rack");
	traffic_run(&traffic, 200);
	rack_kill(&rig, 0);
	traffic_run(&traffic, 300);
	check(&rig, "a rack is killed");
	ok(run_until("what it held is lost", 2), "both donors of a killed rack are given up");
	traffic_run(&traffic, 1500); /* longer than the pause between two searches for a donor with room */
	ok(rig_stats(&rig).slabs_lacking == SLABS && slabs_in(&rig, 1) == SLABS,
	   "the replicas of a killed rack are not rebuilt in the other rack");
	donor_moves(&rig.donors[0], "rack2");
	donor_moves(&rig.donors[1], "rack2");
	ok(run_until("2 replicas cannot be kept in 1 failure domain:", 1) &&
	       log_count("is in failure domain 'rack2' now, not 'rack1'") == 2,
	   "replicas are not rebuilt on donors that return in the other rack, and a line says so");
	traffic_run(&traffic, 1500);
	ok(rig_stats(&rig).slabs_lacking == SLABS && !rig_figures(&rig, 0).leased && !rig_figures(&rig, 1).leased,
	   "donors that return in the other rack are lent no slab");
	donor_kill(&rig.donors[1]);
	donor_moves(&rig.donors[1], "rack1");
	ok(run_until(DONE, 1) && !rig_stats(&rig).slabs_lacking,
	   "replicas are rebuilt on a donor that returns in the killed rack");
	ok(rig_figures(&rig, 1).leased == SLABS * RIG_SLAB, "the returned donor gets all replicas of the killed rack");
	check(&rig, "a rack is back");
	donor_kill(&rig.donors[0]);
	rack_kill(&rig, 1);
	traffic_run(&traffic, 300);
	check(&rig, "the other rack is killed");
	log_show();
	rig_close(&rig);
}

static void adopted_store_keeps_replicas_in_both_racks(void)
{
	struct rig rig;

	open_rig(&rig, 2);
	rig_shut(&rig, true);
	rig_open(&rig);
	/* Writes a slab again at a time when some donors may not be reached yet. */
	store_discard(rig.store, 0, RIG_SLAB_PAGES);
	traffic_rewrite(&traffic, RIG_SLAB_PAGES);
	ok(run_until_spread(&rig), "each slab of an adopted store has a replica in each rack");
	rack_kill(&rig, 1);
	traffic_run(&traffic, 300);
	check(&rig, "adopted, and a rack is killed");
	log_show();
	rig_close(&rig);
}

static void one_domain_is_refused_for_two_replicas(void)
{
	static const char *const names[] = {"rack1", "rack1", "rack1"};
	struct rig rig;

	rig_donors_in(&rig, 3, "32M", names);
	rig.config.replicas = 2;
	log_begin();
	ok(rig_try(&rig) == -EINVAL && log_count("2 replicas cannot be kept in 1 failure domain (") == 1 &&
	       log_count("--domain") == 1,
	   "three donors in one domain are refused for two replicas, and one line says so");
	log_show();
	rig_close(&rig);
}

/* Two unequal racks have the room of the smaller one. */
static void room_is_that_of_the_smaller_rack(void)
{
	static const char *const names[] = {"rack1", "rack1", "rack2"};
	struct rig rig;

	rig_donors_in(&rig, 3, "4M", names);
	rig.config.replicas = 2;
	rig_open(&rig);
	ok(rig_stats(&rig).bytes_available == 8 * RIG_SLAB && rig.store->pages == 4 * 4 * RIG_SLAB_PAGES,
	   "two replicas get 8 of 12 slabs in two unequal racks, and the store is four times that size");
	ok(rig_put(&rig, 0, 1) == 0 && rig_stats(&rig).bytes_available == 6 * RIG_SLAB,
	   "a written chunk takes two slabs from the room");
	donor_kill(&rig.donors[2]);
	ok(log_wait("what it held is lost", 1, NULL) && rig_becomes(&rig, bytes_available, 7 * RIG_SLAB),
	   "with the smaller rack lost, the room is what the other rack has for a single replica");
	log_show();
	rig_close(&rig);
}

int main(void)
{
	log_keep();
	killed_rack_loses_no_page_and_is_rebuilt_in_place();
	adopted_store_keeps_replicas_in_both_racks();
	one_domain_is_refused_for_two_replicas();
	log_begin();
	room_is_that_of_the_smaller_rack();
	return tap_done();
}
