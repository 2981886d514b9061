/*
 * Two replicas on real donors, under requests. Donors are killed, stopped and started again. No page is lost, no read
 * is wrong, and no request waits for a donor that is away.
 */
#include "common/clock.h"
#include "tests/func/client/flips.h"
#include "tests/func/client/traffic.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#define MS UINT64_C(1000000)
#define BEGUN "lack a replica"
#define DONE "rebuild: done"
/*
 * A donor that stops is noticed within 0.8 s. Requests that wait for it should continue within 0.2 s more. Because the
 * machine may be busy, the test only prints the longest wait, and checks that it is shorter than the timeout.
 */
#define TIMEOUT_MS 10000u
#define STALL_MS 6000u
#define WRITERS 2u
#define WRITER_PAGES 64u

static struct traffic traffic;

static void open_rig(struct rig *rig, unsigned donors, uint64_t seed)
{
	rig_donors(rig, donors, "32M");
	rig->config.timeout_ms = TIMEOUT_MS;
	rig->config.replicas = 2;
	rig->config.pages = TRAFFIC_PAGES + WRITERS * WRITER_PAGES;
	rig_open(rig);
	log_begin();
	traffic_begin(&traffic, rig, seed);
}

static void check(struct rig *rig, const char *name)
{
	struct store_stats stats;

	ok(traffic_good(&traffic), "%s: all of %u requests and all pages are right", name, traffic.done);
	stats = rig_stats(rig);
	ok(!stats.lost_pages && !stats.checksum_errors, "%s: no page is lost, and no stale page is read", name);
}

/* A signal sent to a donor while requests continue. */
struct blow {
	pid_t pid;
	int signal;
	unsigned after_ms;
};

static void *blow_main(void *argument)
{
	const struct blow *blow = argument;

	sleep_ms(blow->after_ms);
	kill(blow->pid, blow->signal);
	return NULL;
}

static void run_with(struct rig *rig, unsigned donor, int signal, unsigned ms)
{
	struct blow blow = {.pid = rig->donors[donor].pid, .signal = signal, .after_ms = 200};
	pthread_t thread;

	pthread_create(&thread, NULL, blow_main, &blow);
	traffic.slowest = 0;
	traffic_run(&traffic, ms);
	pthread_join(thread, NULL);
	if (signal == SIGKILL)
		donor_kill(&rig->donors[donor]); /* and waits for the donor's end */
}

/* Sends requests until the condition is true. Returns false if it is still false after 40 s. */
#define run_until(condition) wait_until_ms(40000, (traffic_run(&traffic, 50), (condition)))

/* Sends requests until the beginning of a rebuild was logged @nth times. On a busy machine it may take seconds until a
   stopped donor is noticed. */
static bool run_until_begun(unsigned nth)
{
	return run_until(log_count(BEGUN) >= nth);
}

/* Sends requests until no slab lacks a replica and the end of the rebuild was logged @nth times. */
static bool run_until_done(unsigned nth)
{
	return run_until(log_count(DONE) >= nth && !rig_stats(traffic.rig).slabs_lacking);
}

static void say_stall(const char *name)
{
	ok(traffic.slowest < STALL_MS * MS, "%s: the slowest request takes %llu ms", name,
	   (unsigned long long)(traffic.slowest / MS));
}

/* --- Killed ----------------------------------------------------------------------------------------------------- */

static void killed_donors_replicas_are_rebuilt(void)
{
	struct store_stats stats;
	struct rig rig;

	open_rig(&rig, 3, 1);
	run_with(&rig, 0, SIGKILL, 600);
	say_stall("one of three is killed");
	ok(run_until_done(1), "the replicas of a killed donor are rebuilt on the other two");
	stats = rig_stats(&rig);
	ok(log_count(BEGUN) && stats.rebuilt_pages && !stats.slabs_lacking,
	   "lines report begin and end of the rebuild, which copies %llu pages",
	   (unsigned long long)stats.rebuilt_pages);
	check(&rig, "one of three is killed");
	run_with(&rig, 1, SIGKILL, 600);
	say_stall("another one is killed");
	check(&rig, "another one is killed");
	ok(rig_stats(&rig).slabs_lacking, "slabs lack a replica when only one donor is left");
	store_discard(rig.store, 0, rig.store->pages);
	ok(rig_wait_leased(&rig, 0), "all memory is released after a discard with one donor left");
	log_show();
	rig_close(&rig);
}

/* --- Stopped ---------------------------------------------------------------------------------------------------- */

