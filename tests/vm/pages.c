/*
 * pages: a job that checks every page it touches, and reports its longest stall.
 *
 *     pages MIB STEP...     steps: busy=SECONDS   checks random pages, and writes a third of them anew
 *                                  wait           waits for a byte, or the end, of standard input
 *                                  until          as busy, until there is a byte, or the end, of standard input
 *                                  stall          reports the longest stall since the last step stall
 *                                  check          checks all pages in order
 *
 * First the job writes all pages. Its lines on standard output, each by one write(2):
 *     "filled"                                      all pages are written
 *     the name of a step                            the step is over
 *     "passed N"                                    the step busy touched N pages
 *     "stall_ms M at T"                             the answer to the step stall
 *     "passes P wrong W longest_stall_ms M at T"    the last line
 * A stall is the time that one page took. T is the time of day, in seconds, when the longest stall began. The exit
 * status is 1 if any page was wrong.
 *
 * Static memory, which is never far, holds the version of each page.
 */
#include "tests/lib/mix.h"
#include "tests/vm/page_words.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define PAGES_MAX (1u << 18)

static uint32_t versions[PAGES_MAX];
static uint64_t *memory;
static size_t pages;
struct stall {
	uint64_t took, at;
};
static struct stall longest, longest_lately;
static uint64_t passes, wrong;
static uint64_t chance = 42;

static uint64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Writes words that depend on the page and its new version. */
static void page_write(size_t page)
{
	page_words_fill(memory + page * PAGE_WORDS, mix((uint64_t)page << 32 | ++versions[page]));
}

static bool page_right(size_t page)
{
	return page_words_are(memory + page * PAGE_WORDS, mix((uint64_t)page << 32 | versions[page]));
}

static void page_pass(size_t page, bool write)
{
	uint64_t before = now(CLOCK_MONOTONIC), took;

	if (versions[page] && !page_right(page)) {
		wrong++;
		dprintf(STDOUT_FILENO, "page %zu is wrong, version %u\n", page, versions[page]);
	}
	if (write)
		page_write(page);
	took = now(CLOCK_MONOTONIC) - before;
	passes++;
	if (took > longest_lately.took)
		longest_lately = (struct stall){.took = took, .at = now(CLOCK_REALTIME) - took};
	if (took > longest.took)
		longest = longest_lately;
}

static void step_busy(double seconds)
{
	uint64_t end = now(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9), before = passes;

	while (now(CLOCK_MONOTONIC) < end)
		page_pass(draw(&chance) % pages, draw(&chance) % 3 == 0);
	dprintf(STDOUT_FILENO, "passed %llu\n", (unsigned long long)(passes - before));
}

static bool step_until(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char byte;

	while (poll(&input, 1, 0) == 0)
		for (unsigned i = 0; i < 32; i++)
			page_pass(draw(&chance) % pages, draw(&chance) % 3 == 0);
	return read(STDIN_FILENO, &byte, 1) >= 0;
}

static void step_stall(void)
{
	dprintf(STDOUT_FILENO, "stall_ms %.1f at %.3f\n", (double)longest_lately.took / 1e6,
		(double)longest_lately.at / 1e9);
	longest_lately.took = 0;
}

static void step_all(bool write)
{
	for (size_t page = 0; page < pages; page++)
		page_pass(page, write);
}

static bool step_run(const char *step)
{
	char byte;

	if (!strncmp(step, "busy=", 5))
		step_busy(atof(step + 5));
	else if (!strcmp(step, "wait"))
		return read(STDIN_FILENO, &byte, 1) >= 0;
	else if (!strcmp(step, "until"))
		return step_until();
	else if (!strcmp(step, "stall"))
		step_stall();
	else if (!strcmp(step, "check"))
		step_all(false);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	pages = argc > 1 ? (size_t)atol(argv[1]) << 8 : 0;
	if (!pages || pages > PAGES_MAX) {
		fprintf(stderr, "pages: MIB (1 to %u) STEP...\n", PAGES_MAX >> 8);
		return 2;
	}
	memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		perror("pages: mmap");
		return 2;
	}
	step_all(true);
	dprintf(STDOUT_FILENO, "filled\n");
	for (int i = 2; i < argc; i++) {
		if (!step_run(argv[i])) {
			fprintf(stderr, "pages: %s: no such step, or it failed\n", argv[i]);
			return 2;
		}
		dprintf(STDOUT_FILENO, "%s\n", argv[i]);
	}
	dprintf(STDOUT_FILENO, "passes %llu wrong %llu longest_stall_ms %.1f at %.3f\n", (unsigned long long)passes,
		(unsigned long long)wrong, (double)longest.took / 1e6, (double)longest.at / 1e9);
	return wrong != 0;
}
