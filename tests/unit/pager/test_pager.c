/* The pager as a program sees it: memory that is four times the budget keeps its contents. */
#include "common/random.h"
#include "pager_over.h"
#include "tests/tap.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define LOCAL (8 * MIB)
#define BYTES (32 * MIB)
#define PAGES (BYTES / STORE_PAGE)

static uint64_t pattern(uint64_t page, uint64_t version)
{
	return (page + 1) * 0x9e3779b97f4a7c15ull ^ version * 0xd1342543de82ef95ull;
}

static void fill(char *memory, uint64_t page, uint64_t version)
{
	uint64_t *words = (uint64_t *)(void *)(memory + page * STORE_PAGE);
	for (unsigned i = 0; i < STORE_PAGE / 8; i += 64)
		words[i] = pattern(page, version) + i;
}

static bool holds(const char *memory, uint64_t page, uint64_t version)
{
	const uint64_t *words = (const uint64_t *)(const void *)(memory + page * STORE_PAGE);
	for (unsigned i = 0; i < STORE_PAGE / 8; i += 64)
		if (words[i] != pattern(page, version) + i)
			return false;
	return true;
}

static bool all_hold(const char *memory, uint64_t pages, uint64_t version)
{
	for (uint64_t page = 0; page < pages; page++) {
		if (!holds(memory, page, version)) {
			printf("# page %llu does not hold version %llu\n", (unsigned long long)page,
			       (unsigned long long)version);
			return false;
		}
	}
	return true;
}

static uint64_t resident_pages(const char *memory, size_t length)
{
	static unsigned char in_core[1 << 16];
	uint64_t count = 0;
	mincore((void *)(uintptr_t)memory, length, in_core);
	for (size_t i = 0; i < length / STORE_PAGE; i++)
		count += in_core[i] & 1;
	return count;
}

static void test_contents(void)
{
	struct over over;
	if (!ok(over_open(&over, LOCAL, 64 * MIB, NULL) == 0, "a pager opens"))
		return;
	char *memory = over_map(&over, BYTES);
	bool zero = true;
	for (uint64_t page = 0; page < PAGES; page += 7)
		zero &= memory[page * STORE_PAGE + 5] == 0;
	ok(zero, "fresh memory reads as zeroes");
	for (uint64_t page = 0; page < PAGES; page++)
		fill(memory, page, 0);
	ok(resident_pages(memory, BYTES) * STORE_PAGE < LOCAL, "no more than the budget is resident");
	ok(all_hold(memory, PAGES, 0), "sequential reading finds what was written");

	static uint64_t version[PAGES];
	struct random_state random;
	random_seed(&random, 1);
	bool good = true;
	for (unsigned i = 0; i < 60000 && good; i++) {
		uint64_t page = random_below(&random, PAGES);
		good = holds(memory, page, version[page]);
		if (random_below(&random, 3) == 0)
			fill(memory, page, ++version[page]);
	}
	ok(good, "random reading and writing finds the latest version of each page");
	struct farpage_stats stats;
	farpage_get_stats(over.farpage, &stats);
	ok(stats.resident_peak_bytes <= LOCAL, "the budget was kept at all times (%llu of %llu)",
	   (unsigned long long)stats.resident_peak_bytes, (unsigned long long)LOCAL);
	ok(stats.faults_far > 1000 && stats.evicted_pages > PAGES, "pages went and came");
	ok(stats.evicted_clean_pages > 0, "pages that did not change left without a write");

	ok(farpage_advise(over.farpage, memory, BYTES, FARPAGE_PAGEOUT) == 0, "all can be sent out");
	ok(resident_pages(memory, BYTES) == 0, "then nothing is resident");
	good = true;
	for (uint64_t page = 0; page < PAGES && good; page++)
		good = holds(memory, page, version[page]);
	ok(good, "and comes back as it was");

	ok(farpage_advise(over.farpage, memory + 4 * MIB, 8 * MIB, FARPAGE_DISCARD) == 0, "a range can be discarded");
	good = true;
	for (uint64_t page = 0; page < PAGES; page++) {
		bool inside = page >= 4 * MIB / STORE_PAGE && page < 12 * MIB / STORE_PAGE;
		good &= inside ? memory[page * STORE_PAGE] == 0 : holds(memory, page, version[page]);
	}
	ok(good, "what was discarded reads as zeroes, the rest as before");
	ok(farpage_unmap(over.farpage, memory, BYTES) == 0, "memory can be unmapped");
	farpage_get_stats(over.farpage, &stats);
	ok(stats.far_bytes == 0, "then nothing of it is left on the donors");
	over_close(&over);
}

