/*
 * pressure: a job larger than its machine, which checks every page it touches, and a watcher that reports the state of
 * the machine.
 *
 *     pressure MIB SECONDS [CHECK-SECONDS [THREADS]]
 *
 * THREADS (2) threads fill MIB of memory, then touch random pages until SECONDS after the start. They check each page
 * and write a third of them anew. At last they check each page once, for at most CHECK-SECONDS (0: without a limit).
 *
 * The watcher prints a line every ten seconds, and at the end:
 *     "second S touched N wrong W stall_ms M at T free_kib F psi P"
 *         S  seconds since the start             N  pages touched since the last line
 *         W  wrong pages since the start         M  longest time that one page took since the last line
 *         T  second when that stall began        F  least free memory since the last line
 *         P  greatest share of a second, in percent, in which all tasks waited for memory
 *     "total ..."                        the same for the whole run
 * The last line is "filled N checked N wrong W". The exit status is 1 if any page was wrong.
 *
 * A byte in locked memory holds the version of each page. The watcher is a process of its own. All of its memory is
 * locked, and its calls need no memory, so it prints its lines also while the machine is stuck. If no page was touched
 * for STUCK_SECONDS, it asks the kernel (SysRq) to log which tasks wait, and for what.
 *
 * Thread number I has the pages I, I + THREADS, I + 2 THREADS and so on.
 */
#include "tests/lib/mix.h"
#include "tests/vm/page_words.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define THREADS_MAX 16u
#define STEP_NS 100000000u /* between two samples of the watcher */
#define TELL_NS UINT64_C(10000000000)
#define STUCK_SECONDS 15u

struct stall {
	uint64_t took, at; /* ns; `at` counts from the start of the job */
};

struct worker {
	_Atomic uint64_t touched, wrong;
	_Atomic uint64_t since; /* time at which the thread began with its page, or 0 between pages */
	_Atomic uint64_t longest, longest_at;
	uint64_t filled, checked; /* pages */
	uint64_t chance;
	unsigned number;
	pthread_t thread;
};

/* Shared with the watcher. */
struct shared {
	struct worker workers[THREADS_MAX];
	uint64_t start, end;
	_Atomic bool over;
};

static struct shared *shared;
static unsigned threads = 2;
static uint64_t check_ns;
static uint64_t *memory;
static uint8_t *versions; /* version of each page; 0 before its first write */
static size_t pages;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *map(size_t length, int flags)
{
	void *there = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);

	if (there != MAP_FAILED)
		return there;
	perror("pressure: mmap");
	exit(2);
}

/* --- Pages --------------------------------------------------------------------------------------------------- */

/* Writes words that depend on the page and its new version. */
static void page_write(size_t page)
{
	page_words_fill(memory + page * PAGE_WORDS, mix((uint64_t)page << 8 | ++versions[page]));
}

static bool page_right(size_t page)
{
	return page_words_are(memory + page * PAGE_WORDS, mix((uint64_t)page << 8 | versions[page]));
}

static void page_pass(struct worker *worker, size_t page, bool check, bool write)
{
	uint64_t before = now(), took;

	worker->since = before;
	if (check && !page_right(page)) {
		worker->wrong++;
		dprintf(STDOUT_FILENO, "page %zu is wrong, version %u\n", page, versions[page]);
	}
	if (write)
		page_write(page);
	took = now() - before;
	worker->since = 0;
	worker->touched++;
	if (took > worker->longest) {
		worker->longest_at = before - shared->start;
		worker->longest = took;
	}
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	size_t own = pages / threads;

	for (size_t i = 0; i < own && now() < shared->end; i++, worker->filled++)
		page_pass(worker, i * threads + worker->number, false, true);
	own = worker->filled;
	while (now() < shared->end)
		page_pass(worker, draw(&worker->chance) % own * threads + worker->number, true,
			  draw(&worker->chance) % 3 == 0);
	for (size_t i = 0; i < own && (!check_ns || now() < shared->end + check_ns); i++, worker->checked++)
		page_pass(worker, i * threads + worker->number, true, false);
	return NULL;
}

/* --- The watcher --------------------------------------------------------------------------------------------- */

struct sight {
	uint64_t touched, wrong, free_kib;
	struct stall stall;
	double psi;
};

