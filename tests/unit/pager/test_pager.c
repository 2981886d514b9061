/* pager: memory of four times the budget keeps its contents, as the program sees it. */
#include "common/random.h"
#include "pager_over.h"
#include "tests/lib/tap.h"

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

static void fill_all(char *memory, uint64_t pages, uint64_t version)
{
	for (uint64_t page = 0; page < pages; page++)
		fill(memory, page, version);
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

static void memory_beyond_the_budget_keeps_its_contents(void)
{
	struct over over;

	if (!ok(over_open(&over, LOCAL, 64 * MIB, NULL) == 0, "a pager opens over a memory store"))
		return;
	char *memory = over_map(&over, BYTES);
	bool zero = true;
	for (uint64_t page = 0; page < PAGES; page += 7)
		zero &= memory[page * STORE_PAGE + 5] == 0;
	ok(zero, "fresh memory reads as zeroes");
	fill_all(memory, PAGES, 0);
	ok(resident_pages(memory, BYTES) * STORE_PAGE < LOCAL,
	   "fewer bytes than the budget are resident after memory of four times the budget is written");
	ok(all_hold(memory, PAGES, 0), "sequential reads find what was written");

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
	ok(good, "random reads and writes find the latest version of each page");
	struct farpage_stats stats;
	farpage_get_stats(over.farpage, &stats);
	ok(stats.resident_peak_bytes <= LOCAL, "resident memory never exceeds the budget (%llu of %llu)",
	   (unsigned long long)stats.resident_peak_bytes, (unsigned long long)LOCAL);
	ok(stats.faults_far > 1000 && stats.evicted_pages > PAGES, "the statistics count far faults and evicted pages");
	ok(stats.evicted_clean_pages > 0, "pages that did not change leave without a write");

	ok(farpage_advise(over.farpage, memory, BYTES, FARPAGE_PAGEOUT) == 0, "a page-out of all memory succeeds");
	ok(resident_pages(memory, BYTES) == 0, "no page is resident after all memory was sent out");
	good = true;
	for (uint64_t page = 0; page < PAGES && good; page++)
		good = holds(memory, page, version[page]);
	ok(good, "memory that was sent out comes back unchanged");

	ok(farpage_advise(over.farpage, memory + 4 * MIB, 8 * MIB, FARPAGE_DISCARD) == 0,
	   "a discard of a range succeeds");
	good = true;
	for (uint64_t page = 0; page < PAGES; page++) {
		bool inside = page >= 4 * MIB / STORE_PAGE && page < 12 * MIB / STORE_PAGE;

		good &= inside ? memory[page * STORE_PAGE] == 0 : holds(memory, page, version[page]);
	}
	ok(good, "a discarded range reads as zeroes, and the rest is unchanged");
	ok(farpage_unmap(over.farpage, memory, BYTES) == 0, "unmapping all memory succeeds");
	farpage_get_stats(over.farpage, &stats);
	ok(stats.far_bytes == 0, "unmapped memory leaves no page on the donors");
	over_close(&over);
}

static void touch(const char *memory, uint64_t page)
{
	(void)*(const volatile char *)(memory + page * STORE_PAGE);
}

/* A program uses some pages again and again while it reads other pages once. The pages in use are seven tenths of the
   budget. So they stay only if the pages read once get much less than a quarter. */
static void pages_in_use_stay_beside_pages_read_once(void)
{
	enum { USED = LOCAL / STORE_PAGE * 7 / 10, A_PAGE = 40 }; /* A_PAGE: uses for each page read once */
	struct farpage_stats before, after;
	struct over over;

	if (!ok(over_open(&over, LOCAL, 64 * MIB, NULL) == 0, "a pager opens over a memory store"))
		return;
	char *memory = over_map(&over, BYTES);
	fill_all(memory, PAGES, 0);
	struct random_state random;
	random_seed(&random, 3);
	for (unsigned round = 0; round < 3; round++) {
		farpage_get_stats(over.farpage, &before);
		for (uint64_t page = USED; page < PAGES; page++) {
			touch(memory, page);
			for (unsigned i = 0; i < A_PAGE; i++)
				touch(memory, random_below(&random, USED));
		}
		farpage_get_stats(over.farpage, &after);
	}
	uint64_t once = PAGES - USED, fetched = after.fetched_pages - before.fetched_pages;
	ok(fetched < once + once / 10,
	   "pages in use are hardly ever fetched (%llu pages fetched, %llu of them read once)",
	   (unsigned long long)fetched, (unsigned long long)once);
	over_close(&over);
}

/* An eighth more pages than the budget has are used again and again in the same order. */
static void loop_keeps_many_of_its_pages(void)
{
	enum { USED = LOCAL / STORE_PAGE * 9 / 8, LEARN = 8, ROUNDS = 8 };
	struct farpage_stats before, after;
	struct over over;

	if (!ok(over_open(&over, LOCAL, 64 * MIB, NULL) == 0, "a pager opens over a memory store"))
		return;
	char *memory = over_map(&over, BYTES);
	fill_all(memory, USED, 0);
	for (unsigned round = 0; round < LEARN + ROUNDS; round++) {
		if (round == LEARN)
			farpage_get_stats(over.farpage, &before);
		for (uint64_t page = 0; page < USED; page++)
			touch(memory, page);
	}
	farpage_get_stats(over.farpage, &after);
	uint64_t uses = (uint64_t)USED * ROUNDS, fetched = after.fetched_pages - before.fetched_pages;
	ok(fetched < uses * 2 / 3, "a loop that hardly fits fetches %llu pages in %llu uses",
	   (unsigned long long)fetched, (unsigned long long)uses);
	over_close(&over);
}

static const struct store_ops *memory_ops;

/* Half of the pages are on the backup alone. */
static void stats_half_kept(const struct store *store, struct store_stats *ret_stats)
{
	memory_ops->stats(store, ret_stats);
	ret_stats->kept_pages = ret_stats->pages_live / 2;
	ret_stats->pages_live -= ret_stats->kept_pages;
}

static void pages_on_the_backup_alone_count_as_far(void)
{
	struct over over;
	struct farpage_stats stats;

	over_store(&over, 64 * MIB, NULL);
	struct store_ops ops = *over.inner->ops;
	memory_ops = over.inner->ops;
	ops.stats = stats_half_kept;
	over.inner->ops = &ops;
	over_start(&over, LOCAL, 64 * MIB);
	char *memory = over_map(&over, BYTES);
	fill_all(memory, PAGES, 9);
	farpage_advise(over.farpage, memory, BYTES, FARPAGE_PAGEOUT);
	farpage_get_stats(over.farpage, &stats);
	ok(stats.far_bytes == BYTES, "pages on donors and pages on the backup alone are far bytes (%llu of %llu)",
	   (unsigned long long)stats.far_bytes, (unsigned long long)BYTES);
	ok(stats.far_peak_bytes <= BYTES, "the peak of far bytes counts no page twice (%llu)",
	   (unsigned long long)stats.far_peak_bytes);
	over_close(&over);
}

static void system_calls_read_and_write_far_memory(void)
{
	struct over over;

	over_open(&over, LOCAL, 64 * MIB, NULL);
	char *memory = over_map(&over, BYTES);
	int file = memfd_create("test", MFD_CLOEXEC);
	fill_all(memory, PAGES, 7);
	ok(write(file, memory, BYTES) == (ssize_t)BYTES, "write(2) takes far memory");
	fill_all(memory, PAGES, 8);
	ok(pread(file, memory, BYTES, 0) == (ssize_t)BYTES && all_hold(memory, PAGES, 7), "read(2) fills far memory");
	close(file);
	over_close(&over);
}

struct worker {
	char *memory;
	uint64_t seed;
	bool good;
};

/* The threads share the range, but each thread writes only its own pages. */
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

static void threads_find_what_they_wrote(void)
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
	/* Meanwhile, discard and send out pages in another range. */
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
	ok(good, "four threads and a fifth that discards each find what they wrote");
	over_close(&over);
}

