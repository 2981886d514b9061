/*
 * A donor out of reach for a while. Half a second goes unnoticed, two seconds delay requests by two seconds, and longer
 * times are reported. A restarted donor is lost, and a donor whose program has ended is lost at once. The test also
 * stops a client itself, alone or together with its donor.
 */
#include "common/clock.h"
#include "common/log.h"
#include "tests/func/client/traffic.h"

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
	rig_open(rig);
}

/* --- Stalls ----------------------------------------------------------------------------------------------------- */

struct stall {
	pid_t pid;
	unsigned after_ms, ms;
	uint64_t took; /* ns that the donor was stopped, at most */
};

static void *stall_main(void *argument)
{
	struct stall *stall = argument;
	uint64_t begin;

	sleep_ms(stall->after_ms);
	begin = clock_now();
	kill(stall->pid, SIGSTOP);
	sleep_ms(stall->ms);
	kill(stall->pid, SIGCONT);
	stall->took = clock_now() - begin;
	return NULL;
}

/* Stops donor 0 for @ms amid requests, or without any if @idle. Returns how long the donor was stopped. */
static uint64_t stall_run(struct rig *rig, unsigned ms, bool idle)
{
	struct stall stall = {.pid = rig->donors[0].pid, .after_ms = 200, .ms = ms};
	pthread_t thread;

	pthread_create(&thread, NULL, stall_main, &stall);
	if (idle)
		sleep_ms(ms + 500);
	else
		traffic_run(&traffic, ms + 500);
	pthread_join(thread, NULL);
	return stall.took;
}

/* A busy machine may stop the donor for longer than asked. Then the test tries again. */
static void half_a_second_of_stall_goes_unnoticed(void)
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
		ok(fair && !log_count("donor"), "stall of 500 ms, %s: no line reports it", idle ? "idle" : "busy");
		log_show();
	}
	ok(!traffic.failed && !traffic.wrong, "stall of 500 ms: all of %u requests are right", traffic.done);
	ok(!traffic_check(&traffic), "stall of 500 ms: all pages are right");
	rig_close(&rig);
}