static void test_system_calls(void)
{
	struct over over;
	over_open(&over, LOCAL, 64 * MIB, NULL);
	char *memory = over_map(&over, BYTES);
	int file = memfd_create("test", MFD_CLOEXEC);
	for (uint64_t page = 0; page < PAGES; page++)
		fill(memory, page, 7);
	ok(write(file, memory, BYTES) == (ssize_t)BYTES, "write(2) takes far memory");
	for (uint64_t page = 0; page < PAGES; page++)
		fill(memory, page, 8);
	ok(pread(file, memory, BYTES, 0) == (ssize_t)BYTES && all_hold(memory, PAGES, 7), "read(2) fills far memory");
	close(file);
	over_close(&over);
}

struct worker {
	char *memory;
	uint64_t seed;
	bool good;
};

/* Threads share the range, but each writes only pages of its own. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	struct random_state random;
	static __thread uint64_t version[PAGES];
	random_seed(&random, worker->seed);
	worker->good = true;
	for (unsigned i = 0; i < 20000 && worker->good; i++) {
		uint64_t page = random_below(&random, PAGES / 4) * 4 + worker->seed;
		if (version[page])
			worker->good = holds(worker->memory, page, version[page]);
		if (random_below(&random, 2))
			fill(worker->memory, page, ++version[page]);
	}
	return NULL;
}

static void test_threads(void)
{
	struct over over;
	over_open(&over, LOCAL, 64 * MIB, NULL);
	char *memory = over_map(&over, BYTES);
	struct worker workers[4];
	pthread_t threads[4];
	for (unsigned i = 0; i < 4; i++) {
		workers[i] = (struct worker){.memory = memory, .seed = i};
		pthread_create(&threads[i], NULL, work, &workers[i]);
	}
	/* Meanwhile: throw pages away and send them out in another range. */
	char *other = over_map(&over, 4 * MIB);
	bool good = true;
	for (unsigned round = 0; round < 20; round++) {
		memset(other, (int)round + 1, 4 * MIB);
		if (round % 2)
			farpage_advise(over.farpage, other, 4 * MIB, FARPAGE_PAGEOUT);
		good &= other[3 * MIB] == (char)(round + 1);
		farpage_advise(over.farpage, other, 4 * MIB, FARPAGE_DISCARD);
		good &= other[3 * MIB] == 0;
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		good &= workers[i].good;
	}
	ok(good, "four threads and a fifth that discards each find their own");
	over_close(&over);
}

/* Every @step-th page is there before the pager: fewer than its budget, or more. */
static void test_adopted(uint64_t step)
{
	struct store *store;
	struct window window;
	struct farpage *farpage;
	store_open_memory(64 * MIB / STORE_PAGE, &store);
	window_reserve(&window, 64 * MIB);
	void *address;
	window_allocate(&window, BYTES, STORE_PAGE, &address);
	char *memory = address;
	for (uint64_t page = 0; page < PAGES; page += step)
		fill(memory, page, 3);
	struct farpage_options options = {.local = LOCAL, .unsafe_dio = getenv("FARPAGE_NO_MOVE")};
	ok(pager_open_store(&options, store, &window, NULL, &farpage) == 0, "a pager opens over memory in use, 1/%u",
	   (unsigned)step);
	ok(resident_pages(memory, BYTES) * STORE_PAGE <= LOCAL, "within its budget");
	for (uint64_t page = 1; page < PAGES; page += 2)
		fill(memory, page, 4);
	bool good = true;
	for (uint64_t page = 0; page < PAGES; page++)
		good &= page % 2      ? holds(memory, page, 4)
			: page % step ? memory[page * STORE_PAGE] == 0
				      : holds(memory, page, 3);
	ok(good, "and keeps its contents");
	ok(resident_pages(memory, BYTES) * STORE_PAGE <= LOCAL, "and its budget");
	farpage_close(farpage);
	window_release(&window);
	store_close(store);
}

/* The child counts the wrong pages and exits with 0 only if there is none. */
static int count_wrong(const char *memory, uint64_t pages, uint64_t version)
{
	int wrong = 0;
	for (uint64_t page = 0; page < pages; page++)
		wrong += !holds(memory, page, version);
	return wrong;
}

static int wait_for(pid_t child)
{
	int status = 0;
	waitpid(child, &status, 0);
	return status;
}

