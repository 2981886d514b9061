/*
 * bench_replicas: what a second replica costs a random 4 KiB read when all is well: the queue's own buffer and the copy
 * from it, the estimates, and a look at the other donor now and then.
 *
 * One store with one replica and one with two, each over two real donors of its own, are read in alternating blocks, so
 * that whatever else the machine does meets both alike. Only the ratio means anything.
 *
 *     bench_replicas MEMSERVER [READS]
 */
#include "common/clock.h"
#include "common/random.h"
#include "tests/func/client/rig.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGES (8 * RIG_SLAB_PAGES)
#define BLOCK 500u
#define SAMPLES_MAX (1u << 20)

static struct random_state chance;
static struct side {
	struct rig rig;
	unsigned count;
	uint64_t ns[SAMPLES_MAX];
} sides[2];

static void side_open(struct side *side, unsigned replicas)
{
	rig_donors(&side->rig, 2, "32M");
	side->rig.config.replicas = replicas;
	rig_open(&side->rig, "tcp");
	for (uint64_t page = 0; page < PAGES; page++) {
		rig_fill(side->rig.bytes, page, 1);
		if (rig_write(&side->rig, page, 1, side->rig.bytes) != 0)
			exit(EXIT_FAILURE);
	}
}

static void block_read(struct side *side)
{
	struct rig *rig = &side->rig;
	struct store_io io = {.op = STORE_READ, .count = 1, .data = rig->bytes, .buffer = rig->buffer};
	struct store_done done;

	for (unsigned i = 0; i < BLOCK && side->count < SAMPLES_MAX; i++) {
		uint64_t begun = clock_now();

		io.page = random_below(&chance, PAGES);
		if (store_submit(rig->queue, &io, 1) != 1)
			exit(EXIT_FAILURE);
		while (!store_poll(rig->queue, &done, 1))
			sched_yield();
		side->ns[side->count++] = clock_now() - begun;
		if (done.status || !rig_is(rig->bytes, io.page, 1))
			exit(EXIT_FAILURE);
	}
}

static int compare(const void *a, const void *b)
{
	return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : *(const uint64_t *)a > *(const uint64_t *)b;
}

int main(int argc, char **argv)
{
	unsigned reads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100000;
	uint64_t median[2], late;
	struct store_stats stats;

	daemon_program(argc > 1 ? argv[1] : NULL);
	random_seed(&chance, 1);
	for (unsigned i = 0; i < 2; i++)
		side_open(&sides[i], i + 1);
	while (sides[0].count < reads && sides[0].count < SAMPLES_MAX)
		for (unsigned i = 0; i < 2; i++)
			block_read(&sides[i]);
	for (unsigned i = 0; i < 2; i++) {
		store_stats(sides[i].rig.store, &stats);
		qsort(sides[i].ns, sides[i].count, sizeof *sides[i].ns, compare);
		median[i] = sides[i].ns[sides[i].count / 2];
		late = sides[i].ns[sides[i].count - 1 - sides[i].count / 100];
		printf("replicas %u: p50 %6.2f us, p99 %8.2f us; %llu hedges, %llu won\n", i + 1,
		       (double)median[i] / 1000, (double)late / 1000, (unsigned long long)stats.hedges,
		       (unsigned long long)stats.hedges_won);
	}
	printf("p50 of 2 replicas / 1: %.3f\n", (double)median[1] / (double)median[0]);
	for (unsigned i = 0; i < 2; i++)
		rig_close(&sides[i].rig);
	return EXIT_SUCCESS;
}
