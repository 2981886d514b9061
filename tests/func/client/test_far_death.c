/* Donors that die or stall: every request is answered once and in time, the others' pages stay, life goes on elsewhere.
 */
#include "common/clock.h"
#include "common/random.h"
#include "tests/func/client/rig.h"
#include "tests/tap.h"

#include <errno.h>
#include <signal.h>

#define PAGES (8 * RIG_SLAB_PAGES)
#define DEPTH 64u

static bool write_all(struct rig *rig, uint64_t version)
{
	bool good = true;

	for (uint64_t page = 0; page < PAGES; page += DEPTH) {
		for (unsigned i = 0; i < DEPTH; i++)
			rig_fill(rig->bytes + i * STORE_PAGE, page + i, version);
		good &= rig_write(rig, page, DEPTH, rig->bytes) == 0;
	}
	return good;
}

/* Reads every page: how many are right, how many fail with one of the errors of a dead donor; the rest are wrong. */
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
 * Keeps DEPTH requests going while @signal hits donor @victim; returns whether each was answered exactly once within
 * the timeout. Reads and writes write what is there already, so versions stay.
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

		/* One that waits for the victim keeps its page, and its buffer, until it is answered. */
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

static void test_one_dies(int signal, const char *name)
{
	unsigned right, failed, errors, victim = 0;
	struct far_donor_info donors[3];
	struct store_stats stats;
	struct rig rig;

	rig_donors(&rig, 3, "32M");
	rig_open(&rig, "tcp");
	ok(write_all(&rig, 1), "%s: pages are written", name);
	far_donors(rig.store, donors, 3);
	/* Placement is by chance: whoever holds something will do. */
	while (victim < 2 && !donors[victim].leased_here)
		victim++;
	ok(donors[victim].leased_here > 0, "%s: some of them to the one that is to die", name);
	ok(storm(&rig, victim, signal, &errors), "%s: every request in flight is answered once, in time", name);
	ok(errors > 0, "%s: some fail", name);
	read_all(&rig, 1, &right, &failed);
	ok(right + failed == PAGES && failed < PAGES, "%s: no page is wrong: %u right, %u failed", name, right, failed);
	store_stats(rig.store, &stats);
	far_donors(rig.store, donors, 3);
	for (unsigned i = 0; i < 3; i++)
		ok((donors[i].status < 0) == (i == victim), "%s: only the dead donor is known as dead", name);
	ok(stats.lost_pages > 0 && !stats.checksum_errors, "%s: lost pages are counted", name);
	ok(write_all(&rig, 2), "%s: all pages can be written anew", name);
	read_all(&rig, 2, &right, &failed);
	ok(right == PAGES, "%s: and are there", name);
	if (signal == SIGSTOP)
		kill(rig.donors[victim].pid, SIGKILL);
	daemon_wait(&rig.donors[victim]);
	ok(rig_wait_leased(&rig, 8 * RIG_SLAB), "%s: on the others", name);
	rig_close(&rig);
}

static void test_all_die(void)
{
	unsigned right, failed;
	struct rig rig;

	rig_donors(&rig, 2, "32M");
	rig_open(&rig, "tcp");
	ok(write_all(&rig, 1), "all die: pages are written");
	daemon_stop(&rig.donors[0], SIGKILL);
	daemon_stop(&rig.donors[1], SIGKILL);
	read_all(&rig, 1, &right, &failed);
	ok(failed == PAGES, "all die: every read fails");
	rig_fill(rig.bytes, 0, 2);
	ok(rig_write(&rig, 0, 1, rig.bytes) == -ENOSPC, "all die: a write says that there is no room");
	ok(rig_read(&rig, PAGES, 1, rig.bytes) == 0, "all die: a page never written is still zero");
	store_discard(rig.store, 0, PAGES);
	read_all(&rig, 1, &right, &failed);
	ok(!failed && rig_is_zero(rig.bytes), "all die: after a discard all are zero");
	rig_close(&rig);
}

static void test_replica(void)
{
	unsigned right, failed, errors;
	struct store_stats stats;
	struct rig rig;

	rig_donors(&rig, 3, "32M");
	rig.config.replicas = 2;
	rig_open(&rig, "tcp");
	ok(write_all(&rig, 1), "two replicas: pages are written");
	ok(rig_wait_leased(&rig, 2 * 8 * RIG_SLAB), "two replicas: two slabs a chunk");
	ok(storm(&rig, 0, SIGKILL, &errors) && !errors, "two replicas: a donor dies and no request fails");
	read_all(&rig, 1, &right, &failed);
	ok(right == PAGES, "two replicas: every page is there");
	store_stats(rig.store, &stats);
	ok(!stats.lost_pages, "two replicas: none is lost");
	daemon_wait(&rig.donors[0]);
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	daemon_program(argc > 1 ? argv[1] : NULL);
	test_one_dies(SIGKILL, "killed");
	/* Over RDMA the memory of a stopped process goes on being served: there is no loss to count. */
	if (getenv("FARPAGE_TEST_URI"))
		tap_skip("stopped", "the device serves without the process");
	else
		test_one_dies(SIGSTOP, "stopped");
	test_all_die();
	test_replica();
	return tap_done();
}
