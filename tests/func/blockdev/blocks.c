/*
 * blocks: reads, writes and discards pages of a block device, and checks the pages that it reads.
 *
 *     blocks DEVICE MIB STEP...   steps: fill           writes every page
 *                                        busy=SECONDS   reads, writes and discards runs of random pages
 *                                        until          does the same until standard input has a byte or ends
 *                                        discard        discards every page
 *                                        check          reads every page; if a run fails, reads each of its pages alone
 *                                        wait           does nothing until standard input has a byte or ends
 *
 * The program uses the device's first MIB mebibytes, which must be zero when it starts. After each step it prints one
 * line by one write(2): the step, and its figures "reads R writes W discards D failed F wrong N longest_ms M zero Z":
 *
 *     R, W, D   runs of each kind
 *     F         runs that failed
 *     N         pages that were read wrong
 *     M         duration of the longest run
 *     Z         pages that were rightly read as zeroes
 *
 * The exit status is 1 if any page was wrong, and 2 if the program itself failed. A run that fails does not count as a
 * failure of the program.
 *
 * Theory of operation. A page's contents follow from its number and its version. Versions that are multiples of four
 * are zeroes, because a discard leaves zeroes. A run that failed may have changed its pages. Each page therefore has a
 * range of possible versions. A read narrows that range to one version, unless zeroes fit several versions.
 */
#include "tests/lib/mix.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define WORDS (PAGE / sizeof(uint64_t))
#define RUN_MAX 64u
#define PAGES_MAX (1u << 18)

enum what { READ, WRITE, DISCARD };

static uint32_t oldest[PAGES_MAX], newest[PAGES_MAX]; /* range of each page's possible versions */
static uint64_t *buffer;                              /* RUN_MAX pages */
static size_t pages;
static int device;
static uint64_t chance = 42;
static uint64_t wrong_ever;
static struct {
	uint64_t runs[3], failed, wrong, zero, longest;
} seen;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static bool is_zero(uint32_t version)
{
	return version % 4 == 0;
}

static uint64_t word_of(size_t page, uint32_t version, size_t word)
{
	return is_zero(version) ? 0 : mix((uint64_t)page << 32 | version) + word * UINT64_C(0x9e3779b97f4a7c15);
}

static bool page_is(const uint64_t *words, size_t page, uint32_t version)
{
	for (size_t i = 0; i < WORDS; i++)
		if (words[i] != word_of(page, version, i))
			return false;
	return true;
}

static void page_check(const uint64_t *words, size_t page)
{
	for (uint32_t version = newest[page];; version--) {
		if (page_is(words, page, version)) {
			seen.zero += is_zero(version);
			/* Zeroes may also be an older version of the range. In that case the range stays as it is. */
			if (!is_zero(version) || newest[page] - oldest[page] < 4)
				oldest[page] = newest[page] = version;
			return;
		}
		if (version == oldest[page])
			break;
	}
	if (seen.wrong++ >= 10)
		return;
	dprintf(STDOUT_FILENO, "page %zu is wrong: not of version %u to %u; it begins with %016llx\n", page,
		oldest[page], newest[page], (unsigned long long)*words);
}

/* Gives the page its next version. Writes the contents to @words unless @zero. */
static void page_change(size_t page, bool zero, uint64_t *words)
{
	newest[page] = zero ? (newest[page] | 3) + 1 : newest[page] + 1 + is_zero(newest[page] + 1);
	for (size_t i = 0; !zero && i < WORDS; i++)
		words[i] = word_of(page, newest[page], i);
}

static bool device_does(enum what what, size_t first, size_t count)
{
	uint64_t range[2] = {(uint64_t)first * PAGE, (uint64_t)count * PAGE};
	ssize_t done;

	if (what == DISCARD)
		return ioctl(device, BLKDISCARD, range) == 0;
	done = what == READ ? pread(device, buffer, range[1], (off_t)range[0])
			    : pwrite(device, buffer, range[1], (off_t)range[0]);
	return done == (ssize_t)range[1];
}

