/* Threads that fault, allocate, map and discard at once, also while the process forks. Each checks its own pages. */
#include "tests/func/preload/victim.h"

#include <pthread.h>

#define THREADS 8
#define STEPS 800
#define SLOTS 32

struct worker {
	pthread_t thread;
	unsigned number, bad;
};

static size_t size;

struct slot {
	char *memory;
	size_t length;
	uint64_t seed;
	bool mapped;
};

static void slot_drop(struct slot *slot)
{
	if (slot->mapped)
		munmap(slot->memory, slot->length);
	else
		free(slot->memory);
	slot->memory = NULL;
}

static void slot_make(struct slot *slot, uint64_t random)
{
	size_t most = size / THREADS / SLOTS * 2 / PAGE;

	slot->length = (1 + random % most) * PAGE;
	slot->seed = random;
	slot->mapped = random >> 32 & 1;
	slot->memory = slot->mapped ? map_memory(slot->length) : malloc(slot->length);
	fill(slot->memory, slot->length, slot->seed);
}

static void slot_change(struct slot *slot, uint64_t random)
{
	/* A slot grows at most in proportion to `size`, so that a child never needs more than its share. */
	size_t most = size / THREADS / SLOTS * 4 / PAGE;
	size_t longer = slot->length + (random % (most < 64 ? most : 64) + 1) * PAGE;

	if (!slot->mapped)
		slot->memory = realloc(slot->memory, longer);
	else if (random >> 20 & 1)
		slot->memory = mremap(slot->memory, slot->length, longer, MREMAP_MAYMOVE);
	else if (!madvise(slot->memory, longer = slot->length, MADV_DONTNEED))
		fill(slot->memory, slot->length, slot->seed);
	fill(slot->memory + slot->length, longer - slot->length, slot->seed + slot->length);
	slot->length = longer;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct slot slots[SLOTS] = {0};
	uint64_t state = worker->number;

	for (unsigned step = 0; step < STEPS; step++) {
		state = mix(state + 1);
		struct slot *slot = &slots[state % SLOTS];
		if (!slot->memory) {
			slot_make(slot, state >> 8);
			continue;
		}
		worker->bad += wrong(slot->memory, slot->length, slot->seed, 0) != 0;
		if (state >> 40 & 1 || slot->length > size / THREADS / 4)
			slot_drop(slot);
		else
			slot_change(slot, state >> 8);
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (slots[i].memory) {
			worker->bad += wrong(slots[i].memory, slots[i].length, slots[i].seed, 0) != 0;
			slot_drop(&slots[i]);
		}
	return NULL;
}

static unsigned forks(char *memory, size_t length)
{
	unsigned failed = 0;

	for (unsigned i = 0; i < 10; i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			alarm(120);
			char *block = malloc(MB);
			memset(block, 1, MB);
			_exit(wrong(memory, length, 1, 0) ? 1 : 0);
		}
		failed += waitpid(child, &status, 0) != child || status;
	}
	return failed;
}

static void *nothing(void *argument)
{
	return argument;
}

static struct worker workers[THREADS];

static void start_workers(size_t bytes)
{
	size = bytes;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.number = i + 1};
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
}

static unsigned join_workers(void)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		bad += workers[i].bad;
	}
	return bad;
}

int main(void)
{
	unsigned bad = 0;
	char *memory = map_memory(2 * MB);

	fill(memory, 2 * MB, 1);
	start_workers(victim_size());
	ok(!join_workers(), "blocks of %d threads keep their contents in %d random steps each", THREADS, STEPS);
	ok(!wrong(memory, 2 * MB, 1, 0), "memory that no thread touched keeps its contents");
	start_workers(MB);
	ok(!forks(memory, 2 * MB), "10 children forked while threads use memory see memory as at their fork");
	ok(!join_workers(), "blocks of threads keep their contents while the process forks");
	for (unsigned i = 0; i < 500; i++) {
		pthread_t thread;
		void *result = NULL;

		if (pthread_create(&thread, NULL, nothing, memory + i) || pthread_join(thread, &result))
			bad++;
		bad += result != memory + i;
	}
	ok(!bad, "each of 500 threads returns its result");
	return tap_done();
}
