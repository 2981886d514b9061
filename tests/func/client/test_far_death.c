/* Donors that die or stall. Every request is answered once and in time, and pages on other donors stay usable. */
#include "common/clock.h"
#include "common/random.h"
#include "tests/func/client/rig.h"

#include <errno.h>
#include <signal.h>

#define PAGES (8 * RIG_SLAB_PAGES)
#define DEPTH 64u

static bool write_all(struct rig *rig, uint64_t version)
{
	bool good = true;

	for (uint64_t page = 0; page < PAGES; page += DEPTH)
		good &= rig_put_run(rig, page, DEPTH, version) == 0;
	return good;
}

/* Reads every page. Counts the right pages and those that fail with -EIO. All other pages are wrong. */
static void read_all(struct rig *rig, uint64_t version, unsigned *ret_right, unsigned *ret_failed)
{
	*ret_right = *ret_failed = 0;
	for (uint64_t page = 0; page < PAGES; page++) {
		int status = rig_read(rig, page, 1, rig->bytes);

		*ret_right += status == 0 && rig_is(rig->bytes, page, version);
		*ret_failed += status == -EIO;
	}
}

/*
 * Keeps DEPTH requests going while @signal hits donor @victim. Returns true if each request is answered exactly once
 * within the timeout. Writes repeat the pages' contents, so every page keeps version 1.
 */
static bool storm(struct rig *rig, unsigned victim, int signal, unsigned *ret_errors)
{
	struct random_state random;
	bool answered[4096] = {false}, once = true;
	unsigned submitted = 0, oldest = 0, done = 0, errors = 0;
	uint64_t killed_at = 0, slowest = 0;

	random_seed(&random, 5);
	while (done < 4096) {
		struct store_done dones[DEPTH];

		/* Until a request is answered, no later request may use its page or its buffer. */
		while (oldest < submitted && answered[oldest])
			oldest++;
		for (; submitted < 4096 && submitted - done < DEPTH && submitted - oldest < 1024; submitted++) {
			uint64_t page = submitted % PAGES;
			struct store_io io = {.op = random_below(&random, 2) ? STORE_READ : STORE_WRITE,
					      .count = 1,
					      .page = page,
					      .data = rig->bytes + submitted % 1024 * STORE_PAGE,
					      .buffer = rig->buffer,
					      .cookie = submitted};

			rig_fill(io.data, page, 1);
			if (store_submit(rig->queue, &io, 1) != 1)
				break;
		}
		if (!killed_at && done > 1000) {
			kill(rig->donors[victim].pid, signal);
			killed_at = clock_now();
		}
		for (int i = 0, count = rig_wait(rig->queue, dones, DEPTH); i < count; i++, done++) {
			once &= !answered[dones[i].cookie];
			answered[dones[i].cookie] = true;
			errors += dones[i].status != 0;
			once &= dones[i].status == 0 || dones[i].status == -EIO || dones[i].status == -ETIMEDOUT;
		}
		if (killed_at && submitted == 4096 && done == 4096)
			slowest = clock_now() - killed_at;
	}
	*ret_errors = errors;
	printf("# %u errors, over after %llu ms\n", errors, (unsigned long long)slowest / 1000000);
	return once && slowest < 2 * RIG_TIMEOUT_MS * UINT64_C(1000000);
}

static void one_dead_donor_loses_only_its_pages(int signal, const char *name)
{
	unsigned right, failed, errors, victim = 0;
	struct far_donor_info donors[3];
	struct store_stats stats;
	struct rig rig;

	rig_donors(&rig, 3, "32M");
	rig_open(&rig);
	ok(write_all(&rig, 1), "%s: all pages are written", name);
	far_donors(rig.store, donors, 3);
	/* Placement is random. Any donor with a slab can be the victim. */
	while (victim < 2 && !donors[victim].leased_here)
		victim++;
	ok(donors[victim].leased_here > 0, "%s: the donor that is to die has some of the pages", name);
	ok(storm(&rig, victim, signal, &errors), "%s: every request in flight is answered once and in time", name);
	ok(errors > 0, "%s: some requests fail", name);
	read_all(&rig, 1, &right, &failed);
	ok(right + failed == PAGES && failed < PAGES, "%s: no page reads wrong: %u are right, %u fail", name, right,
	   failed);
	stats = rig_stats(&rig);
	far_donors(rig.store, donors, 3);
	for (unsigned i = 0; i < 3; i++)
		ok((donors[i].status < 0) == (i == victim), "%s: only the dead donor is known as dead", name);
	ok(stats.lost_pages > 0 && !stats.checksum_errors, "%s: lost pages are counted, and no checksum is wrong",
	   name);
	ok(write_all(&rig, 2), "%s: all pages can be written again", name);
	read_all(&rig, 2, &right, &failed);
	ok(right == PAGES, "%s: all pages written again are read back", name);
	if (signal == SIGSTOP)
		kill(rig.donors[victim].pid, SIGKILL);
	donor_wait(&rig.donors[victim]);
	ok(rig_wait_leased(&rig, 8 * RIG_SLAB), "%s: the other donors have lent all slabs", name);
	rig_close(&rig);
}

static void all_donors_dead_fail_reads_in_time(void)
{
	unsigned right, failed;
	struct rig rig;

	rig_donors(&rig, 2, "32M");
	rig_open(&rig);
	ok(write_all(&rig, 1), "all die: pages are written");
	donor_kill(&rig.donors[0]);
	donor_kill(&rig.donors[1]);
	read_all(&rig, 1, &right, &failed);
	ok(failed == PAGES, "all die: every read fails with -EIO");
	ok(rig_put(&rig, 0, 2) == -ENOSPC, "all die: a write fails with -ENOSPC");
	ok(rig_read(&rig, PAGES, 1, rig.bytes) == 0, "all die: a page never written is read without an error");
	store_discard(rig.store, 0, PAGES);
	read_all(&rig, 1, &right, &failed);
	ok(!failed && rig_is_zero(rig.bytes), "all die: every page reads as zero after a discard");
	rig_close(&rig);
}

static void second_replica_hides_a_dead_donor(void)
{
	unsigned right, failed, errors;
	struct store_stats stats;
	struct rig rig;

	rig_donors(&rig, 3, "32M");
	rig.config.replicas = 2;
	rig_open(&rig);
	ok(write_all(&rig, 1), "two replicas: pages are written");
	ok(rig_wait_leased(&rig, 2 * 8 * RIG_SLAB), "two replicas: each chunk leases two slabs");
	ok(storm(&rig, 0, SIGKILL, &errors) && !errors, "two replicas: no request fails when a donor dies");
	read_all(&rig, 1, &right, &failed);
	ok(right == PAGES, "two replicas: every page is read right from the other donor");
	stats = rig_stats(&rig);
	ok(!stats.lost_pages, "two replicas: no page is lost");
	donor_wait(&rig.donors[0]);
	rig_close(&rig);
}

int main(void)
{
	one_dead_donor_loses_only_its_pages(SIGKILL, "killed");
	/* Over RDMA the memory of a stopped process is still served, so there is no loss to count. */
	if (getenv("FARPAGE_TEST_URI"))
		tap_skip("a stopped donor loses only its pages", "the device serves without the process");
	else
		one_dead_donor_loses_only_its_pages(SIGSTOP, "stopped");
	all_donors_dead_fail_reads_in_time();
	second_replica_hides_a_dead_donor();
	return tap_done();
}
