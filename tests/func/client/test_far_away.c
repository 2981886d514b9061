/*
 * A donor that is out of reach for a while: half a second goes unnoticed, two seconds cost two seconds, and more are
 * told of; one that has been started anew is lost, and so at once is one that has stopped running. And a client that
 * was away itself, or together with its donor.
 */
#include "common/clock.h"
#include "common/log.h"
#include "tests/func/client/traffic.h"
#include "tests/tap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define BOTH_MS 800u
#define SILENT "does not answer (no answer in time)"
#define AGAIN "answers again"

static struct traffic traffic;

static void open_two(struct rig *rig)
{
	rig_donors(rig, 2, "32M");
	rig->config.timeout_ms = 0; /* the default */
	rig_open(rig, "tcp");
}

/* --- Stalls ----------------------------------------------------------------------------------------------------- */

struct stall {
	pid_t pid;
	unsigned after_ms, ms;
	uint64_t took; /* ns that it was stopped, at most */
};

static void *stall_main(void *argument)
{
	struct stall *stall = argument;
	uint64_t begin;

	rig_sleep_ms(stall->after_ms);
	begin = clock_now();
	kill(stall->pid, SIGSTOP);
	rig_sleep_ms(stall->ms);
	kill(stall->pid, SIGCONT);
	stall->took = clock_now() - begin;
	return NULL;
}

/* Donor 0 is stopped for @ms in the midst of requests, or (@idle) of none. Returns for how long it was. */
static uint64_t stall_run(struct rig *rig, unsigned ms, bool idle)
{
	struct stall stall = {.pid = rig->donors[0].pid, .after_ms = 200, .ms = ms};
	pthread_t thread;

	pthread_create(&thread, NULL, stall_main, &stall);
	if (idle)
		rig_sleep_ms(ms + 500);
	else
		traffic_run(&traffic, ms + 500);
	pthread_join(thread, NULL);
	return stall.took;
}

/* A machine with too little CPU for its tests may stop a donor for longer than it was asked to: then once more. */
static void test_short(void)
{
	struct rig rig;
	bool fair = false;

	open_two(&rig);
	traffic_begin(&traffic, &rig, 1);
	for (unsigned idle = 0; idle < 2; idle++) {
		log_begin();
		fair = false;
		for (unsigned i = 0; i < 5 && !fair; i++) {
			log_show();
			fair = stall_run(&rig, 500, idle) < 520 * MS;
		}
		ok(fair && !log_count("donor"), "500 ms, %s: nobody notices", idle ? "idle" : "busy");
		log_show();
	}
	ok(!traffic.failed && !traffic.wrong, "500 ms: of %u requests all are right", traffic.done);
	ok(!traffic_check(&traffic), "500 ms: all pages are");
	rig_close(&rig);
}

static void test_long(void)
{
	struct rig rig;

	open_two(&rig);
	traffic_begin(&traffic, &rig, 2);
	log_begin();
	stall_run(&rig, 2000, false);
	ok(!traffic.failed && !traffic.wrong, "2 s: of %u requests all are right", traffic.done);
	ok(traffic.slowest > 1000 * MS && traffic.slowest < 5000 * MS, "2 s: some of them late: %llu ms",
	   (unsigned long long)(traffic.slowest / MS));
	ok(!log_count("\n"), "2 s: no line is worth it");
	log_show();
	stall_run(&rig, 3500, true);
	ok(log_count(SILENT) == 1 && log_count(AGAIN) == 1, "3.5 s, idle: two lines tell of it");
	ok(log_count("trying to reach it again for 600 s") == 1,
	   "3.5 s: with one copy the donor is waited for ten minutes");
	log_show();
	ok(!traffic_check(&traffic), "3.5 s: all pages are right");
	traffic_run(&traffic, 200);
	ok(!traffic.failed && !traffic.wrong, "2 s: and life goes on");
	store_discard(rig.store, 0, rig.store->pages);
	ok(rig_wait_leased(&rig, 0), "2 s: all memory comes back");
	rig_close(&rig);
}

/* --- Ends ------------------------------------------------------------------------------------------------------- */

static unsigned pages_failed(struct rig *rig)
{
	unsigned failed = 0;

	for (uint32_t page = 0; page < TRAFFIC_PAGES; page++)
		failed += rig_read(rig, page, 1, rig->bytes) == -EIO;
	return failed;
}

/* What is lost is told before it is counted. */
static struct store_stats stats_of_lost(const struct rig *rig)
{
	struct store_stats stats;

	for (unsigned i = 0; i < 250; i++) {
		store_stats(rig->store, &stats);
		if (stats.lost_pages)
			break;
		rig_sleep_ms(20);
	}
	return stats;
}