static uint64_t number_after(int fd, const char *line, const char *word)
{
	char text[2048], *at;
	ssize_t got = pread(fd, text, sizeof text - 1, 0);

	if (got <= 0)
		return 0;
	text[got] = 0;
	at = strstr(text, line);
	at = at ? strstr(at, word) : NULL;
	return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

static void look(struct sight *sight, int meminfo)
{
	uint64_t free_kib = number_after(meminfo, "MemFree:", "MemFree:"), at = now();

	if (free_kib < sight->free_kib)
		sight->free_kib = free_kib;
	sight->touched = sight->wrong = 0;
	for (unsigned i = 0; i < threads; i++) {
		struct worker *worker = &shared->workers[i];
		uint64_t since = worker->since, longest = worker->longest;

		sight->touched += worker->touched;
		sight->wrong += worker->wrong;
		if (longest > sight->stall.took)
			sight->stall = (struct stall){longest, worker->longest_at};
		if (since && at > since && at - since > sight->stall.took) /* a stall that goes on counts, too */
			sight->stall = (struct stall){at - since, since - shared->start};
	}
}

static void tell(const char *what, uint64_t second, const struct sight *sight, uint64_t touched)
{
	dprintf(STDOUT_FILENO, "%s %llu touched %llu wrong %llu stall_ms %.1f at %.1f free_kib %llu psi %.1f\n", what,
		(unsigned long long)second, (unsigned long long)touched, (unsigned long long)sight->wrong,
		(double)sight->stall.took / 1e6, (double)sight->stall.at / 1e9, (unsigned long long)sight->free_kib,
		sight->psi);
}

/* Makes the kernel log the tasks that wait, and the state of its memory, to its console and dmesg. */
static void kernel_tell(void)
{
	int fd = open("/proc/sysrq-trigger", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	for (const char *key = getenv("PRESSURE_SYSRQ") ?: "wm"; *key; key++)
		(void)!write(fd, key, 1);
	close(fd);
}

static void watch(int ready)
{
	int meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	int pressure = open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
	struct sight all = {.free_kib = UINT64_MAX}, part = all;
	uint64_t told = shared->start, told_touched = 0, moved = told, moved_touched = 0;
	uint64_t psi_at = told, psi_us = number_after(pressure, "full", "total=");

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "pressure_watch");
	if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0)
		perror("pressure: mlockall");
	look(&all, meminfo);
	(void)!write(ready, "", 1);
	for (bool over = false; !over;) {
		uint64_t at;

		nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
		over = shared->over;
		look(&all, meminfo);
		look(&part, meminfo);
		at = now();
		if (at - psi_at >= 1000000000u) {
			uint64_t us = number_after(pressure, "full", "total=");
			double share = (double)(us - psi_us) * 1e5 / (double)(at - psi_at);

			psi_us = us;
			psi_at = at;
			part.psi = share > part.psi ? share : part.psi;
			all.psi = share > all.psi ? share : all.psi;
		}
		if (part.touched != moved_touched) {
			moved_touched = part.touched;
			moved = at;
		} else if (at - moved > STUCK_SECONDS * UINT64_C(1000000000)) {
			kernel_tell();
			dprintf(STDOUT_FILENO, "stuck for %us\n", STUCK_SECONDS);
			moved = at;
		}
		if (at - told >= TELL_NS || over) {
			tell("second", (at - shared->start) / 1000000000u, &part, part.touched - told_touched);
			told = at;
			told_touched = part.touched;
			part = (struct sight){.free_kib = UINT64_MAX};
			for (unsigned i = 0; i < threads; i++)
				shared->workers[i].longest = 0;
		}
	}
	tell("total", (now() - shared->start) / 1000000000u, &all, all.touched);
}

int main(int argc, char **argv)
{
	uint64_t wrong = 0, filled = 0, checked = 0;
	pid_t watcher;
	int ready[2];
	char byte;

	pages = argc > 2 ? (size_t)atol(argv[1]) << 8 : 0;
	check_ns = argc > 3 ? (uint64_t)(atof(argv[3]) * 1e9) : 0;
	threads = argc > 4 ? (unsigned)atoi(argv[4]) : threads;
	if (!pages || !threads || threads > THREADS_MAX) {
		fprintf(stderr, "pressure MIB SECONDS [CHECK-SECONDS [THREADS]]\n");
		return 2;
	}
	shared = map(sizeof *shared, MAP_SHARED);
	shared->start = now();
	shared->end = shared->start + (uint64_t)(atof(argv[2]) * 1e9);
	if (pipe(ready) < 0)
		return 2;
	watcher = fork();
	if (watcher == 0) {
		watch(ready[1]);
		_exit(0);
	}
	(void)!read(ready[0], &byte, 1);
	memory = map(pages * PAGE, MAP_PRIVATE);
	versions = map(pages, MAP_PRIVATE);
	if (mlock(versions, pages) < 0 || mlock(shared, sizeof *shared) < 0)
		perror("pressure: mlock");
	for (unsigned i = 0; i < threads; i++) {
		shared->workers[i].chance = i;
		shared->workers[i].number = i;
		if (pthread_create(&shared->workers[i].thread, NULL, work, &shared->workers[i]) != 0)
			return 2;
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(shared->workers[i].thread, NULL);
		wrong += shared->workers[i].wrong;
		filled += shared->workers[i].filled;
		checked += shared->workers[i].checked;
	}
	shared->over = true;
	waitpid(watcher, NULL, 0);
	dprintf(STDOUT_FILENO, "filled %llu checked %llu wrong %llu\n", (unsigned long long)filled,
		(unsigned long long)checked, (unsigned long long)wrong);
	return wrong != 0;
}