/* Opens a pager over memory in which every @step-th page is already in use: less than the budget, or more. */
static void memory_in_use_is_adopted_within_the_budget(uint64_t step)
{
	struct store *store;
	struct window window;
	struct farpage *farpage;

	store_open_memory(64 * MIB / STORE_PAGE, &store);
	window_reserve(&window, 64 * MIB, 0);
	void *address;
	window_allocate(&window, BYTES, STORE_PAGE, &address);
	char *memory = address;
	for (uint64_t page = 0; page < PAGES; page += step)
		fill(memory, page, 3);
	struct farpage_options options = {.local = LOCAL, .unsafe_dio = getenv("FARPAGE_NO_MOVE")};
	ok(pager_open_store(&options, store, &window, NULL, &farpage) == 0,
	   "a pager opens over memory of which 1/%u is in use", (unsigned)step);
	ok(resident_pages(memory, BYTES) * STORE_PAGE <= LOCAL,
	   "a pager that opens over memory in use evicts down to its budget");
	for (uint64_t page = 1; page < PAGES; page += 2)
		fill(memory, page, 4);
	bool good = true;
	for (uint64_t page = 0; page < PAGES; page++)
		good &= page % 2      ? holds(memory, page, 4)
			: page % step ? memory[page * STORE_PAGE] == 0
				      : holds(memory, page, 3);
	ok(good, "memory in use keeps its contents under a new pager");
	ok(resident_pages(memory, BYTES) * STORE_PAGE <= LOCAL, "a pager over memory that was in use keeps its budget");
	farpage_close(farpage);
	window_release(&window);
	store_close(store);
}

/* Returns the number of pages that do not hold @version. A child counts them and exits with 0 only if there is none. */
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

