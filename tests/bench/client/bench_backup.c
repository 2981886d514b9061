/*
 * bench_backup: the cost of a backup on a local disk while all donors live. Measures random 4 KiB reads, alone and with
 * a write of a page for each read, as a pager does. Also measures the rate of such pairs.
 *
 * One store has a backup, the other has none. Each has a real donor of its own. Blocks of requests alternate between
 * them, so that other load of the machine affects both in the same way. Only ratios are meaningful. A pause after each
 * block stands for the work of a job between its faults.
 *
 *     bench_backup [READS [PATH [PAUSE-US]]]
 */
#include "common/clock.h"
#include "common/random.h"
#include "tests/bench/figures.h"
#include "tests/func/client/rig.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGES (24 * RIG_SLAB_PAGES)
#define BLOCK 200u
#define COOKIE_READ UINT64_MAX

enum work { READS, PAIRS, WORKS };

static struct random_state chance;
static unsigned pause_us = 2000;
static struct side {
	struct rig rig;
	struct samples reads[WORKS], blocks[WORKS];
	uint64_t behind_most;
} sides[2];

static void side_open(struct side *side, const char *backup)
{
	rig_donors(&side->rig, 1, "64M");
	side->rig.config.backup = backup;
	rig_open(&side->rig);
	must(rig_put_each(&side->rig, 0, PAGES, 1) == 0, "a page cannot be written");
	while (rig_stats(&side->rig).backup_behind)
		sleep_ms(1);
}

/* A block does not wait for writes under way when its read is done, like a pager. */
static void block_run(struct side *side, enum work work)
{
	struct rig *rig = &side->rig;
	struct store_io read = {
	    .op = STORE_READ, .count = 1, .data = rig->bytes, .buffer = rig->buffer, .cookie = COOKIE_READ};
	struct store_io write = {.op = STORE_WRITE, .count = 1, .buffer = rig->buffer};
	uint64_t begun = clock_now();
	unsigned writing = 0;

	for (unsigned i = 0; i < BLOCK || writing; i++) {
		struct store_done done = {.cookie = 0};
		uint64_t at = clock_now();
		bool reads = i < BLOCK;

		/* Reads and writes use different halves, so that no page is read while it is written. */
		read.page = random_below(&chance, PAGES / 2);
		write.page = PAGES / 2 + (uint64_t)i * 59 % (PAGES / 2);
		write.data = rig->bytes + (1 + i % 256) * (size_t)STORE_PAGE;
		if (reads && work == PAIRS) {
			rig_fill(write.data, write.page, at);
			must(store_submit(rig->queue, &write, 1) == 1, "a request is not taken");
			writing++;
		}
		must(!reads || store_submit(rig->queue, &read, 1) == 1, "a request is not taken");
		while (reads ? done.cookie != COOKIE_READ : writing) {
			done.cookie = 0;
			if (!store_poll(rig->queue, &done, 1)) {
				sched_yield();
				continue;
			}
			must(!done.status, "a request fails");
			writing -= done.cookie != COOKIE_READ;
		}
		if (reads)
			samples_add(&side->reads[work], clock_now() - at);
	}
	samples_add(&side->blocks[work], clock_now() - begun);
}

/* Returns the rate of the median block. Other load disturbs the extreme blocks. */
static double rate(struct side *side, enum work work)
{
	samples_sort(&side->blocks[work]);
	return BLOCK * 1e6 / samples_quantile(&side->blocks[work], 500);
}

int main(int argc, char **argv)
{
	unsigned reads = argument_number(argc, argv, 1, 40000);
	double p50[2][WORKS];

	pause_us = argument_number(argc, argv, 3, pause_us);
	random_seed(&chance, 1);
	for (unsigned i = 0; i < 2; i++)
		side_open(&sides[i], i ? (argc > 2 ? argv[2] : "/tmp/farpage-bench-backup") : NULL);
	while (sides[0].reads[READS].count < reads && sides[0].reads[READS].count < SAMPLES_MAX - BLOCK) {
		for (unsigned i = 0; i < 2; i++) {
			for (enum work work = READS; work < WORKS; work++) {
				uint64_t behind, until = clock_now() + pause_us * UINT64_C(1000);

				block_run(&sides[i], work);
				behind = rig_stats(&sides[i].rig).backup_behind;
				if (behind > sides[i].behind_most)
					sides[i].behind_most = behind;
				while (clock_now() < until)
					sched_yield();
			}
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		for (enum work work = READS; work < WORKS; work++) {
			samples_sort(&sides[i].reads[work]);
			p50[i][work] = samples_quantile(&sides[i].reads[work], 500);
		}
		printf("backup %s: read p50 %6.2f us; written out meanwhile: read p50 %6.2f us, %7.0f pairs/s; most "
		       "behind %llu pages\n",
		       i ? "on " : "off", p50[i][READS], p50[i][PAIRS], rate(&sides[i], PAIRS),
		       (unsigned long long)sides[i].behind_most);
	}
	printf("on / off: read p50 %.3f, with writes %.3f, pairs/s %.3f\n", p50[1][READS] / p50[0][READS],
	       p50[1][PAIRS] / p50[0][PAIRS], rate(&sides[1], PAIRS) / rate(&sides[0], PAIRS));
	for (unsigned i = 0; i < 2; i++)
		rig_close(&sides[i].rig);
	return EXIT_SUCCESS;
}
