/* Stores that are left and adopted. The next process has all pages, or logs why it cannot adopt the store. */
#include "client/page/state.h"
#include "tests/func/client/rig.h"
#include "tests/func/client/traffic.h"
#include "tests/lib/sanitizers.h"
#include "wire/auth.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

static void open_donors(struct rig *rig)
{
	rig_donors(rig, 2, "32M");
	rig_state(rig);
	rig->config.pages = TRAFFIC_PAGES;
}

/* Starts one donor with these slabs and this grace time. */
static void open_donor(struct rig *rig, const char *slab, const char *grace)
{
	rig_donors(rig, 0, NULL);
	donor_start(&rig->donors[0], "--donate", "32M", "--slab", slab, "--reserve", "1M", "--grace", grace);
	rig->donor_count = rig->config.donor_count = 1;
	rig_state(rig);
}

/* --- Left, and adopted ------------------------------------------------------------------------------------------ */

static struct traffic traffic;

static void left_store_is_adopted_with_all_pages(void)
{
	struct store_stats stats;
	struct rig rig;

	open_donors(&rig);
	rig_open(&rig);
	traffic_begin(&traffic, &rig, 1);
	for (unsigned i = 0; i < 4; i++) {
		rig_shut(&rig, true);
		rig_open(&rig);
		traffic_run(&traffic, 30);
	}
	ok(!traffic.failed && !traffic.wrong, "a store left and adopted four times carries out %u requests right",
	   traffic.done);
	ok(!traffic_check(&traffic), "all pages are right after four adoptions");
	stats = rig_stats(&rig);
	ok(stats.pages_live == TRAFFIC_PAGES && !stats.lost_pages && !stats.checksum_errors,
	   "an adopted store counts all pages live and none lost");
	/* An adoption that gives no size keeps the store's size. */
	rig_shut(&rig, true);
	rig.config.pages = 0;
	rig_open(&rig);
	ok(rig.store->pages == TRAFFIC_PAGES && !traffic_check(&traffic),
	   "a store adopted without a size keeps its size");
	rig_close(&rig);
}

/* A store whose adoption is refused stays intact. */
static void refused_adoption_costs_no_page(void)
{
	static const uint8_t key[AUTH_KEY_SIZE] = {1};
	const char *swapped[2];
	struct store *other;
	struct far_config config;
	struct rig rig;

	open_donors(&rig);
	rig_open(&rig);
	traffic_begin(&traffic, &rig, 2);
	log_begin();
	config = rig.config;
	swapped[0] = rig.uris[1];
	swapped[1] = rig.uris[0];
	config.donors = swapped;
	ok(far_open(&config, &other) == -EBUSY && log_count("\n") == 1 && log_count("in use by another process"),
	   "adoption of a store in use is refused in one line");
	rig_shut(&rig, true);
	log_begin();
	ok(far_open(&config, &other) == -EINVAL && log_count("\n") == 1 && log_count("in the same order"),
	   "adoption with other donors is refused in one line");
	rig.config.pages++;
	log_begin();
	ok(rig_try(&rig) == -EINVAL && log_count("\n") == 1 && log_count("give that size"),
	   "adoption with another size is refused in one line");
	rig.config.pages--;
	rig.config.replicas = 2;
	log_begin();
	ok(rig_try(&rig) == -EINVAL && log_count("\n") == 1 && log_count("not of 2"),
	   "adoption with another number of replicas is refused in one line");
	rig.config.replicas = 1;
	rig.config.key = key;
	ok(rig_try(&rig) == -EKEYREJECTED, "adoption with a key that the donors do not accept is refused");
	log_show();
	rig.config.key = NULL;
	rig_open(&rig);
	ok(!traffic_check(&traffic), "all pages are right after refused adoptions");
	rig_shut(&rig, true);
	if (pwrite(rig.state_fd, "x", 1, offsetof(struct state_header, uris)) != 1)
		ok(false, "the state file can be damaged");
	log_begin();
	ok(rig_try(&rig) == -EINVAL && log_count("\n") == 1 && log_count("damaged"),
	   "adoption from a damaged header is refused in one line");
	rig_close(&rig);
}

/* --- Donors that went meanwhile --------------------------------------------------------------------------------- */

/* Reads every page. Returns true if all readable pages are right. @ret_failed is the number of lost pages. */
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

/* The first of two donors is killed before the adoption, and started again if @again. */
static void adoption_without_a_donor_loses_only_its_pages(bool again)
{
	const char *name = again ? "restarted" : "dead";
	struct store_stats stats;
	struct far_donor_info figures[2];
	bool right;
	unsigned failed;
	struct rig rig;

	open_donors(&rig);
	rig.config.timeout_ms = 1000;
	rig_open(&rig);
	traffic_begin(&traffic, &rig, 3);
	far_donors(rig.store, figures, 2);
	rig_shut(&rig, true);
	donor_kill(&rig.donors[0]);
	if (again)
		donor_again(&rig.donors[0]);
	log_begin();
	rig_open(&rig);
	right = pages_read(&rig, &failed);
	ok(right && failed == figures[0].leased_here / STORE_PAGE,
	   "%s donor: the adopted store loses its %u pages and no other", name, failed);
	stats = rig_stats(&rig);
	ok(stats.lost_pages == failed && !stats.checksum_errors, "%s donor: the lost pages are counted", name);
	ok(log_count(again ? "has restarted: what it held is lost" : "is gone") == 1,
	   "%s donor: one line gives the reason of the loss", name);
	log_show();
	rig_shut(&rig, true);
	rig_open(&rig);
	right = pages_read(&rig, &traffic.failed);
	ok(right && traffic.failed == failed, "%s donor: the next process finds the same pages lost", name);
	for (uint32_t page = 0; page < TRAFFIC_PAGES; page++) {
		traffic.versions[page] = page;
		right &= rig_put(&rig, page, page) == 0;
	}
	right &= pages_read(&rig, &failed);
	ok(right && !failed, "%s donor: all pages can be written again", name);
	if (again) {
		ok(rig_figures(&rig, 0).leased, "%s donor: the donor is used again", name);
		rig_shut(&rig, true);
		rig_open(&rig);
		ok(pages_read(&rig, &failed) && !failed, "%s donor: the next process adopts all pages", name);
	}
	if (!again)
		ok(rig_figures(&rig, 1).leased == TRAFFIC_PAGES * STORE_PAGE,
		   "%s donor: all pages are on the other donor", name);
	rig_close(&rig);
}

