/* Stores that are left to another process: it goes on with what there was, or says why it cannot. */
#include "common/auth.h"
#include "common/clock.h"
#include "tests/func/client/rig.h"
#include "tests/func/client/traffic.h"
#include "tests/tap.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static void open_donors(struct rig *rig)
{
	rig_donors(rig, 2, "32M");
	rig_state(rig);
	rig->config.pages = TRAFFIC_PAGES;
}

/* --- Left, and adopted ------------------------------------------------------------------------------------------ */

static struct traffic traffic;

static void test_left(void)
{
	struct store_stats stats;
	struct rig rig;

	open_donors(&rig);
	rig_open(&rig, "tcp");
	traffic_begin(&traffic, &rig, 1);
	for (unsigned i = 0; i < 4; i++) {
		rig_shut(&rig, true);
		rig_open(&rig, "tcp");
		traffic_run(&traffic, 30);
	}
	ok(!traffic.failed && !traffic.wrong, "left and adopted four times: %u requests are right", traffic.done);
	ok(!traffic_check(&traffic), "so are all pages");
	store_stats(rig.store, &stats);
	ok(stats.pages_live == TRAFFIC_PAGES && !stats.lost_pages && !stats.checksum_errors, "and the figures");
	/* Without a size given it is the one it has. */
	rig_shut(&rig, true);
	rig.config.pages = 0;
	rig_open(&rig, "tcp");
	ok(rig.store->pages == TRAFFIC_PAGES && !traffic_check(&traffic), "its size need not be said");
	rig_close(&rig);
}

/* What cannot be adopted so stays for who can. */
static void test_refused(void)
{
	static const uint8_t key[AUTH_KEY_SIZE] = {1};
	const char *swapped[2];
	struct store *other;
	struct far_config config;
	struct rig rig;

	open_donors(&rig);
	rig_open(&rig, "tcp");
	traffic_begin(&traffic, &rig, 2);
	log_begin();
	config = rig.config;
	swapped[0] = rig.uris[1];
	swapped[1] = rig.uris[0];
	config.donors = swapped;
	ok(far_open(&config, &other) == -EBUSY && log_count("\n") == 1 && log_count("in use by another process"),
	   "a store that is in use is not adopted: one line");
	rig_shut(&rig, true);
	log_begin();
	ok(far_open(&config, &other) == -EINVAL && log_count("\n") == 1 && log_count("in the same order"),
	   "other donors: one line");
	rig.config.pages++;
	log_begin();
	ok(rig_try(&rig, "tcp") == -EINVAL && log_count("\n") == 1 && log_count("give that size"),
	   "another size: one line");
	rig.config.pages--;
	rig.config.replicas = 2;
	log_begin();
	ok(rig_try(&rig, "tcp") == -EINVAL && log_count("\n") == 1 && log_count("not of 2"),
	   "another number of replicas: one line");
	rig.config.replicas = 1;
	rig.config.key = key;
	ok(rig_try(&rig, "tcp") == -EKEYREJECTED, "a key that the donors do not take");
	log_show();
	rig.config.key = NULL;
	rig_open(&rig, "tcp");
	ok(!traffic_check(&traffic), "none of that has cost a page");
	rig_shut(&rig, true);
	if (pwrite(rig.state_fd, "x", 1, 9000) != 1)
		ok(false, "the state file can be damaged");
	log_begin();
	ok(rig_try(&rig, "tcp") == -EINVAL && log_count("\n") == 1 && log_count("damaged"),
	   "a damaged header: one line");
	rig_close(&rig);
}

/* --- Donors that went meanwhile --------------------------------------------------------------------------------- */

/* Pages that can be read are right, @ret_failed are lost. */
static bool pages_read(struct rig *rig, unsigned *ret_failed)
{
	unsigned wrong = 0;

	*ret_failed = 0;
	for (uint32_t page = 0; page < TRAFFIC_PAGES; page++) {
		int status = rig_read(rig, page, 1, rig->bytes);

		*ret_failed += status == -EIO;
		wrong += status != -EIO && (status || !rig_is(rig->bytes, page, traffic.versions[page]));
	}
	return !wrong;
}

/* The first of two donors is killed before the store is adopted, and perhaps started anew. */
static void test_donor_gone(bool again)
{
	const char *arguments[] = {"--donate", "32M", "--slab", "1M", "--reserve", "1M", NULL};
	const char *name = again ? "restarted" : "dead";
	struct store_stats stats;
	struct far_donor_info figures[2];
	bool right;
	unsigned failed;
	struct rig rig;

	open_donors(&rig);
	rig.config.timeout_ms = 1000;
	rig_open(&rig, "tcp");
	traffic_begin(&traffic, &rig, 3);
	far_donors(rig.store, figures, 2);
	rig_shut(&rig, true);
	daemon_stop(&rig.donors[0], SIGKILL);
	if (again)
		rig_donor_again(&rig, 0, arguments);
	log_begin();
	rig_open(&rig, "tcp");
	right = pages_read(&rig, &failed);
	ok(right && failed == figures[0].leased_here / STORE_PAGE,
	   "%s: a donor that is: what it held is lost, %u pages, and nothing else", name, failed);
	store_stats(rig.store, &stats);
	ok(stats.lost_pages == failed && !stats.checksum_errors, "%s: the figures say so", name);
	ok(log_count(again ? "has restarted: what it held is lost" : "is gone") == 1, "%s: and one line why", name);
	log_show();
	rig_shut(&rig, true);
	rig_open(&rig, "tcp");
	right = pages_read(&rig, &traffic.failed);
	ok(right && traffic.failed == failed, "%s: the next process finds them lost, and no more", name);
	for (uint32_t page = 0; page < TRAFFIC_PAGES; page++) {
		rig_fill(rig.bytes, page, page);
		traffic.versions[page] = page;
		right &= rig_write(&rig, page, 1, rig.bytes) == 0;
	}
	right &= pages_read(&rig, &failed);
	ok(right && !failed, "%s: and can write all of them again", name);
	if (again) {
		ok(rig_figures(&rig, 0).leased, "%s: also on the donor that has", name);
		rig_shut(&rig, true);
		rig_open(&rig, "tcp");
		ok(pages_read(&rig, &failed) && !failed, "%s: which is adopted like the other", name);
	}
	if (!again)
		ok(rig_figures(&rig, 1).leased == TRAFFIC_PAGES * STORE_PAGE, "%s: on the other donor", name);
	rig_close(&rig);
}

