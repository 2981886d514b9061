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
#include "tests/bench/figures.h"
#include "tests/unit/pager/pager_over.h"

#include <dirent.h>
#include <pthread.h>

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

/* Returns the processor time of the thread of this process with this name, in ms. Needs the kernel's CONFIG_SCHED_INFO,
   which Debian sets. */
static double thread_ms(const char *name)
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
	return (double)ns / 1e6;
}

struct cost {
	double rate;                      /* far faults a second */
	double handler, evictor, process; /* us of processor a far fault */
};

static struct cost measure(struct farpage *farpage, unsigned count, uint64_t seed)
{
	pthread_t threads[THREADS_MAX];
	struct reader readers[THREADS_MAX];
	struct farpage_stats before, after;

	farpage_get_stats(farpage, &before);
	const double handler = thread_ms("farpage-fault"), evictor = thread_ms("farpage-evict"), all = processor_ms();
	const uint64_t begun = clock_now();
	for (unsigned i = 0; i < count; i++) {
		readers[i] = (struct reader){seed + i, TOUCHES / count};
		must(pthread_create(&threads[i], NULL, read_random, &readers[i]) == 0, "no thread");
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	const double seconds = (double)(clock_now() - begun) / 1e9;
	farpage_get_stats(farpage, &after);
	const double faults = (double)(after.faults_far - before.faults_far), us = 1e3 / faults;
	return (struct cost){faults / seconds, (thread_ms("farpage-fault") - handler) * us,
			     (thread_ms("farpage-evict") - evictor) * us, (processor_ms() - all) * us};
}

int main(int argc, char **argv)
{
	const unsigned rounds = argument_number(argc, argv, 1, 5);
	struct rounds one = {0}, two = {0}, four = {0}, handler = {0}, evictor = {0}, program = {0};
	struct over over;

	must(rounds, "usage: bench_threads [ROUNDS]");
	must(over_open(&over, LOCAL, WINDOW, NULL) == 0, "no pager");
	memory = (uint64_t *)(void *)over_map(&over, FAR);
	must(memory, "no far memory");
	for (uint64_t page = 0; page < FAR / STORE_PAGE; page++)
		*word_of(page) = page + 1;
	for (unsigned i = 0; i < rounds; i++) {
		struct cost alone = measure(over.farpage, 1, 16 * i), both = measure(over.farpage, 2, 16 * i + 1);
		struct cost all = measure(over.farpage, 4, 16 * i + 3);

		rounds_add(&one, alone.rate);
		rounds_add(&two, both.rate / alone.rate);
		rounds_add(&four, all.rate / alone.rate);
		rounds_add(&handler, all.handler);
		rounds_add(&evictor, all.evictor);
		rounds_add(&program, all.process - all.handler - all.evictor);
	}
	figure("one thread", "far faults a second", &one);
	figure_at_least("two threads", "times as many", &two, 1.7);
	figure("four threads", "times as many", &four);
	figure("processor for each, four threads: handler", "us", &handler);
	figure("  evictor", "us", &evictor);
	figure("  program", "us", &program);
	over_close(&over);
	return EXIT_SUCCESS;
}