static void children_see_memory_as_it_was(void)
{
	if (!CAN_FORK) {
		tap_skip("a forked child sees its memory as it was", CANNOT_FORK);
		return;
	}
	struct over over;
	const uint64_t few = 192; /* 768 KiB, which is less than a child's share */
	over_open(&over, LOCAL, 64 * MIB, NULL);
	char *memory = over_map(&over, BYTES);
	fill_all(memory, PAGES, 1);
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
	/* The parent changes the pages twice and sends them out, so that the donors' contents change, too. */
	for (uint64_t version = 2; version < 4; version++)
		for (uint64_t page = 0; page < few; page++)
			fill(memory, page, version);
	farpage_advise(over.farpage, memory, few * STORE_PAGE, FARPAGE_PAGEOUT);
	if (write(go[1], "x", 1) != 1)
		abort();
	int status = wait_for(child);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child sees its memory as it was (status %d)",
	   status);
	ok(all_hold(memory, few, 3), "a parent sees what it wrote after the fork");
	for (uint64_t page = few; page < PAGES; page++)
		fill(memory, page, 3);

	child = fork();
	if (child == 0) {
		signal(SIGBUS, SIG_DFL);                      /* a sanitizer would catch the signal */
		_exit(count_wrong(memory, PAGES, 3) ? 1 : 0); /* all pages, which is more than the child's share */
	}
	status = wait_for(child);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS,
	   "a child that reads more than its share gets SIGBUS, not wrong contents (status %d)", status);
	ok(all_hold(memory, PAGES, 3), "a parent keeps its contents after its child got SIGBUS");

	child = fork();
	if (child == 0) {
		pid_t grandchild = fork();

		if (grandchild == 0)
			_exit(count_wrong(memory, few, 3) ? 1 : 0);
		status = wait_for(grandchild);
		_exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 && count_wrong(memory, few, 3) == 0 ? 0 : 1);
	}
	status = wait_for(child);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child and a grandchild see their memory as it was");

	bool good = true;
	for (unsigned i = 0; i < 50; i++) {
		child = fork();
		if (child == 0)
			_exit(0);
		fill(memory, i * 100, 3);
		good &= wait_for(child) == 0;
	}
	ok(good && all_hold(memory, PAGES, 3), "fifty short-lived children leave the parent's contents unchanged");
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

static void lost_pages_raise_sigbus(void)
{
	struct over over;
	const struct store_faults faults = {.seed = 5, .read_error = 3000};

	over_open(&over, LOCAL, 64 * MIB, &faults);
	char *memory = over_map(&over, BYTES);
	fill_all(memory, PAGES, 1);
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
	ok(lost > 10 && lost < PAGES / 2, "pages that the store cannot read raise SIGBUS (%u)", lost);
	ok(good, "pages that the store can read hold what was written");
	farpage_advise(over.farpage, memory, BYTES, FARPAGE_DISCARD);
	ok(memory[0] == 0 && memory[BYTES - 1] == 0, "lost pages read as zeroes after a discard");
	sigaction(SIGBUS, &before, NULL);
	over_close(&over);
}

static void protected_pages_leave_and_keep_their_contents(void)
{
	struct over over;

	over_open(&over, LOCAL, 64 * MIB, NULL);
	char *memory = over_map(&over, BYTES);
	fill_all(memory, PAGES, 1);
	mprotect(memory, 2 * MIB, PROT_READ);
	mprotect(memory + 2 * MIB, 2 * MIB, PROT_NONE);
	mprotect(memory + 4 * MIB, 2 * MIB, PROT_READ | PROT_WRITE | PROT_EXEC);
	for (unsigned round = 0; round < 2; round++)
		for (uint64_t page = 1024; page < PAGES; page++)
			fill(memory, page, 1);
	mprotect(memory + 2 * MIB, 2 * MIB, PROT_READ | PROT_WRITE);
	ok(all_hold(memory, PAGES, 1), "read-only, inaccessible and executable pages keep their contents");
	farpage_advise(over.farpage, memory, BYTES, FARPAGE_PAGEOUT);
	ok(resident_pages(memory, 6 * MIB) == 0, "read-only, inaccessible and executable pages leave like others");
	over_close(&over);
}

int main(void)
{
	struct over over;

	if (userfaultfd_is_denied(over_open(&over, LOCAL, 16 * MIB, NULL)))
		return tap_skip_all("no right to userfaultfd");
	over_close(&over);
	memory_beyond_the_budget_keeps_its_contents();
	pages_in_use_stay_beside_pages_read_once();
	loop_keeps_many_of_its_pages();
	pages_on_the_backup_alone_count_as_far();
	system_calls_read_and_write_far_memory();
	threads_find_what_they_wrote();
	memory_in_use_is_adopted_within_the_budget(16);
	memory_in_use_is_adopted_within_the_budget(1);
	protected_pages_leave_and_keep_their_contents();
	children_see_memory_as_it_was();
	lost_pages_raise_sigbus();
	return tap_done();
}