static void test_killed(void)
{
	uint64_t killed_at, told_at = 0;
	struct store_stats stats;
	struct rig rig;
	bool told;

	open_two(&rig);
	traffic_begin(&traffic, &rig, 3);
	log_begin();
	killed_at = clock_now();
	daemon_stop(&rig.donors[0], SIGKILL);
	told = log_wait("is gone", 1, &told_at);
	ok(told && told_at - killed_at < 1000 * MS, "killed: lost after %llu ms",
	   (unsigned long long)((told_at - killed_at) / MS));
	/* Or a second one, where the kernel takes so long to close its sockets that its resets are worth one. */
	ok(log_count("\n") == 1 || told_at - killed_at > TELL_MS * MS, "killed: one line says so");
	log_show();
	stats = stats_of_lost(&rig);
	ok(stats.lost_pages && pages_failed(&rig) == stats.lost_pages, "killed: %llu pages with it",
	   (unsigned long long)stats.lost_pages);
	rig_close(&rig);
}

static void test_restarted(void)
{
	const char *arguments[] = {"--donate", "32M", "--slab", "1M", "--reserve", "1M", NULL};
	struct store_stats stats;
	struct rig rig;
	uint64_t ignored;

	open_two(&rig);
	traffic_begin(&traffic, &rig, 4);
	log_begin();
	/* First silent, so that it is waited for, as while a machine starts up. */
	kill(rig.donors[0].pid, SIGSTOP);
	ok(log_wait(SILENT, 1, &ignored), "restarted: silent at first");
	daemon_stop(&rig.donors[0], SIGKILL);
	ok(rig_donor_again(&rig, 0, arguments), "restarted: then there again");
	ok(log_wait("has restarted: what it held is lost", 1, &ignored), "restarted: it holds nothing for us");
	log_show();
	stats = stats_of_lost(&rig);
	ok(stats.lost_pages && pages_failed(&rig) == stats.lost_pages, "restarted: %llu pages are lost",
	   (unsigned long long)stats.lost_pages);
	ok(!stats.checksum_errors, "restarted: and nothing was read of the new one");
	rig_close(&rig);
}

/* --- The client ------------------------------------------------------------------------------------------------- */

/* Writes, stops itself, and looks when it is continued. */
static int client_main(struct rig *rig)
{
	rig_open(rig, "tcp");
	traffic_begin(&traffic, rig, 5);
	raise(SIGSTOP);
	traffic_run(&traffic, 500);
	return traffic.failed || traffic.wrong || traffic_check(&traffic);
}

static void test_client_stopped(void)
{
	struct rig rig;
	int status;
	pid_t pid;

	rig_donors(&rig, 1, "32M");
	rig.config.timeout_ms = 0;
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(client_main(&rig));
	ok(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "a client is stopped");
	ok(daemon_log_wait(&rig.donors[0], "slabs are kept for 601 s"), "its donor keeps its slabs for ten minutes");
	kill(pid, SIGCONT);
	ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
	   "it is continued, and goes on with what it had");
	ok(daemon_log_wait(&rig.donors[0], "has come back"), "having come back");
	rig_close(&rig);
}

/* Writes, stops its donor, and itself once it has missed it. */
static int client_missing_main(struct rig *rig)
{
	uint64_t ignored;

	log_setup("farpage", LOG_LEVEL_INFO); /* the line that comes at once */
	rig_open(rig, "tcp");
	traffic_begin(&traffic, rig, 6);
	log_begin();
	kill(rig->donors[0].pid, SIGSTOP);
	if (!log_wait(SILENT, 1, &ignored))
		return 2;
	raise(SIGSTOP);
	traffic_run(&traffic, 500);
	log_show();
	return traffic.failed || traffic.wrong || traffic_check(&traffic);
}

/* As when the machine that both are on is paused: longer than the client waits, but not in its own time. */
static void test_both_stopped(void)
{
	struct rig rig;
	int status;
	pid_t pid;

	rig_donors(&rig, 1, "32M");
	rig.config.timeout_ms = BOTH_MS;
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(client_missing_main(&rig));
	ok(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "a client is stopped that misses its donor");
	rig_sleep_ms(2 * BOTH_MS);
	kill(pid, SIGCONT);
	kill(rig.donors[0].pid, SIGCONT);
	ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
	   "continued after twice the time that it waits, it still has every page");
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	daemon_program(argc > 1 ? argv[1] : NULL);
	log_keep();
	test_client_stopped(); /* first: they fork */
	test_both_stopped();
	test_short();
	test_long();
	test_killed();
	test_restarted();
	return tap_done();
}