static void long_stall_delays_requests_and_is_reported(void)
{
	struct rig rig;

	open_two(&rig);
	traffic_begin(&traffic, &rig, 2);
	log_begin();
	stall_run(&rig, 1200, false); /* less than until the silence is noticed and DONORS_TELL_NS after that */
	ok(!traffic.failed && !traffic.wrong, "stall of 1.2 s: all of %u requests are right", traffic.done);
	ok(traffic.slowest > 1000 * MS && traffic.slowest < 5000 * MS,
	   "stall of 1.2 s: the slowest request takes %llu ms", (unsigned long long)(traffic.slowest / MS));
	ok(!log_count("\n"), "stall of 1.2 s: no line reports it");
	log_show();
	stall_run(&rig, 3500, true);
	ok(log_wait(AGAIN, 1, NULL) && log_count(SILENT) == 1 && log_count(AGAIN) == 1,
	   "stall of 3.5 s, idle: one line reports the silence and one the return");
	ok(log_count("trying to reach it again for 600 s") == 1,
	   "stall of 3.5 s: a donor with the only copy is waited for ten minutes");
	log_show();
	ok(!traffic_check(&traffic), "stall of 3.5 s: all pages are right");
	traffic_run(&traffic, 200);
	ok(!traffic.failed && !traffic.wrong, "stall of 3.5 s: later requests are right");
	store_discard(rig.store, 0, rig.store->pages);
	ok(rig_wait_leased(&rig, 0), "stall of 3.5 s: all memory is released after a discard");
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

/* A loss is reported before its pages are counted. */
static struct store_stats stats_of_lost(const struct rig *rig)
{
	struct store_stats stats;

	wait_until((stats = rig_stats(rig)).lost_pages);
	return stats;
}

static void killed_donor_is_lost_within_a_second(void)
{
	uint64_t killed_at, ended_at, lost, took, told_at = 0;
	struct store_stats stats;
	struct rig rig;
	bool told;

	open_two(&rig);
	traffic_begin(&traffic, &rig, 3);
	log_begin();
	killed_at = clock_now();
	donor_kill(&rig.donors[0]);
	ended_at = clock_now();
	lost = rig_time_lost(&rig);
	told = log_wait("is gone", 1, &told_at);
	took = told_at - ended_at - (rig_time_lost(&rig) - lost);
	ok(told && took < 1000 * MS, "killed: the donor is lost after %llu ms of the store's own time",
	   (unsigned long long)(took / MS));
	/* While the kernel closes the killed donor's sockets, it resets connections. If this takes longer than
	   TELL_MS, a second line may say that the donor does not answer. */
	ok(log_count("\n") == 1 || told_at - killed_at > TELL_MS * MS, "killed: one line reports the loss");
	log_show();
	stats = stats_of_lost(&rig);
	ok(stats.lost_pages && pages_failed(&rig) == stats.lost_pages,
	   "killed: the store counts %llu lost pages, and reading them fails with -EIO",
	   (unsigned long long)stats.lost_pages);
	rig_close(&rig);
}

static void restarted_donor_is_lost(void)
{
	struct store_stats stats;
	struct rig rig;

	open_two(&rig);
	traffic_begin(&traffic, &rig, 4);
	log_begin();
	/* The donor is stopped before it is killed. So the store waits for it, as for a machine that starts up. */
	kill(rig.donors[0].pid, SIGSTOP);
	ok(log_wait(SILENT, 1, NULL), "restarted: the silent donor is reported");
	donor_kill(&rig.donors[0]);
	donor_again(&rig.donors[0]);
	ok(log_wait("has restarted: what it held is lost", 1, NULL),
	   "restarted: the donor is reported as restarted and lost");
	log_show();
	stats = stats_of_lost(&rig);
	ok(stats.lost_pages && pages_failed(&rig) == stats.lost_pages,
	   "restarted: the store counts %llu lost pages, and reading them fails with -EIO",
	   (unsigned long long)stats.lost_pages);
	ok(!stats.checksum_errors, "restarted: no page is read from the new donor");
	rig_close(&rig);
}

/* --- The client ------------------------------------------------------------------------------------------------- */

/* The client writes pages, stops itself, and checks its pages when it is continued. */
static int client_main(struct rig *rig)
{
	rig_open(rig);
	traffic_begin(&traffic, rig, 5);
	raise(SIGSTOP);
	traffic_run(&traffic, 500);
	return traffic.failed || traffic.wrong || traffic_check(&traffic);
}

/* Starts a client of one donor in a process of its own, and waits until it stops itself. */
static pid_t client_start(struct rig *rig, unsigned timeout_ms, int (*client)(struct rig *))
{
	int status;
	pid_t pid;

	rig_donors(rig, 1, "32M");
	rig->config.timeout_ms = timeout_ms;
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(client(rig));
	ok(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "a client is stopped");
	return pid;
}

static bool client_ends_well(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void stopped_client_keeps_its_slabs(void)
{
	struct rig rig;
	pid_t pid = client_start(&rig, 0, client_main);

	ok(donor_log_wait(&rig.donors[0], "slabs are kept for 601 s"),
	   "the donor of a stopped client keeps its slabs for ten minutes");
	kill(pid, SIGCONT);
	ok(client_ends_well(pid), "a continued client still has every page");
	ok(donor_log_wait(&rig.donors[0], "has come back"),
	   "the donor reports that the continued client has come back");
	rig_close(&rig);
}

/* The client writes pages and stops its donor. When it misses the donor, it stops itself. */
static int client_missing_main(struct rig *rig)
{

	log_setup("farpage", LOG_LEVEL_INFO); /* the line SILENT has level info at first */
	rig_open(rig);
	traffic_begin(&traffic, rig, 6);
	log_begin();
	kill(rig->donors[0].pid, SIGSTOP);
	if (!log_wait(SILENT, 1, NULL))
		return 2;
	raise(SIGSTOP);
	traffic_run(&traffic, 500);
	log_show();
	return traffic.failed || traffic.wrong || traffic_check(&traffic);
}

/* Their machine is paused for longer than the client waits. But the client's own clock stands still meanwhile. */
static void client_stopped_with_its_donor_keeps_its_pages(void)
{
	struct rig rig;
	pid_t pid = client_start(&rig, BOTH_MS, client_missing_main);

	sleep_ms(2 * BOTH_MS);
	kill(pid, SIGCONT);
	kill(rig.donors[0].pid, SIGCONT);
	ok(client_ends_well(pid), "a client continued after twice its timeout still has every page");
	rig_close(&rig);
}

int main(void)
{
	log_keep();
	stopped_client_keeps_its_slabs(); /* these come first, because they fork */
	client_stopped_with_its_donor_keeps_its_pages();
	half_a_second_of_stall_goes_unnoticed();
	long_stall_delays_requests_and_is_reported();
	killed_donor_is_lost_within_a_second();
	restarted_donor_is_lost();
	return tap_done();
}
