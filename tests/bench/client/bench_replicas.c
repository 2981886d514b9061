/*
 * bench_replicas: the cost of a second replica for the store without faults. A random 4 KiB read then goes through the
 * queue's own buffer, maintains estimates, and now and then reads from the other donor. A write goes out twice.
 *
 * One store has one replica, the other has two. Each has two real donors of its own. Blocks of requests alternate
 * between them, so that other load of the machine affects both in the same way. Only the ratio is meaningful. Writes
 * are of single random pages, WRITTEN in flight, without reads. Client and donors share the machine's processors, which
 * limit them. tests/bench/pager/bench_replicas.c measures the effect on faults and eviction of a program.
 *
 *     bench_replicas [READS]
 */
#include "common/clock.h"
#include "common/random.h"
#include "tests/bench/figures.h"
#include "tests/func/client/rig.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGES (8 * RIG_SLAB_PAGES)
#define BLOCK 500u
#define ROUNDS 5u
#define WRITTEN 64u
#define WRITES 4096u /* in a block */
#define WRITE_BLOCKS 8u

static struct random_state chance;
static struct side {
	struct rig rig;
	struct samples reads;
	uint64_t writing; /* ns in this round */
	struct rounds p50, p99, rate;
} sides[2];

static void side_open(struct side *side, unsigned replicas)
{
	rig_donors(&side->rig, 2, "32M");
	side->rig.config.replicas = replicas;
	rig_open(&side->rig);
	for (uint64_t page = 0; page < PAGES; page++) {
		must(rig_put(&side->rig, page, 1) == 0, "a page cannot be written");
	}
}

static void block_read(struct side *side)
{
	struct rig *rig = &side->rig;
	struct store_io io = {.op = STORE_READ, .count = 1, .data = rig->bytes, .buffer = rig->buffer};
	struct store_done done;

	for (unsigned i = 0; i < BLOCK; i++) {
		uint64_t begun = clock_now();

		io.page = random_below(&chance, PAGES);
		must(store_submit(rig->queue, &io, 1) == 1, "a request is not taken");
		while (!store_poll(rig->queue, &done, 1))
			sched_yield();
		samples_add(&side->reads, clock_now() - begun);
		must(!done.status && rig_is(rig->bytes, io.page, 1), "a page is wrong");
	}
}

/* Writes single pages in an order that starts at a random page and has no page in flight twice. */
static void block_write(struct side *side)
{
	struct rig *rig = &side->rig;
	uint64_t first = random_below(&chance, PAGES), begun;
	struct store_done dones[WRITTEN];
	unsigned submitted = 0, done = 0;

	for (unsigned i = 0; i < WRITTEN; i++)
		rig_fill(rig->bytes + i * STORE_PAGE, i, 2);
	begun = clock_now();
	while (done < WRITES) {
		int count;

		while (submitted < WRITES && submitted - done < WRITTEN) {
			/* 7919 and PAGES have no common divisor. */
			struct store_io io = {.op = STORE_WRITE,
					      .count = 1,
					      .page = (first + submitted * UINT64_C(7919)) % PAGES,
					      .data = rig->bytes + submitted % WRITTEN * STORE_PAGE,
					      .buffer = rig->buffer};

			must(store_submit(rig->queue, &io, 1) == 1, "a request is not taken");
			submitted++;
		}
		count = store_poll(rig->queue, dones, WRITTEN);
		for (int i = 0; i < count; i++, done++)
			must(!dones[i].status, "a page cannot be written");
		if (!count)
			sched_yield();
	}
	side->writing += clock_now() - begun;
}

static void round_reads(unsigned reads)
{
	for (unsigned i = 0; i < 2; i++)
		sides[i].reads.count = 0;
	while (sides[0].reads.count < reads)
		for (unsigned i = 0; i < 2; i++)
			block_read(&sides[i]);
	for (unsigned i = 0; i < 2; i++) {
		samples_sort(&sides[i].reads);
		rounds_add(&sides[i].p50, samples_quantile(&sides[i].reads, 500));
		rounds_add(&sides[i].p99, samples_quantile(&sides[i].reads, 990));
	}
}

static void round_writes(void)
{
	for (unsigned i = 0; i < 2; i++)
		sides[i].writing = 0;
	for (unsigned i = 0; i < 2 * WRITE_BLOCKS; i++)
		block_write(&sides[i % 2]);
	for (unsigned i = 0; i < 2; i++)
		rounds_add(&sides[i].rate, WRITES * WRITE_BLOCKS * 1e6 / (double)sides[i].writing);
}

static void tell(struct rounds *reads, struct rounds *writes)
{
	struct store_stats stats = rig_stats(&sides[1].rig);

	for (unsigned i = 0; i < 2; i++) {
		printf("replicas %u:\n", i + 1);
		figure("  random read, p50", "us", &sides[i].p50);
		figure("  random read, p99", "us", &sides[i].p99);
		figure("  writes, pages a millisecond", "/ms", &sides[i].rate);
	}
	printf("%llu reads were asked of both, %llu of them answered first by the second\n",
	       (unsigned long long)stats.hedges, (unsigned long long)stats.hedges_won);
	figure_at_most("read p50, 2 replicas / 1", "x", reads, 1.05);
	figure("writes, 2 replicas / 1", "x", writes);
}

int main(int argc, char **argv)
{
	unsigned reads = argument_number(argc, argv, 1, 100000);
	struct rounds ratio_reads = {0}, ratio_writes = {0};

	must(reads, "usage: bench_replicas [READS]");
	random_seed(&chance, 1);
	for (unsigned i = 0; i < 2; i++)
		side_open(&sides[i], i + 1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		double p50[2];

		round_reads(reads / ROUNDS + 1);
		for (unsigned i = 0; i < 2; i++)
			p50[i] = samples_quantile(&sides[i].reads, 500);
		rounds_add(&ratio_reads, p50[1] / p50[0]);
	}
	/* Writes come last, because they change the pages. */
	for (unsigned round = 0; round < ROUNDS; round++) {
		round_writes();
		rounds_add(&ratio_writes, (double)sides[0].writing / (double)sides[1].writing);
	}
	tell(&ratio_reads, &ratio_writes);
	for (unsigned i = 0; i < 2; i++)
		rig_close(&sides[i].rig);
	return EXIT_SUCCESS;
}
