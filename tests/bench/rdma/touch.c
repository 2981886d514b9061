/*
 * touch: a program that needs more memory than it may have. It accesses random pages and checks each page. Three in ten
 * accesses are writes. The same program runs under `farpage run` and on swap. All threads use all pages. A thread with
 * its own pages could get all of them into memory and run at full speed while the others wait.
 *
 *     touch MIB SECONDS THREADS
 *
 * Prints one figure a line, "name value":
 *     accesses_s, p50_us, p99_us              rate and latency of accesses
 *     faults_s, fault_p50_us, fault_p99_us    the same for accesses with a major fault: a page from a device. The
 *                                             kernel counts no major faults for userfaultfd.
 *     wrong                                   number of wrong pages
 */
#include "common/clock.h"
#include "common/histogram.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define PAGE ((size_t)4096)
#define WORDS (PAGE / 8)
#define WORDS_CHECKED 8 /* interval of the words that are checked: one a cache line */
#define THREADS_MAX 16u

static char *memory;
static size_t pages;
static uint64_t until;
static atomic_uint wrong;

struct worker {
	pthread_t thread;
	uint64_t seed;
	struct histogram accesses, faults;
};

static _Atomic uint64_t *page_words(size_t page)
{
	return (_Atomic uint64_t *)(memory + page * PAGE);
}

/*
 * The words depend on the number and the version of the page, so that no two pages are the same. Every second word is
 * small. So pages compress to about half their size, like memory of programs (zram).
 */
static uint64_t page_word(size_t page, uint64_t version, size_t i)
{
	uint64_t word = ((page + 1) * 0x9e3779b97f4a7c15u + version + i) * 0x2545f4914f6cdd1du;

	return i % 2 ? word : i + 1;
}

static void page_fill(size_t page, uint64_t version)
{
	_Atomic uint64_t *words = page_words(page);

	for (size_t i = 1; i < WORDS; i++)
		atomic_store_explicit(&words[i], page_word(page, version, i), memory_order_relaxed);
	atomic_store_explicit(&words[0], version, memory_order_release);
}

/* Returns the version, which is the first word. While a thread writes, the version is odd, and this function waits. */
static uint64_t page_version(size_t page)
{
	uint64_t version;

	while ((version = atomic_load_explicit(&page_words(page)[0], memory_order_acquire)) % 2)
		sched_yield();
	return version;
}

static void page_write(size_t page)
{
	uint64_t version;

	do
		version = page_version(page);
	while (!atomic_compare_exchange_strong(&page_words(page)[0], &version, version + 1));
	atomic_thread_fence(memory_order_release); /* no thread may see new words under the old version */
	page_fill(page, version + 2);
}

static bool page_is_right(size_t page)
{
	_Atomic uint64_t *words = page_words(page);
	uint64_t version;
	bool right;

	do {
		version = page_version(page);
		right = version != 0;
		for (size_t i = 1; i < WORDS; i += WORDS_CHECKED)
			right &= atomic_load_explicit(&words[i], memory_order_acquire) == page_word(page, version, i);
	} while (atomic_load_explicit(&words[0], memory_order_relaxed) != version);
	return right;
}

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

static long major_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_majflt;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	uint64_t begin = clock_now(), end;
	long known = major_faults(), faults;

	while (begin < until) {
		size_t page = next_random(&worker->seed) % pages;

		if (!page_is_right(page))
			atomic_fetch_add(&wrong, 1);
		if (next_random(&worker->seed) % 10 < 3)
			page_write(page);
		end = clock_now();
		histogram_record(&worker->accesses, end - begin);
		faults = major_faults();
		if (faults != known)
			histogram_record(&worker->faults, end - begin);
		known = faults;
		begin = clock_now();
	}
	return NULL;
}

static double quantile_us(const struct histogram *histogram, unsigned per_mille)
{
	return (double)histogram_quantile(histogram, per_mille) / 1e3;
}

static void report(const struct worker *workers, unsigned threads, double seconds)
{
	static struct histogram accesses, faults;

	for (unsigned i = 0; i < threads; i++) {
		histogram_add(&accesses, &workers[i].accesses);
		histogram_add(&faults, &workers[i].faults);
	}
	printf("accesses_s %.0f\np50_us %.1f\np99_us %.1f\n", (double)accesses.count / seconds,
	       quantile_us(&accesses, 500), quantile_us(&accesses, 990));
	printf("faults_s %.0f\nfault_p50_us %.1f\nfault_p99_us %.1f\nwrong %u\n", (double)faults.count / seconds,
	       quantile_us(&faults, 500), quantile_us(&faults, 990), wrong);
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	unsigned threads;
	double seconds;

	if (argc != 4 || (threads = (unsigned)atoi(argv[3])) < 1 || threads > THREADS_MAX) {
		fprintf(stderr, "usage: touch MIB SECONDS THREADS\n");
		return 2;
	}
	pages = (size_t)atol(argv[1]) * ((1 << 20) / PAGE);
	seconds = atof(argv[2]);
	memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		fprintf(stderr, "touch: no memory: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	for (size_t page = 0; page < pages; page++)
		page_fill(page, 2);
	until = clock_now() + (uint64_t)(seconds * 1e9);
	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){.seed = i + 1};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return EXIT_FAILURE;
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	report(workers, threads, seconds);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