/* Nothing is given up because all is out of reach for a while. */
static void test_all_away(void)
{
	struct rig rig;

	open_donors(&rig);
	rig.config.timeout_ms = 500;
	rig_open(&rig, "tcp");
	traffic_begin(&traffic, &rig, 4);
	rig_shut(&rig, true);
	for (unsigned i = 0; i < 2; i++)
		kill(rig.donors[i].pid, SIGSTOP);
	ok(rig_try(&rig, "tcp") == -ETIMEDOUT, "no donor answers: not adopted");
	log_show();
	for (unsigned i = 0; i < 2; i++)
		kill(rig.donors[i].pid, SIGCONT);
	rig_open(&rig, "tcp");
	ok(!traffic_check(&traffic), "they do: nothing is lost");
	rig_close(&rig);
}

/* A donor that keeps pages for less than it is asked to. */
static void test_grace(void)
{
	const char *arguments[] = {"--donate", "4M", "--slab", "1M", "--reserve", "1M", "--grace", "7", NULL};
	struct rig rig;

	rig_donors(&rig, 0, NULL);
	if (!ok(daemon_start(&rig.donors[0], arguments), "a donor with little patience"))
		return;
	rig.donor_count = rig.config.donor_count = 1;
	rig_state(&rig);
	log_begin();
	rig_open(&rig, "tcp");
	ok(log_count("\n") == 1 && log_count("keeps pages for 7 s when this process has ended, instead of 60 s"),
	   "it is told of");
	rig_shut(&rig, true);
	log_begin();
	rig_open(&rig, "tcp");
	ok(log_count("\n") == 1, "to the next process, too");
	rig_shut(&rig, false);
	rig.config.grace_ms = 7000;
	log_begin();
	rig_open(&rig, "tcp");
	ok(!log_count("\n"), "unless that is what is wished for");
	rig_close(&rig);
}

/* --- Large ------------------------------------------------------------------------------------------------------ */

static void test_large(void)
{
	const char *arguments[] = {"--donate", "32M", "--slab", "16M", "--reserve", "1M", NULL};
	uint64_t pages = UINT64_C(1) << 28, since, opened, adopted, before;
	struct store_stats stats;
	struct rig rig;
	bool good;

	rig_donors(&rig, 0, NULL);
	if (!ok(daemon_start(&rig.donors[0], arguments), "a donor with larger slabs"))
		return;
	rig.donor_count = rig.config.donor_count = 1;
	rig_state(&rig);
	rig.config.pages = pages;
	since = clock_now();
	rig_open(&rig, "tcp");
	opened = clock_now() - since;
	ok(opened < 2000 * MS && rig_state_bytes(&rig) < 13 << 20,
	   "1 TiB opens in %llu ms, and its state takes %llu KiB", (unsigned long long)(opened / MS),
	   (unsigned long long)(rig_state_bytes(&rig) >> 10));
	ok(rig_figures(&rig, 0).leased == 0, "it costs the donor nothing");
	rig_fill(rig.bytes, pages - 1, 1);
	good = rig_write(&rig, pages - 1, 1, rig.bytes) == 0;
	before = rig_state_bytes(&rig);
	for (uint64_t page = 1 << 20; page < pages - (1 << 20); page += pages / 500) {
		good &= rig_read(&rig, page, 1, rig.bytes) == 0 && rig_is_zero(rig.bytes);
		good &= store_same(rig.store, page, rig.bytes);
		store_discard(rig.store, page, 1);
	}
	ok(good && before < 13 << 20 && rig_state_bytes(&rig) == before,
	   "with a page written it takes %llu KiB, whatever is read and discarded besides",
	   (unsigned long long)(before >> 10));
	rig_shut(&rig, true);
	since = clock_now();
	rig_open(&rig, "tcp");
	adopted = clock_now() - since;
	good = rig_read(&rig, pages - 1, 1, rig.bytes) == 0 && rig_is(rig.bytes, pages - 1, 1);
	store_stats(rig.store, &stats);
	ok(good && adopted < 2000 * MS && rig_state_bytes(&rig) == before && stats.pages_live == 1,
	   "it is adopted in %llu ms", (unsigned long long)(adopted / MS));
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	daemon_program(argc > 1 ? argv[1] : NULL);
	log_keep();
	test_left();
	test_refused();
	test_donor_gone(false);
	test_donor_gone(true);
	test_all_away();
	test_grace();
	test_large();
	return tap_done();
}
