/*
 * bench_threads: random reads by one, two and four threads of a program, and what each of the pager's threads uses.
 *
 * The pages are in a memory store, so that no donor needs a processor. 256 MiB are read, with 64 MiB local. The rates
 * of two and four threads are multiples of the rate of one.
 *
 *     bench_threads [ROUNDS]
 */
#include "client/store.h"
#include "common/clock.h"
#include "common/random.h"
#include "farpage/farpage.h"
#include "pager/pager.h"
#include "pager/window.h"
#include "tests/bench/figures.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)
#define WINDOW (512 * MIB)
#define FAR (256 * MIB)
#define LOCAL (64 * MIB)
#define TOUCHES 200000u
#define THREADS_MAX 4u

static uint64_t *memory;

static uint64_t *word_of(uint64_t page)
{
	return memory + page * (STORE_PAGE / sizeof *memory);
}

struct reader {
	uint64_t seed;
	unsigned touches;
};

static void *read_random(void *argument)
{
	const struct reader *reader = argument;
	struct random_state random;

	random_seed(&random, reader->seed);
	for (unsigned i = 0; i < reader->touches; i++) {
		uint64_t page = random_below(&random, FAR / STORE_PAGE);

		must(*(volatile uint64_t *)word_of(page) == page + 1, "a page is wrong");
	}
	return NULL;
}

/* Returns the processor time of this process, in us. */
static double process_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Returns the processor time of the thread of this process with this name, in us. Needs the kernel's CONFIG_SCHED_INFO,
   which Debian sets. */
static double thread_us(const char *name)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned long long ns = 0;

	needed(tasks);
	for (const struct dirent *task; (task = readdir(tasks));) {
		char path[300], text[64] = "";
		FILE *file;

		snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		bool is_it = fgets(text, sizeof text, file) && strncmp(text, name, strlen(name)) == 0;
		fclose(file);
		snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
		file = is_it ? fopen(path, "re") : NULL;
		if (!file)
			continue;
		must(fscanf(file, "%llu", &ns) == 1, "schedstat has no time");
		fclose(file);
	}
	closedir(tasks);
	must(ns, "no thread of that name has used a processor");
	return (double)ns / 1e3;
}

struct cost {
	double rate;                        /* far faults a second */
	double handler, evictor, processes; /* us of processor a far fault; `processes` is all of the process */
};

static struct cost measure(struct farpage *farpage, unsigned count, uint64_t seed)
{
	pthread_t threads[THREADS_MAX];
	struct reader readers[THREADS_MAX];
	struct farpage_stats before, after;

	farpage_get_stats(farpage, &before);
	const double handler = thread_us("farpage-fault"), evictor = thread_us("farpage-evict"), all = process_us();
	const uint64_t begun = clock_now();
	for (unsigned i = 0; i < count; i++) {
		readers[i] = (struct reader){seed + i, TOUCHES / count};
		must(pthread_create(&threads[i], NULL, read_random, &readers[i]) == 0, "no thread");
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	const double seconds = (double)(clock_now() - begun) / 1e9;
	farpage_get_stats(farpage, &after);
	const double faults = (double)(after.faults_far - before.faults_far);
	return (struct cost){faults / seconds, (thread_us("farpage-fault") - handler) / faults,
			     (thread_us("farpage-evict") - evictor) / faults, (process_us() - all) / faults};
}

static struct farpage *open_far(struct store **ret_store, struct window *window)
{
	struct farpage_options options = {.local = LOCAL};
	struct farpage *farpage;
	void *address;

	must(store_open_memory(WINDOW / STORE_PAGE, ret_store) == 0 && window_reserve(window, WINDOW, 0) == 0,
	     "no memory");
	must(pager_open_store(&options, *ret_store, window, NULL, &farpage) == 0, "no pager");
	must(farpage_map(farpage, FAR, &address) == 0, "no far memory");
	memory = address;
	for (uint64_t page = 0; page < FAR / STORE_PAGE; page++)
		*word_of(page) = page + 1;
	return farpage;
}

int main(int argc, char **argv)
{
	const unsigned rounds = argument_number(argc, argv, 1, 5);
	struct rounds one = {0}, two = {0}, four = {0}, handler = {0}, evictor = {0}, program = {0};
	struct store *store;
	struct window window;

	must(rounds, "usage: bench_threads [ROUNDS]");
	struct farpage *farpage = open_far(&store, &window);
	for (unsigned i = 0; i < rounds; i++) {
		struct cost alone = measure(farpage, 1, 16 * i), both = measure(farpage, 2, 16 * i + 1);
		struct cost all = measure(farpage, 4, 16 * i + 3);

		rounds_add(&one, alone.rate);
		rounds_add(&two, both.rate / alone.rate);
		rounds_add(&four, all.rate / alone.rate);
		rounds_add(&handler, all.handler);
		rounds_add(&evictor, all.evictor);
		rounds_add(&program, all.processes - all.handler - all.evictor);
	}
	figure("one thread", "far faults a second", &one);
	figure_at_least("two threads", "times as many", &two, 1.7);
	figure("four threads", "times as many", &four);
	figure("processor for each, four threads: handler", "us", &handler);
	figure("  evictor", "us", &evictor);
	figure("  program", "us", &program);
	farpage_close(farpage);
	store_close(store);
	window_release(&window);
	return EXIT_SUCCESS;
}
