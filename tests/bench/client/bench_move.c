/*
 * bench_move: the speed of moving a GiB from a donor that is drained to another donor, compared with the sequential
 * bandwidth of the fabric, and the effect of the move on reads of the program.
 *
 * One of two donors has all pages. A round has three steps:
 *   1. the fabric alone reads and writes 256 KiB pieces, several in flight, on one connection to this donor
 *   2. one thread reads random pages, one at a time
 *   3. these reads go on while the donor is drained, until it lends nothing
 * Donors are processes of this machine, so all processes share its processors. In the next round the other donor has
 * all pages.
 *
 *     bench_move [ROUNDS [MIB]]
 */
#include "client/donor/operate.h"
#include "client/io/far_link.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/spin.h"
#include "tests/bench/figures.h"
#include "tests/func/client/rig.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB UINT64_C(1048576)
#define SLAB (64 * MIB)
#define PIECE (256u << 10)
#define PIECES 8u /* in flight */
#define CALM_READS 30000u
#define DEADLINE_MS 10000u /* the default deadline of a drain */

static struct rig rig;
static uint64_t pages;

/* --- Donors ----------------------------------------------------------------------------------------------------- */

static void donors_start(uint64_t bytes)
{
	char size[24];

	snprintf(size, sizeof size, "%llu", (unsigned long long)(bytes + 4 * SLAB));
	for (unsigned i = 0; i < 2; i++)
		donor_start(&rig.donors[i], "--donate", size, "--slab", "64M", "--reserve", "1M");
	rig.donor_count = 2;
	rig.config = (struct far_config){.donor_count = 2,
					 .replicas = 1,
					 .grace_ms = 2000,
					 .pages = bytes / STORE_PAGE,
					 .fabric = FABRIC_CONFIG_DEFAULT,
					 .timeout_ms = 10000};
}

/* Opens a session for each order, because this program does not keep an idle session alive. */
static void donor_order(unsigned donor, enum wire_drain what, struct operate **ret_operate)
{
	struct wire_message order = {.type = WIRE_DRAIN}, answer;

	order.drain.what = what;
	order.drain.deadline_ms = what == WIRE_DRAIN_FORCE ? DEADLINE_MS : 0;
	must(operate_open(&rig.config, rig.donors[donor].uri, ret_operate) == 0 &&
		 operate_ask(*ret_operate, &order, &answer) == 0,
	     "a donor does not take an order");
}

/* --- The fabric alone ------------------------------------------------------------------------------------------- */

/* Returns the address of the piece on the donor. */
static struct fabric_remote piece_at(uint64_t piece, unsigned donor)
{
	const struct far *far = (struct far *)rig.store;
	const uint64_t page = piece * (PIECE / STORE_PAGE);
	struct chunk_view view;

	must(chunk_view(&far->table, page / far->table.pages, &view), "a page is not there");
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (view.slots[i].state == SLOT_FULL && view.slots[i].donor == donor)
			return (struct fabric_remote){view.slots[i].address + page % far->table.pages * STORE_PAGE,
						      view.slots[i].rkey};
	must(false, "the donor has no slab");
	return (struct fabric_remote){0};
}

/* Reads or writes all pieces with PIECES in flight. Returns bytes a second. The bytes written do not matter. */
static double sequential(enum fabric_op_kind kind, unsigned donor)
{
	struct far_queue *queue = (struct far_queue *)rig.queue;
	uint64_t begun = clock_now(), posted = 0, done = 0, count = pages * STORE_PAGE / PIECE;
	struct fabric_event event;

	while (done < count) {
		while (posted < count && posted - done < PIECES) {
			struct fabric_op op = {.kind = kind,
					       .length = PIECE,
					       .local = rig.bytes + posted % PIECES * PIECE,
					       .region = (struct fabric_region *)rig.buffer,
					       .remote = piece_at(posted, donor)};

			must(fabric_post(queue->links[donor].conn, &op, 1) == 1, "an operation is not taken");
			posted++;
		}
		if (fabric_poll(queue->fabric, &event, 1))
			must(event.kind == FABRIC_DONE && !event.status && ++done, "an operation fails");
	}
	return (double)(count * PIECE) * 1e9 / (double)(clock_now() - begun);
}

/* --- Demand ----------------------------------------------------------------------------------------------------- */

static struct demand {
	struct store_queue *queue;
	struct store_buffer *buffer;
	uint8_t *page;
	struct samples samples;
	unsigned reads; /* number of reads, or 0 to read until `stop` */
	_Atomic bool stop;
	struct random_state chance;
} demand;

/* Waits as the pager does: polls for an adapted time, then sleeps. */
static void demand_wait(struct spin *spin, struct store_done *done)
{
	uint64_t begun = clock_now();
	bool late = false;

	while (!store_poll(demand.queue, done, 1)) {
		struct pollfd fd = {.fd = store_queue_fd(demand.queue), .events = POLLIN};

		late = late || clock_now() - begun > spin->ns;
		if (!late)
			sched_yield();
		else if (store_arm(demand.queue) == 0)
			poll(&fd, 1, 1000);
	}
	if (late)
		spin_learn(spin, clock_now() - begun);
}

