/*
 * Writers check and rewrite whole pages of a large mapping again and again. Two arrays hold the generation of each
 * page. One is a mapping between guard pages, which goes far. The other is shared memory, which stays local. So a
 * failure shows if the page is old, is mixed up, or has lost only its generation.
 *
 * Environment, with defaults: VICTIM_SECONDS (5), THREADS (1), the number of writers, SIZE_MB (64).
 */
#include "victim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define WORDS (PAGE / sizeof(uint64_t))
#define THREADS_MAX 16

static uint64_t *memory;
static uint32_t *generations;
static _Atomic uint32_t *kept;
static size_t page_count;
static double until;
static _Atomic unsigned long accesses, wrong_pages, wrong_generations;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static unsigned long number_of(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : otherwise;
}

static void write_page(size_t page, uint32_t generation)
{
	uint64_t *words = memory + page * WORDS, seed = mix(page << 32 | generation);

	for (size_t i = 0; i < WORDS; i++)
		words[i] = seed + i;
	generations[page] = generation;
	atomic_store(&kept[page], generation);
}

static void check_page(size_t page)
{
	const uint64_t *words = memory + page * WORDS;
	uint32_t generation = atomic_load(&kept[page]);
	uint64_t seed = mix(page << 32 | generation);
	size_t good = 0;

	for (size_t i = 0; i < WORDS; i++)
		good += words[i] == seed + i;
	atomic_fetch_add(&accesses, 1);
	if (generations[page] != generation && atomic_fetch_add(&wrong_generations, 1) < 5)
		printf("# page %zu: generation %u was kept, %u is there\n", page, generation, generations[page]);
	if (good < WORDS && atomic_fetch_add(&wrong_pages, 1) < 5)
		printf("# page %zu, generation %u: %zu of %zu words right, the first is %llx for %llx\n", page,
		       generation, good, WORDS, (unsigned long long)words[0], (unsigned long long)seed);
}

/* A writer has the pages `first`, `first` + `step`, and so on. `step` is the number of writers. */
struct writer {
	pthread_t thread;
	size_t first, step;
};

static void scan(const struct writer *writer)
{
	for (size_t page = writer->first; page < page_count; page += writer->step)
		check_page(page);
}

static void *write_on(void *argument)
{
	const struct writer *writer = argument;
	uint64_t chance = writer->first;

	do {
		for (size_t i = 0; i < page_count / 2 && now() < until; i++) {
			size_t page = draw(&chance) % (page_count / writer->step) * writer->step + writer->first;

			check_page(page);
			if (draw(&chance) % 10 < 3)
				write_page(page, atomic_load(&kept[page]) + 1);
		}
		scan(writer);
	} while (now() < until);
	return NULL;
}

/* Maps memory with a read-only page on each side, so that runs of pages cross the edge of a mapping. */
static void *map_guarded(size_t length)
{
	char *room = map_memory(length + 2 * PAGE);

	room[0] = room[PAGE + length] = 1;
	mprotect(room, PAGE, PROT_READ);
	mprotect(room + PAGE + length, PAGE, PROT_READ);
	return room + PAGE;
}

int main(void)
{
	unsigned count = (unsigned)number_of("THREADS", 1);
	struct writer writers[THREADS_MAX];

	count = count > THREADS_MAX ? THREADS_MAX : count;
	page_count = victim_size() / PAGE / THREADS_MAX * THREADS_MAX;
	memory = map_guarded(page_count * PAGE);
	generations = map_guarded((page_count * sizeof *generations + PAGE - 1) / PAGE * PAGE);
	kept = mmap(NULL, page_count * sizeof *kept, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t page = 0; page < page_count; page++)
		write_page(page, 1);
	until = now() + (double)number_of("VICTIM_SECONDS", 5);
	for (unsigned i = 0; i < count; i++) {
		writers[i] = (struct writer){.first = i, .step = count};
		pthread_create(&writers[i].thread, NULL, write_on, &writers[i]);
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(writers[i].thread, NULL);
	printf("# %lu pages were looked at\n", accesses);
	ok(wrong_pages == 0, "every page has the contents last written (%lu do not)", wrong_pages);
	ok(wrong_generations == 0, "every far generation number has the value last written (%lu do not)",
	   wrong_generations);
	return tap_done();
}