static bool run(enum what what, size_t first, size_t count)
{
	uint64_t before, took;
	bool good;

	for (size_t i = 0; what != READ && i < count; i++)
		page_change(first + i, what == DISCARD, buffer + i * WORDS);
	before = now();
	good = device_does(what, first, count);
	took = now() - before;
	seen.runs[what]++;
	seen.failed += !good;
	if (took > seen.longest)
		seen.longest = took;
	for (size_t i = 0; good && i < count; i++) {
		if (what == READ)
			page_check(buffer + i * WORDS, first + i);
		else
			oldest[first + i] = newest[first + i];
	}
	return good;
}

static void step_all(enum what what)
{
	for (size_t page = 0; page < pages; page += RUN_MAX)
		run(what, page, pages - page < RUN_MAX ? pages - page : RUN_MAX);
}

static void step_check(void)
{
	for (size_t page = 0; page < pages; page += RUN_MAX) {
		size_t count = pages - page < RUN_MAX ? pages - page : RUN_MAX;

		if (run(READ, page, count))
			continue;
		seen.failed--; /* instead of the run, each of its pages that fails alone is counted */
		for (size_t i = 0; i < count; i++)
			run(READ, page + i, 1);
	}
}

static void run_any(void)
{
	size_t count = 1 + draw(&chance) % RUN_MAX, first = draw(&chance) % pages;
	uint64_t chosen = draw(&chance) % 8;

	if (count > pages - first)
		count = pages - first;
	run(chosen < 4 ? READ : chosen < 7 ? WRITE : DISCARD, first, count);
}

static void step_busy(double seconds)
{
	uint64_t end = now() + (uint64_t)(seconds * 1e9);

	while (now() < end)
		run_any();
}

static bool step_until(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char byte;

	while (poll(&input, 1, 0) == 0)
		run_any();
	return read(STDIN_FILENO, &byte, 1) >= 0;
}

static bool step_run(const char *step)
{
	char byte;

	if (!strcmp(step, "fill"))
		step_all(WRITE);
	else if (!strcmp(step, "discard"))
		step_all(DISCARD);
	else if (!strcmp(step, "check"))
		step_check();
	else if (!strncmp(step, "busy=", 5))
		step_busy(atof(step + 5));
	else if (!strcmp(step, "until"))
		return step_until();
	else if (!strcmp(step, "wait"))
		return read(STDIN_FILENO, &byte, 1) >= 0;
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	pages = argc > 2 ? (size_t)atol(argv[2]) << 8 : 0;
	if (!pages || pages > PAGES_MAX) {
		fprintf(stderr, "blocks: DEVICE MIB (1 to %u) STEP...\n", PAGES_MAX >> 8);
		return 2;
	}
	device = open(argv[1], O_RDWR | O_DIRECT | O_CLOEXEC);
	buffer = mmap(NULL, RUN_MAX * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (device < 0 || buffer == MAP_FAILED) {
		fprintf(stderr, "blocks: %s: %s\n", argv[1], strerror(errno));
		return 2;
	}
	for (int i = 3; i < argc; i++) {
		memset(&seen, 0, sizeof(seen));
		if (!step_run(argv[i])) {
			fprintf(stderr, "blocks: %s: no such step, or it failed\n", argv[i]);
			return 2;
		}
		dprintf(STDOUT_FILENO,
			"%s reads %llu writes %llu discards %llu failed %llu wrong %llu longest_ms %.1f zero %llu\n",
			argv[i], (unsigned long long)seen.runs[READ], (unsigned long long)seen.runs[WRITE],
			(unsigned long long)seen.runs[DISCARD], (unsigned long long)seen.failed,
			(unsigned long long)seen.wrong, (double)seen.longest / 1e6, (unsigned long long)seen.zero);
		wrong_ever += seen.wrong;
	}
	return wrong_ever != 0;
}
