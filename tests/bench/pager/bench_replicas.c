/*
 * bench_replicas: the cost of a second replica for faults and eviction of a program, without faults of donors.
 *
 * A round runs with one replica and with two, on the same two donors. It writes 128 MiB and sends them out
 * (FARPAGE_PAGEOUT). The time until all pages have left is the time of eviction, without other work. Then it touches
 * the pages in random order, one by one, with room for all. Program and donors share the machine's processors.
 *
 *     bench_replicas [ROUNDS]
 */
#include "client/store.h"
#include "common/clock.h"
#include "farpage/farpage.h"
#include "tests/bench/figures.h"
#include "tests/lib/donor.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)
#define FAR (128 * MIB)
#define FAULTS 20000u
#define SENT 3u /* number of times; the quickest counts, because the first also leases slabs */

static struct donor_process donors[2];
static struct samples faults;
static struct rounds p50[2], p99[2], rate[2];

/* Gives every page new contents. */
static void dirty(uint64_t *words, uint64_t version)
{
	for (size_t i = 0; i < FAR / sizeof *words; i += 8)
		words[i] = (i + version) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static void touch(const uint64_t *words, uint64_t version)
{
	faults.count = 0;
	for (unsigned i = 0; i < FAULTS; i++) {
		size_t word = i * UINT64_C(7919) % (FAR / STORE_PAGE) * (STORE_PAGE / sizeof *words);
		uint64_t begun = clock_now(), value = *(const volatile uint64_t *)&words[word];

		samples_add(&faults, clock_now() - begun);
		must(value == ((word + version) * UINT64_C(0x9e3779b97f4a7c15) | 1), "a page is wrong");
	}
	samples_sort(&faults);
}

static void round_run(unsigned replicas, double *ret_fault, double *ret_rate)
{
	const char *const uris[] = {donors[0].uri, donors[1].uri};
	struct farpage_options options = {
	    .local = 160 * MIB, .donors = uris, .donor_count = 2, .replicas = replicas, .window = 512 * MIB};
	struct farpage_stats stats;
	struct farpage *farpage;
	void *memory;

	must(farpage_open(&options, &farpage) == 0 && farpage_map(farpage, FAR, &memory) == 0, "no far memory");
	*ret_rate = 0;
	for (unsigned i = 0; i < SENT; i++) {
		uint64_t begun;
		double pages_per_ms;

		dirty(memory, i);
		begun = clock_now();
		must(farpage_advise(farpage, memory, FAR, FARPAGE_PAGEOUT) == 0, "pages are not sent out");
		pages_per_ms = FAR / STORE_PAGE * 1e6 / (double)(clock_now() - begun);
		*ret_rate = pages_per_ms > *ret_rate ? pages_per_ms : *ret_rate;
	}
	touch(memory, SENT - 1);
	farpage_get_stats(farpage, &stats);
	must(stats.faults_far > FAULTS * 9ull / 10, "faults are not far");
	farpage_close(farpage);
	*ret_fault = samples_quantile(&faults, 500);
	rounds_add(&p50[replicas - 1], *ret_fault);
	rounds_add(&p99[replicas - 1], samples_quantile(&faults, 990));
	rounds_add(&rate[replicas - 1], *ret_rate);
}

int main(int argc, char **argv)
{
	const unsigned rounds = argument_number(argc, argv, 1, 7);
	struct rounds fault_ratio = {0}, rate_ratio = {0};

	must(rounds, "usage: bench_replicas [ROUNDS]");
	for (unsigned i = 0; i < 2; i++)
		donor_start(&donors[i], "--donate", "1G", "--reserve", "1M");
	for (unsigned i = 0; i < rounds; i++) {
		double fault[2], pages[2];

		for (unsigned j = 0; j < 2; j++)
			round_run(j + 1, &fault[j], &pages[j]);
		rounds_add(&fault_ratio, fault[1] / fault[0]);
		rounds_add(&rate_ratio, pages[1] / pages[0]);
	}
	for (unsigned i = 0; i < 2; i++) {
		printf("replicas %u:\n", i + 1);
		figure("  far fault, p50", "us", &p50[i]);
		figure("  far fault, p99", "us", &p99[i]);
		figure("  eviction, pages a millisecond", "/ms", &rate[i]);
	}
	figure_at_most("far fault p50, 2 replicas / 1", "x", &fault_ratio, 1.05);
	figure_at_least("eviction throughput, 2 replicas / 1", "x", &rate_ratio, 0.6);
	for (unsigned i = 0; i < 2; i++)
		donor_stop(&donors[i], SIGTERM);
	return EXIT_SUCCESS;
}