static void test_fork(void)
{
	if (!CAN_FORK) {
		tap_skip("forked children", CANNOT_FORK);
		return;
	}
	struct over over;
	const uint64_t few = 192; /* 768 KiB: within a child's share */
	over_open(&over, LOCAL, 64 * MIB, NULL);
	char *memory = over_map(&over, BYTES);
	for (uint64_t page = 0; page < PAGES; page++)
		fill(memory, page, 1);
	farpage_advise(over.farpage, memory, few * STORE_PAGE, FARPAGE_PAGEOUT);
	int go[2];
	if (pipe2(go, O_CLOEXEC))
		abort();
	pid_t child = fork();
	if (child == 0) {
		char byte;
		if (read(go[0], &byte, 1) != 1)
			_exit(99);
		int wrong = count_wrong(memory, few, 1);
		_exit(wrong > 98 ? 98 : wrong);
	}
	/* The parent changes it, twice, and sends it out, so that what the donors have changes too. */
	for (uint64_t version = 2; version < 4; version++)
		for (uint64_t page = 0; page < few; page++)
			fill(memory, page, version);
	farpage_advise(over.farpage, memory, few * STORE_PAGE, FARPAGE_PAGEOUT);
	if (write(go[1], "x", 1) != 1)
		abort();
	int status = wait_for(child);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child sees its memory as it was (status %d)",
	   status);
	ok(all_hold(memory, few, 3), "and the parent sees its own");
	for (uint64_t page = few; page < PAGES; page++)
		fill(memory, page, 3);

	child = fork();
	if (child == 0) {
		signal(SIGBUS, SIG_DFL);                      /* a sanitizer would catch it */
		_exit(count_wrong(memory, PAGES, 3) ? 1 : 0); /* all of it: more than its share */
	}
	status = wait_for(child);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS,
	   "a child that needs too much is stopped, not misled (status %d)", status);
	ok(all_hold(memory, PAGES, 3), "and the parent goes on");

	child = fork();
	if (child == 0) {
		pid_t grandchild = fork();
		if (grandchild == 0)
			_exit(count_wrong(memory, few, 3) ? 1 : 0);
		status = wait_for(grandchild);
		_exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 && count_wrong(memory, few, 3) == 0 ? 0 : 1);
	}
	status = wait_for(child);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "so do grandchildren");

	bool good = true;
	for (unsigned i = 0; i < 50; i++) {
		child = fork();
		if (child == 0)
			_exit(0);
		fill(memory, i * 100, 3);
		good &= wait_for(child) == 0;
	}
	ok(good && all_hold(memory, PAGES, 3), "fifty short-lived children do no harm");
	farpage_unmap(over.farpage, memory, BYTES);
	over_close(&over);
	close(go[0]);
	close(go[1]);
}

static sigjmp_buf on_sigbus;
static void *volatile sigbus_address;

static void caught_sigbus(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	sigbus_address = info->si_addr;
	siglongjmp(on_sigbus, 1);
}

static void test_lost(void)
{
	struct over over;
	const struct store_faults faults = {.seed = 5, .read_error = 3000};
	over_open(&over, LOCAL, 64 * MIB, &faults);
	char *memory = over_map(&over, BYTES);
	for (uint64_t page = 0; page < PAGES; page++)
		fill(memory, page, 1);
	struct sigaction action = {.sa_sigaction = caught_sigbus, .sa_flags = SA_SIGINFO}, before;
	sigaction(SIGBUS, &action, &before);
	volatile unsigned lost = 0;
	volatile bool good = true;
	for (volatile uint64_t page = 0; page < PAGES; page++) {
		if (sigsetjmp(on_sigbus, 1)) {
			lost++;
			continue;
		}
		good &= holds(memory, page, 1);
	}
	ok(lost > 10 && lost < PAGES / 2, "pages that cannot be had raise SIGBUS (%u)", lost);
	ok(good, "all others are right");
	farpage_advise(over.farpage, memory, BYTES, FARPAGE_DISCARD);
	ok(memory[0] == 0 && memory[BYTES - 1] == 0, "a lost page can be used again after a discard");
	sigaction(SIGBUS, &before, NULL);
	over_close(&over);
}

static void test_protections(void)
{
	struct over over;
	over_open(&over, LOCAL, 64 * MIB, NULL);
	char *memory = over_map(&over, BYTES);
	for (uint64_t page = 0; page < PAGES; page++)
		fill(memory, page, 1);
	mprotect(memory, 2 * MIB, PROT_READ);
	mprotect(memory + 2 * MIB, 2 * MIB, PROT_NONE);
	mprotect(memory + 4 * MIB, 2 * MIB, PROT_READ | PROT_WRITE | PROT_EXEC);
	for (unsigned round = 0; round < 2; round++)
		for (uint64_t page = 1024; page < PAGES; page++)
			fill(memory, page, 1);
	mprotect(memory + 2 * MIB, 2 * MIB, PROT_READ | PROT_WRITE);
	ok(all_hold(memory, PAGES, 1), "read-only, inaccessible and executable pages keep their contents");
	farpage_advise(over.farpage, memory, BYTES, FARPAGE_PAGEOUT);
	ok(resident_pages(memory, 6 * MIB) == 0, "and can leave like any other");
	over_close(&over);
}

int main(void)
{
	struct over over;
	int result = over_open(&over, LOCAL, 16 * MIB, NULL);
	if (result == -EPERM || result == -ENOSYS)
		return tap_skip_all("no right to userfaultfd");
	over_close(&over);
	test_contents();
	test_system_calls();
	test_threads();
	test_adopted(16);
	test_adopted(1);
	test_protections();
	test_fork();
	test_lost();
	return tap_done();
}
