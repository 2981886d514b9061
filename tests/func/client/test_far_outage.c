/*
 * All donors are out of reach at once, as while a switch starts again. With replicas, a donor that has the last copy
 * of a page is waited for longer than other donors.
 */
#include "tests/func/client/traffic.h"

#include <pthread.h>
#include <signal.h>

#define TIMEOUT_MS 1000u
#define OUTAGE_MS 3000u /* longer than TIMEOUT_MS, and the time in which a silent donor is noticed */
#define LOST "what it held is lost"
#define NEEDED "no donor in reach has"

static struct traffic traffic;

static void open_rig(struct rig *rig, unsigned last_timeout_ms, uint64_t seed)
{
	rig_donors(rig, 2, "32M");
	rig->config.timeout_ms = TIMEOUT_MS;
	rig->config.last_timeout_ms = last_timeout_ms;
	rig->config.replicas = 2;
	rig->config.pages = TRAFFIC_PAGES;
	rig_open(rig);
	log_begin();
	traffic_begin(&traffic, rig, seed);
	traffic_run(&traffic, 200);
}

static void all_donors(const struct rig *rig, int signal)
{
	for (unsigned i = 0; i < rig->donor_count; i++)
		kill(rig->donors[i].pid, signal);
}

static void *wake_one_by_one(void *argument)
{
	const struct rig *rig = argument;

	sleep_ms(OUTAGE_MS);
	kill(rig->donors[0].pid, SIGCONT);
	sleep_ms(TIMEOUT_MS / 2);
	kill(rig->donors[1].pid, SIGCONT);
	return NULL;
}

static void outage_of_all_donors_loses_no_page(void)
{
	struct rig rig;
	bool needed;

	open_rig(&rig, 60000, 1);
	all_donors(&rig, SIGSTOP);
	needed = log_wait(NEEDED, 1, NULL);
	sleep_ms(TIMEOUT_MS);
	all_donors(&rig, SIGCONT);
	traffic_run(&traffic, 500);
	ok(needed && !log_count(LOST), "no donor is lost in an outage of all that is longer than the timeout");
	ok(traffic_good(&traffic) && !rig_stats(&rig).lost_pages, "after the outage all pages are right");
	log_show();
	rig_close(&rig);
}

/* Requests wait during the outage. The second donor comes back later than the first one. */
static void donors_that_return_one_by_one_are_kept(void)
{
	struct rig rig;

	open_rig(&rig, 60000, 4);
	all_donors(&rig, SIGSTOP);
	pthread_t thread;
	pthread_create(&thread, NULL, wake_one_by_one, &rig);
	traffic_run(&traffic, OUTAGE_MS);
	pthread_join(thread, NULL);
	traffic_run(&traffic, 500);
	ok(log_count(NEEDED) <= 2, "each donor with last copies is told of once, although requests wait for it");
	ok(!log_count(LOST), "a donor that returns soon after another one is not lost");
	ok(traffic_good(&traffic) && !rig_stats(&rig).lost_pages, "requests that waited during the outage are right");
	log_show();
	rig_close(&rig);
}

static void donor_that_stays_away_is_lost_once_another_is_back(void)
{
	struct rig rig;

	open_rig(&rig, 60000, 2);
	all_donors(&rig, SIGSTOP);
	sleep_ms(OUTAGE_MS);
	kill(rig.donors[1].pid, SIGCONT);
	traffic_run(&traffic, 500);
	ok(log_wait(LOST, 1, NULL), "a donor that stays away is lost once another donor has its pages in reach");
	traffic_run(&traffic, 200);
	ok(traffic_good(&traffic) && !rig_stats(&rig).lost_pages, "no page is lost with the donor that stays away");
	all_donors(&rig, SIGCONT);
	log_show();
	rig_close(&rig);
}

static void last_copies_are_given_up_in_the_end(void)
{
	struct rig rig;

	open_rig(&rig, OUTAGE_MS, 3);
	all_donors(&rig, SIGSTOP);
	ok(log_wait(LOST, 2, NULL) && rig_reaches(&rig, lost_pages, 1), "pages are lost after the longer timeout");
	all_donors(&rig, SIGCONT);
	log_show();
	rig_close(&rig);
}

int main(void)
{
	log_keep();
	outage_of_all_donors_loses_no_page();
	donors_that_return_one_by_one_are_kept();
	donor_that_stays_away_is_lost_once_another_is_back();
	last_copies_are_given_up_in_the_end();
	return tap_done();
}