static void stopped_donors_replicas_are_rebuilt(void)
{
	struct rig rig;
	bool begun;

	open_rig(&rig, 3, 2);
	run_with(&rig, 0, SIGSTOP, 2500);
	say_stall("one of three is stopped");
	begun = run_until_begun(1);
	kill(rig.donors[0].pid, SIGCONT);
	ok(begun && run_until_done(1), "pages written while a donor was stopped get two replicas again");
	traffic_run(&traffic, 1500); /* the donor is back, and its old pages must not be read */
	check(&rig, "one of three is stopped");
	donor_kill(&rig.donors[2]);
	traffic_run(&traffic, 300);
	check(&rig, "one of three was stopped and another one is killed");
	store_discard(rig.store, 0, rig.store->pages);
	ok(rig_wait_leased(&rig, 0), "all memory is released after a discard with one donor killed");
	log_show();
	rig_close(&rig);
}

static void donor_stopped_too_long_is_used_again_without_slabs(void)
{
	struct rig rig;
	bool lost;

	rig_donors(&rig, 3, "32M");
	rig.config.timeout_ms = 3000;
	rig.config.replicas = 2;
	rig_open(&rig);
	log_begin();
	traffic_begin(&traffic, &rig, 3);
	run_with(&rig, 0, SIGSTOP, 600);
	lost = run_until(log_count("what it held is lost"));
	kill(rig.donors[0].pid, SIGCONT);
	ok(lost && run_until_done(1), "the replicas of a donor stopped for longer than the timeout are rebuilt");
	ok(log_wait("it is used again", 1, NULL),
	   "a donor stopped for longer than the timeout is used again, without slabs");
	traffic_run(&traffic, 300);
	check(&rig, "stopped for longer than the timeout");
	donor_kill(&rig.donors[1]);
	ok(run_until_done(2), "the replicas of a second lost donor are rebuilt");
	check(&rig, "another one is killed");
	log_show();
	rig_close(&rig);
}

/* --- Two only --------------------------------------------------------------------------------------------------- */

static void returning_donor_of_two_is_filled_again(void)
{
	struct rig rig;

	open_rig(&rig, 2, 4);
	run_with(&rig, 0, SIGSTOP, 2000);
	say_stall("one of two is stopped");
	ok(run_until(rig_stats(&rig).slabs_lacking), "slabs lack a replica while one of two donors is stopped");
	kill(rig.donors[0].pid, SIGCONT);
	ok(run_until_done(1), "slabs get their second replica back when the stopped donor returns");
	check(&rig, "one of two is stopped");
	donor_kill(&rig.donors[0]);
	ok(log_wait("what it held is lost", 1, NULL), "a killed donor of two is reported as lost");
	/* New slabs are leased, too, while there is only one donor. */
	store_discard(rig.store, 0, RIG_SLAB_PAGES);
	traffic_rewrite(&traffic, RIG_SLAB_PAGES);
	traffic_run(&traffic, 200);
	check(&rig, "one of two is killed");
	donor_again(&rig.donors[0]);
	ok(run_until_done(2), "a killed donor of two that starts again gets all replicas");
	donor_kill(&rig.donors[1]);
	traffic_run(&traffic, 300);
	check(&rig, "the other one is killed");
	log_show();
	rig_close(&rig);
}

/* --- Several queues --------------------------------------------------------------------------------------------- */

/* A thread that writes and reads its own pages through its own queue. */
struct writer {
	struct rig *rig;
	unsigned index;
	_Atomic bool stop;
	unsigned done, wrong;
};

static void *writer_main(void *argument)
{
	struct writer *writer = argument;
	struct rig *rig = writer->rig;
	uint8_t *data = rig->bytes + (size_t)(TRAFFIC_DEPTH + writer->index) * STORE_PAGE;
	struct store_queue *queue;
	uint64_t version = 0;

	if (store_queue_open(rig->store, &queue) < 0)
		return NULL;
	while (!writer->stop) {
		version++;
		for (uint64_t i = 0; i < WRITER_PAGES; i++) {
			uint64_t page = TRAFFIC_PAGES + writer->index * WRITER_PAGES + i;

			rig_fill(data, page, version);
			writer->wrong += rig_io(rig, queue, STORE_WRITE, page, 1, data) != 0;
			memset(data, 0, STORE_PAGE);
			writer->wrong +=
			    rig_io(rig, queue, STORE_READ, page, 1, data) != 0 || !rig_is(data, page, version);
			writer->done++;
		}
	}
	store_queue_close(queue);
	return NULL;
}

