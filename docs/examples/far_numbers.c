/*
 * far_numbers KEY ROUNDS DONOR...: keeps 64 MiB of numbers in far memory, and at most 16 MiB of them on this machine.
 *
 * It writes all numbers, reads them ROUNDS times, and then discards them. Exit status: 0 if each number was right, 1 if
 * far memory could not be opened or a donor's pages were lost, 2 for wrong usage.
 */
#include <farpage/farpage.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCAL_BYTES ((size_t)16 << 20)
#define TABLE_BYTES ((size_t)64 << 20)
#define BLOCK_BYTES ((size_t)1 << 20)
#define BLOCK_NUMBERS (BLOCK_BYTES / sizeof(uint64_t))
#define BLOCKS (TABLE_BYTES / BLOCK_BYTES)

/* The kernel sends SIGBUS to a thread that touches a lost page. farpage sends it to the process if it can neither store
   a page nor keep it here. A handler may call only functions that are safe in signal handlers. */
static void on_sigbus(int number)
{
	static const char line[] = "far_numbers: pages are lost, and there was no other copy\n";

	(void)number;
	_exit(write(STDERR_FILENO, line, sizeof line - 1) < 0 ? 2 : 1);
}

static void fill(uint64_t *table)
{
	for (uint64_t i = 0; i < TABLE_BYTES / sizeof *table; i++)
		table[i] = i * i;
}

/* Returns how many numbers are wrong. Fetches the next block in the background while it reads a block. */
static uint64_t count_wrong(struct farpage *far, const uint64_t *table)
{
	uint64_t wrong = 0;

	for (uint64_t block = 0; block < BLOCKS; block++) {
		uint64_t begin = block * BLOCK_NUMBERS, end = begin + BLOCK_NUMBERS;

		if (block + 1 < BLOCKS)
			farpage_advise(far, (void *)(table + end), BLOCK_BYTES, FARPAGE_WILLNEED);
		for (uint64_t i = begin; i < end; i++)
			wrong += table[i] != i * i;
	}
	return wrong;
}

static void stats_print(const struct farpage *far, const char *when)
{
	struct farpage_stats stats;

	farpage_get_stats(far, &stats);
	printf("%s: %3zu MiB local, %3zu MiB far, %zu pages fetched\n", when, (size_t)(stats.resident_bytes >> 20),
	       (size_t)(stats.far_bytes >> 20), (size_t)stats.fetched_pages);
	fflush(stdout);
}

/* Returns 0 if each number was right in each round. */
static int use(struct farpage *far, uint64_t *table, unsigned long rounds)
{
	uint64_t wrong = 0;

	fill(table);
	stats_print(far, "written  ");
	for (unsigned long round = 0; round < rounds; round++)
		wrong += count_wrong(far, table);
	stats_print(far, "read     ");
	farpage_advise(far, table, TABLE_BYTES, FARPAGE_DISCARD);
	stats_print(far, "discarded");
	return wrong != 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_sigbus};
	struct farpage_options options = {.local = LOCAL_BYTES};
	struct farpage *far;
	void *table;
	int status;

	if (argc < 4) {
		fprintf(stderr, "usage: far_numbers KEY ROUNDS DONOR...\n");
		return 2;
	}
	options.key_file = argv[1];
	options.donors = (const char *const *)argv + 3;
	options.donor_count = (unsigned)argc - 3;
	if (farpage_open(&options, &far) < 0)
		return 1; /* farpage_open() has printed the reason */
	status = farpage_map(far, TABLE_BYTES, &table);
	if (status < 0) {
		fprintf(stderr, "far_numbers: no far memory: %s\n", strerror(-status));
		farpage_close(far);
		return 1;
	}
	sigaction(SIGBUS, &action, NULL);
	status = use(far, table, strtoul(argv[2], NULL, 10));
	farpage_close(far);
	return status;
}