static void *demand_main(void *unused)
{
	struct store_io io = {.op = STORE_READ, .count = 1, .data = demand.page, .buffer = demand.buffer};
	struct store_done done;
	struct spin spin;

	(void)unused;
	spin_init(&spin, FABRIC_CONFIG_DEFAULT.spin_us);
	demand.samples.count = 0;
	while (demand.reads ? demand.samples.count < demand.reads : !atomic_load(&demand.stop)) {
		uint64_t begun = clock_now();

		io.page = random_below(&demand.chance, pages);
		must(store_submit(demand.queue, &io, 1) == 1, "a request is not taken");
		demand_wait(&spin, &done);
		samples_add(&demand.samples, clock_now() - begun);
		must(!done.status && rig_is(demand.page, io.page, 1), "a page is wrong");
	}
	return NULL;
}

/* --- The move --------------------------------------------------------------------------------------------------- */

static void fill(void)
{
	for (uint64_t page = 0; page < pages; page += PIECE / STORE_PAGE) {
		for (uint64_t i = 0; i < PIECE / STORE_PAGE; i++)
			rig_fill(rig.bytes + i * STORE_PAGE, page + i, 1);
		must(rig_write(&rig, page, PIECE / STORE_PAGE, rig.bytes) == 0, "pages cannot be written");
	}
}

/* Drains the donor. Returns the seconds until it lends nothing. */
static double drain(unsigned donor)
{
	struct wire_message ask = {.type = WIRE_DRAIN}, answer;
	struct operate *operate;
	uint64_t begun;

	donor_order(!donor, WIRE_DRAIN_END, &operate);
	operate_close(operate);
	begun = clock_now();
	donor_order(donor, WIRE_DRAIN_FORCE, &operate);
	do {
		sleep_ms(1);
		ask.drain.what = WIRE_DRAIN_ASK;
		must(operate_ask(operate, &ask, &answer) == 0, "a donor does not answer");
	} while (answer.draining.slabs);
	operate_close(operate);
	must(!rig_stats(&rig).lost_pages, "pages are lost");
	return (double)(clock_now() - begun) / 1e9;
}

static struct rounds read_rate, write_rate, move_rate, share, calm_p50, calm_p99, busy_p50, busy_p99, growth;

static void round_run(unsigned donor)
{
	/* The queue was idle, and its connection may have ended. This read makes a new connection. */
	const bool there = rig_read(&rig, 0, 1, rig.bytes) == 0;
	double reads = sequential(FABRIC_READ, donor), writes = sequential(FABRIC_WRITE, donor), seconds;
	double bytes = (double)(pages * STORE_PAGE), calm;
	const pid_t donors[] = {rig.donors[0].pid, rig.donors[1].pid};
	struct others others;
	pthread_t thread;

	must(there, "a page cannot be read");
	fill();
	others_begin(&others, donors, 2);
	demand.reads = CALM_READS;
	demand_main(NULL);
	samples_sort(&demand.samples);
	calm = samples_quantile(&demand.samples, 990);
	rounds_add(&calm_p50, samples_quantile(&demand.samples, 500));
	rounds_add(&calm_p99, calm);
	demand.reads = 0;
	atomic_store(&demand.stop, false);
	pthread_create(&thread, NULL, demand_main, NULL);
	seconds = drain(donor);
	atomic_store(&demand.stop, true);
	pthread_join(thread, NULL);
	samples_sort(&demand.samples);
	rounds_add(&busy_p50, samples_quantile(&demand.samples, 500));
	rounds_add(&busy_p99, samples_quantile(&demand.samples, 990));
	rounds_add(&growth, samples_quantile(&demand.samples, 990) / calm);
	rounds_add(&read_rate, reads / (double)MIB);
	rounds_add(&write_rate, writes / (double)MIB);
	rounds_add(&move_rate, bytes / seconds / (double)MIB);
	rounds_add(&share, bytes / seconds / reads);
	printf("  round: fabric reads %.0f, writes %.0f MiB/s; moved in %.2f s; p99 %.1f us before, %.1f us (of %u "
	       "reads) meanwhile; others had %.0f %% of the processors\n",
	       reads / (double)MIB, writes / (double)MIB, seconds, calm, samples_quantile(&demand.samples, 990),
	       demand.samples.count, others_share(&others));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned rounds = argument_number(argc, argv, 1, 5);
	uint64_t bytes = argument_number(argc, argv, 2, 1024) * MIB;
	struct operate *operate;

	must(rounds, "usage: bench_move [ROUNDS [MIB]]");
	random_seed(&demand.chance, 1);
	donors_start(bytes);
	donor_order(1, WIRE_DRAIN_WAIT, &operate);
	operate_close(operate);
	rig_open(&rig);
	pages = bytes / STORE_PAGE;
	must(store_queue_open(rig.store, &demand.queue) == 0, "no queue");
	demand.page = rig.bytes + (RIG_BUFFER_PAGES - 1) * STORE_PAGE;
	demand.buffer = rig.buffer;
	fill();
	for (unsigned i = 0; i < rounds; i++)
		round_run(i % 2);
	figure("fabric alone, sequential reads", "MiB/s", &read_rate);
	figure("fabric alone, sequential writes", "MiB/s", &write_rate);
	figure("a drained donor's memory is moved at", "MiB/s", &move_rate);
	figure_at_least("  of the fabric's sequential reads", "x", &share, 0.5);
	figure("demand reads before it, p50", "us", &calm_p50);
	figure("demand reads before it, p99", "us", &calm_p99);
	figure("demand reads meanwhile, p50", "us", &busy_p50);
	figure("demand reads meanwhile, p99", "us", &busy_p99);
	figure_at_most("  p99 meanwhile / before", "x", &growth, 2);
	store_queue_close(demand.queue);
	rig_close(&rig);
	return EXIT_SUCCESS;
}
