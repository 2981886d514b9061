/*
 * bench_checksum: the share of a page's checksum in the time of a far fault.
 *
 * A round measures random far faults through libfarpage over tcp, with one thread and room for all pages. Then it
 * measures integrity_check() alone, which checks each fetched page. It does so for pages in the nearest cache, like a
 * page that this processor has just received, and for pages from memory, which is the worst case.
 *
 *     bench_checksum [ROUNDS]
 */
#include "client/page/integrity.h"
#include "client/store.h"
#include "common/clock.h"
#include "farpage/farpage.h"
#include "tests/bench/figures.h"
#include "tests/lib/donor.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define FAR (128 * MIB)
#define FAULTS 20000u
#define CHECKS 65536u
#define NEAR_PAGES 4u
#define COLD_PAGES 16384u

static struct samples faults;
static uint8_t *pages;

static double fault_us(const char *uri)
{
	struct farpage_options options = {.local = 160 * MIB, .donors = &uri, .donor_count = 1, .window = 512 * MIB};
	struct farpage_stats stats;
	struct farpage *farpage;
	void *memory;

	must(farpage_open(&options, &farpage) == 0 && farpage_map(farpage, FAR, &memory) == 0, "no far memory");
	for (size_t i = 0; i < FAR; i += STORE_PAGE)
		memset((uint8_t *)memory + i, (int)(i / STORE_PAGE) | 1, STORE_PAGE);
	farpage_advise(farpage, memory, FAR, FARPAGE_PAGEOUT);
	faults.count = 0;
	for (unsigned i = 0; i < FAULTS; i++) {
		const volatile uint8_t *byte =
		    (const volatile uint8_t *)memory + i * UINT64_C(7919) % (FAR / STORE_PAGE) * STORE_PAGE;
		uint64_t begun = clock_now();

		must(*byte & 1, "a page is wrong");
		samples_add(&faults, clock_now() - begun);
	}
	farpage_get_stats(farpage, &stats);
	must(stats.faults_far > FAULTS * 9ull / 10, "faults are not far");
	farpage_close(farpage);
	samples_sort(&faults);
	return samples_quantile(&faults, 500);
}

/* Returns the mean time of a check in us, with @count different pages in turn. */
static double check_us(struct integrity *integrity, unsigned count)
{
	uint64_t begun = clock_now(), good = 0;

	for (unsigned i = 0; i < CHECKS; i++)
		good += integrity_check(integrity, i % count, pages + (size_t)(i % count) * STORE_PAGE);
	must(good == CHECKS, "a checksum is wrong");
	return (double)(clock_now() - begun) / CHECKS / 1000;
}

int main(int argc, char **argv)
{
	const unsigned rounds = argument_number(argc, argv, 1, 5);
	struct rounds fault = {0}, near = {0}, cold = {0}, share = {0}, worst = {0};
	static struct integrity integrity;
	static struct donor_process donor;

	must(rounds, "usage: bench_checksum [ROUNDS]");
	donor_start(&donor, "--donate", "512M", "--reserve", "1M");
	pages = aligned_alloc(STORE_PAGE, (size_t)COLD_PAGES * STORE_PAGE);
	must(pages && integrity_open(&integrity, COLD_PAGES) == 0, "no memory");
	for (unsigned i = 0; i < COLD_PAGES; i++) {
		memset(pages + (size_t)i * STORE_PAGE, (int)i | 1, STORE_PAGE);
		integrity_prepare(&integrity, i, pages + (size_t)i * STORE_PAGE);
		integrity_commit(&integrity, i, 1);
	}
	for (unsigned i = 0; i < rounds; i++) {
		double us = fault_us(donor.uri), check = check_us(&integrity, NEAR_PAGES);
		double far_check = check_us(&integrity, COLD_PAGES);

		rounds_add(&fault, us);
		rounds_add(&near, check);
		rounds_add(&cold, far_check);
		rounds_add(&share, 100 * check / us);
		rounds_add(&worst, 100 * far_check / us);
	}
	figure("far fault, p50", "us", &fault);
	figure("checksum of 4 KiB just received, and its comparison", "us", &near);
	figure("checksum of 4 KiB that is in no cache", "us", &cold);
	figure_at_most("checksum, of a far fault", "%", &share, 3);
	figure("  if the page were in no cache", "%", &worst);
	integrity_close(&integrity);
	free(pages);
	return donor_stop(&donor, SIGTERM) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
