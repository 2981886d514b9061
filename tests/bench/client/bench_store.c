/*
 * bench_store: the time that the store adds to the fabric for a random 4 KiB read of one donor.
 *
 * The donor is a real farpage-memserver on CPU 1. The client is on CPU 0. Both spin. The rows of a run are the fabric
 * alone (on the queue's own connection, with the same pages), the store over it, and the checksum alone. Reads are
 * timed one by one. Blocks of reads alternate, so that other load of the machine affects both in the same way. Only
 * ratios are meaningful.
 *
 *     bench_store [READS]
 */
#include "client/io/far_link.h"
#include "common/clock.h"
#include "common/random.h"
#include "tests/bench/figures.h"
#include "tests/func/client/rig.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGES (64 * RIG_SLAB_PAGES)
#define BLOCK 1000u
#define DEPTH 32u

static struct rig rig;
static struct random_state chance;

/* All latencies. The buckets of a histogram would be wider than the differences to measure. */
static struct samples fabric_ns, store_ns, write_ns;

static void store_one(enum store_op op, struct samples *samples)
{
	struct store_io io = {
	    .op = op, .count = 1, .page = random_below(&chance, PAGES), .data = rig.bytes, .buffer = rig.buffer};
	struct store_done done;
	uint64_t start;

	if (op == STORE_WRITE)
		rig_fill(rig.bytes, io.page, 1);
	start = clock_now();
	must(store_submit(rig.queue, &io, 1) == 1, "a request is not taken");
	while (!store_poll(rig.queue, &done, 1))
		;
	must(!done.status, "a request fails");
	samples_add(samples, clock_now() - start);
}

static void fabric_one(void)
{
	struct far_queue *queue = (struct far_queue *)rig.queue;
	uint64_t page = random_below(&chance, PAGES), start;
	struct chunk_view view;
	struct fabric_event event;

	must(chunk_view(&queue->far->table, page / RIG_SLAB_PAGES, &view), "a page is not there");
	struct fabric_op op = {
	    .kind = FABRIC_READ,
	    .length = STORE_PAGE,
	    .local = rig.bytes,
	    .region = (struct fabric_region *)rig.buffer,
	    .remote = {view.slots[0].address + page % RIG_SLAB_PAGES * STORE_PAGE, view.slots[0].rkey}};
	start = clock_now();
	must(fabric_post(queue->links[0].conn, &op, 1) == 1, "an operation is not taken");
	while (!fabric_poll(queue->fabric, &event, 1))
		;
	must(event.kind == FABRIC_DONE && !event.status, "an operation fails");
	samples_add(&fabric_ns, clock_now() - start);
}

static uint64_t checksum_mean(void)
{
	const struct integrity *integrity = &((struct far *)rig.store)->integrity;
	uint64_t start = clock_now(), good = 0;

	for (unsigned i = 0; i < 100000; i++)
		good += integrity_check(integrity, i % PAGES, rig.bytes + i % RIG_BUFFER_PAGES * STORE_PAGE);
	must(good < 100000, "every checksum is right");
	return (clock_now() - start) / 100000;
}

/* Returns pages a second with DEPTH reads in flight. */
static double store_rate(unsigned reads)
{
	struct store_io ios[DEPTH];
	struct store_done dones[DEPTH];
	unsigned submitted = 0, done = 0;
	uint64_t start = clock_now();

	while (done < reads) {
		unsigned count = 0;

		while (submitted + count < reads && submitted + count - done < DEPTH) {
			ios[count] = (struct store_io){.op = STORE_READ,
						       .count = 1,
						       .page = random_below(&chance, PAGES),
						       .data = rig.bytes + (submitted + count) % DEPTH * STORE_PAGE,
						       .buffer = rig.buffer};
			count++;
		}
		submitted += (unsigned)store_submit(rig.queue, ios, count);
		done += (unsigned)store_poll(rig.queue, dones, DEPTH);
	}
	return reads * 1e9 / (double)(clock_now() - start);
}

static void row(const char *name, struct samples *samples)
{
	samples_sort(samples);
	printf("%-28s %8.2f %8.2f\n", name, samples_quantile(samples, 500), samples_quantile(samples, 990));
}

int main(int argc, char **argv)
{
	unsigned reads = argument_number(argc, argv, 1, 100000);
	uint64_t first_start, first;

	rig_donors(&rig, 1, "128M");
	pin(rig.donors[0].pid, 1);
	rig_open(&rig);
	pin(0, 0);
	random_seed(&chance, 1);
	rig_fill(rig.bytes, 0, 1);
	first_start = clock_now();
	must(rig_write(&rig, 0, 1, rig.bytes) == 0, "a page cannot be written");
	first = clock_now() - first_start;
	must(rig_put_each(&rig, 0, PAGES, 1) == 0, "a page cannot be written");
	for (unsigned i = 0; i < reads; i += BLOCK) {
		for (unsigned j = 0; j < BLOCK; j++)
			fabric_one();
		for (unsigned j = 0; j < BLOCK; j++)
			store_one(STORE_READ, &store_ns);
	}
	for (unsigned i = 0; i < reads; i++)
		store_one(STORE_WRITE, &write_ns);
	printf("%-28s %8s %8s\n", "4 KiB, random, one at a time", "p50 us", "p99 us");
	row("read, fabric alone", &fabric_ns);
	row("read, store", &store_ns);
	row("write, store", &write_ns);
	printf("the store adds %.2f us (p50) to a read, of which the checksum %.2f us\n",
	       samples_quantile(&store_ns, 500) - samples_quantile(&fabric_ns, 500), (double)checksum_mean() / 1000);
	printf("reads, %u in flight: %.0f pages/s\n", DEPTH, store_rate(reads * 2));
	printf("first write of a slab of %u KiB, with its lease: %.0f us\n", RIG_SLAB >> 10, (double)first / 1000);
	rig_close(&rig);
	return 0;
}