/* While all donors are out of reach, the adoption fails, and the pages are not given up. */
static void store_without_reachable_donors_is_not_adopted(void)
{
	struct rig rig;

	open_donors(&rig);
	rig.config.timeout_ms = 500;
	rig_open(&rig);
	traffic_begin(&traffic, &rig, 4);
	rig_shut(&rig, true);
	for (unsigned i = 0; i < 2; i++)
		kill(rig.donors[i].pid, SIGSTOP);
	ok(rig_try(&rig) == -ETIMEDOUT, "a store whose donors all stay silent is not adopted");
	log_show();
	for (unsigned i = 0; i < 2; i++)
		kill(rig.donors[i].pid, SIGCONT);
	rig_open(&rig);
	ok(!traffic_check(&traffic), "all pages are right once the donors answer again");
	rig_close(&rig);
}

/* The donor keeps pages for a shorter time than the client asks for. */
static void short_grace_of_a_donor_is_reported(void)
{
	struct rig rig;

	open_donor(&rig, "1M", "7");
	log_begin();
	rig_open(&rig);
	ok(log_count("\n") == 1 && log_count("keeps pages for 7 s when this process has ended, instead of 60 s"),
	   "a donor's short grace is reported in one line");
	rig_shut(&rig, true);
	log_begin();
	rig_open(&rig);
	ok(log_count("\n") == 1, "a donor's short grace is reported to the next process, too");
	rig_shut(&rig, false);
	rig.config.grace_ms = 7000;
	log_begin();
	rig_open(&rig);
	ok(!log_count("\n"), "a donor's grace equal to the wished one is not reported");
	rig_close(&rig);
}

/* --- Large ------------------------------------------------------------------------------------------------------ */

/* What this process has done so far. */
struct work {
	uint64_t touched; /* memory touched for the first time, MiB */
	uint64_t ms;      /* processor time */
};

static uint64_t ms_of(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_usec / 1000;
}

static struct work work_since(struct work begin)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (struct work){((uint64_t)usage.ru_minflt * STORE_PAGE >> 20) - begin.touched,
			     ms_of(usage.ru_utime) + ms_of(usage.ru_stime) - begin.ms};
}

/* A pass over the words of a TiB's pages would touch a GiB. ThreadSanitizer touches 25 times as much memory as the
   program, and takes forty times the time, so its limit is on memory alone. */
static bool is_little(struct work work)
{
	return UNDER_TSAN ? work.touched < 1024 : work.touched < 64 && work.ms < 2000;
}

static void large_store_opens_and_is_adopted_without_a_pass_over_its_pages(void)
{
	uint64_t pages = UINT64_C(1) << 28, before;
	struct work begin;
	struct store_stats stats;
	struct rig rig;
	bool good;

	open_donor(&rig, "16M", "900");
	rig.config.pages = pages;
	begin = work_since((struct work){0});
	rig_open(&rig);
	struct work opened = work_since(begin);
	ok(is_little(opened) && rig_state_bytes(&rig) < 13 << 20,
	   "opening a store of 1 TiB touches %llu MiB of memory in %llu ms, and its state file takes %llu KiB",
	   (unsigned long long)opened.touched, (unsigned long long)opened.ms,
	   (unsigned long long)(rig_state_bytes(&rig) >> 10));
	ok(rig_figures(&rig, 0).leased == 0, "an unwritten store of 1 TiB leases no slab");
	good = rig_put(&rig, pages - 1, 1) == 0;
	before = rig_state_bytes(&rig);
	for (uint64_t page = 1 << 20; page < pages - (1 << 20); page += pages / 500) {
		good &= rig_has(&rig, page, 0);
		good &= store_same(rig.store, page, rig.bytes);
		store_discard(rig.store, page, 1);
	}
	ok(good && before < 13 << 20 && rig_state_bytes(&rig) == before,
	   "a store of 1 TiB with one page takes %llu KiB of state, whatever is read and discarded",
	   (unsigned long long)(before >> 10));
	rig_shut(&rig, true);
	begin = work_since((struct work){0});
	rig_open(&rig);
	struct work adopted = work_since(begin);
	good = rig_has(&rig, pages - 1, 1);
	stats = rig_stats(&rig);
	ok(good && is_little(adopted) && rig_state_bytes(&rig) == before && stats.pages_live == 1,
	   "adopting a store of 1 TiB touches %llu MiB of memory in %llu ms", (unsigned long long)adopted.touched,
	   (unsigned long long)adopted.ms);
	rig_close(&rig);
}

int main(void)
{
	log_keep();
	left_store_is_adopted_with_all_pages();
	refused_adoption_costs_no_page();
	adoption_without_a_donor_loses_only_its_pages(false);
	adoption_without_a_donor_loses_only_its_pages(true);
	store_without_reachable_donors_is_not_adopted();
	short_grace_of_a_donor_is_reported();
	large_store_opens_and_is_adopted_without_a_pass_over_its_pages();
	return tap_done();
}