/* Slots come and go, and rebuild windows open and close, under the writes of several threads. */
static void writes_of_several_queues_survive_rebuilds(void)
{
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	unsigned wrong = 0, rebuilt = 0;
	struct rig rig;

	open_rig(&rig, 3, 5);
	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){.rig = &rig, .index = i};
		pthread_create(&threads[i], NULL, writer_main, &writers[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		kill(rig.donors[i].pid, SIGSTOP);
		rebuilt += run_until_begun(i + 1);
		kill(rig.donors[i].pid, SIGCONT);
		rebuilt += run_until_done(i + 1);
	}
	donor_kill(&rig.donors[2]);
	rebuilt += run_until_done(3);
	ok(rebuilt == 5, "three queues: replicas are rebuilt three times");
	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i].stop = true;
		pthread_join(threads[i], NULL);
		wrong += writers[i].wrong + !writers[i].done;
	}
	ok(!wrong, "three queues: every write is read back");
	check(&rig, "three queues");
	log_show();
	rig_close(&rig);
}

/* --- Midway ----------------------------------------------------------------------------------------------------- */

#define MIDWAY_RATE (UINT64_C(4) << 20)

/* Three replicas on four donors. One donor is killed, and another one during the slow rebuild. */
static void rebuild_survives_a_second_loss_and_keeps_its_rate(void)
{
	struct store_stats stats;
	uint64_t begun = 0, pages;
	struct rig rig;

	rig_donors(&rig, 4, "32M");
	rig.config.timeout_ms = TIMEOUT_MS;
	rig.config.replicas = 3;
	rig.config.rebuild_rate = MIDWAY_RATE;
	rig_open(&rig);
	log_begin();
	traffic_begin(&traffic, &rig, 6);
	donor_kill(&rig.donors[0]);
	ok(log_wait(BEGUN, 1, &begun), "three replicas: the rebuild begins once one donor is killed");
	while (!(pages = rig_stats(&rig).rebuilt_pages))
		traffic_run(&traffic, 20);
	begun = clock_now();
	traffic_run(&traffic, 300);
	stats = rig_stats(&rig);
	/* The limit allows two more windows of 64 pages: one at the start of the measured time, one at its end. */
	ok(stats.rebuilt_pages <= pages + 128 + MIDWAY_RATE * ((clock_now() - begun) / MS) / 1000 / STORE_PAGE,
	   "the rebuild keeps to its rate: %llu pages copied, %llu slabs to go",
	   (unsigned long long)stats.rebuilt_pages, (unsigned long long)stats.slabs_lacking);
	donor_kill(&rig.donors[1]);
	traffic_run(&traffic, 1500);
	check(&rig, "another one is killed during the rebuild");
	/* In the end each slab lies on the two donors that are left. */
	ok(rig_becomes(&rig, slabs_lacking, TRAFFIC_PAGES / RIG_SLAB_PAGES),
	   "a rebuild interrupted by a second loss is started again elsewhere");
	donor_kill(&rig.donors[2]);
	traffic_run(&traffic, 300);
	check(&rig, "all donors but one are killed");
	store_discard(rig.store, 0, rig.store->pages);
	ok(rig_wait_leased(&rig, 0), "all memory is released after a discard with three of four donors killed");
	log_show();
	rig_close(&rig);
}

/* --- Corruption ------------------------------------------------------------------------------------------------- */

/* The store reads from a donor chosen at random. The test repeats until that is the donor with the wrong bit. */
static void wrong_replica_is_repaired(void)
{
	struct store_stats stats = {0};
	bool good = true;
	struct rig rig;

	rig_donors(&rig, 2, "16M");
	rig.config.replicas = 2;
	for (unsigned i = 0; i < 60 && !stats.checksum_errors; i++) {
		rig_shut(&rig, false);
		rig_open(&rig);
		flips_at(1);
		good = good && rig_put(&rig, 3, 1) == 0;
		good = good && rig_has(&rig, 3, 1);
		stats = rig_stats(&rig);
	}
	ok(good && stats.checksum_errors == 1, "a page with a wrong bit on one donor is read from the other");
	ok(rig_becomes(&rig, repaired_pages, 1), "a page with a wrong bit on one donor is repaired");
	donor_kill(&rig.donors[1]);
	ok(rig_has(&rig, 3, 1), "a repaired page is read right once the other donor is killed");
	log_show();
	rig_close(&rig);
}

int main(void)
{
	log_keep();
	killed_donors_replicas_are_rebuilt();
	stopped_donors_replicas_are_rebuilt();
	donor_stopped_too_long_is_used_again_without_slabs();
	returning_donor_of_two_is_filled_again();
	writes_of_several_queues_survive_rebuilds();
	rebuild_survives_a_second_loss_and_keeps_its_rate();
	wrong_replica_is_repaired();
	return tap_done();
}
