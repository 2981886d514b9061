/*
 * A program with its own malloc, which maps its arenas under a lock, as tcmalloc and jemalloc do. The pager starts
 * inside such a call, so farpage's threads must not need that malloc. The program also makes threads and forks.
 */
#include "tests/func/preload/victim.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define ARENA (2 * MB)
#define THREADS 4
#define BLOCK 4000u /* bytes; nearly a page */

/* Libraries use this malloc, too. */
#pragma GCC visibility push(default)

static _Atomic bool locked;
static char *arena;
static size_t left;

static void lock(void)
{
	while (atomic_exchange(&locked, true))
		sched_yield();
}

/* The word before a block holds the length of the block. Freed blocks are not used again. */
void *malloc(size_t length)
{
	size_t bytes = (length + 31) / 16 * 16;
	char *block = NULL;

	lock();
	if (bytes > left) {
		size_t wanted = bytes > ARENA ? bytes : ARENA;

		arena = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		left = arena == MAP_FAILED ? 0 : wanted;
	}
	if (bytes <= left) {
		block = arena + 16;
		*(size_t *)arena = length;
		arena += bytes;
		left -= bytes;
	} else {
		errno = ENOMEM;
	}
	locked = false;
	return block;
}

void *calloc(size_t count, size_t length)
{
	return malloc(count * length); /* a new mapping reads as zeroes */
}

void *realloc(void *block, size_t length)
{
	void *longer = malloc(length);

	if (longer && block) {
		size_t before = *(size_t *)((char *)block - 16);

		memcpy(longer, block, before < length ? before : length);
	}
	return longer;
}

void free(void *block)
{
	(void)block;
}

#pragma GCC visibility pop

struct share {
	uint64_t seed;
	size_t count;
	uint64_t *blocks[];
};

static struct share *blocks_make(uint64_t seed, size_t count)
{
	struct share *share = malloc(sizeof *share + count * sizeof *share->blocks);

	share->seed = seed;
	share->count = count;
	for (size_t i = 0; i < count; i++) {
		share->blocks[i] = malloc(BLOCK);
		share->blocks[i][0] = mix(seed + i);
		share->blocks[i][BLOCK / 8 - 1] = ~share->blocks[i][0];
	}
	return share;
}

/* Counts the wrong blocks among the first @first blocks. */
static size_t blocks_wrong(const struct share *share, size_t first)
{
	size_t count = 0;

	for (size_t i = 0; i < share->count && i < first; i++)
		count += share->blocks[i][0] != mix(share->seed + i) ||
			 share->blocks[i][BLOCK / 8 - 1] != ~share->blocks[i][0];
	return count;
}

static void *use(void *argument)
{
	return blocks_make((uintptr_t)argument * 1000003, victim_size() / THREADS / BLOCK);
}

/* The fork comes before the pager starts, so the child must start its own pager. */
static void child_forked_before_pager_uses_memory(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(blocks_wrong(blocks_make(11, victim_size() / 2 / BLOCK), SIZE_MAX) ? 1 : 0);
	waitpid(child, &status, 0);
	ok(child > 0 && status == 0, "a child forked before the pager starts can fill memory (status %#x)",
	   (unsigned)status);
}

int main(void)
{
	pthread_t threads[THREADS];
	struct share *shares[THREADS];
	size_t bad = 0;
	int status = -1;

	alarm(100); /* ends a test that hangs */
	child_forked_before_pager_uses_memory();
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, use, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], (void **)&shares[i]);
	for (unsigned i = 0; i < THREADS; i++)
		bad += blocks_wrong(shares[i], SIZE_MAX);
	ok(bad == 0, "blocks of the program's own malloc keep their contents (%zu wrong)", bad);
	pid_t child = fork();
	if (child == 0)
		_exit(blocks_wrong(shares[0], 500) || blocks_wrong(blocks_make(12, 100), SIZE_MAX) ? 1 : 0);
	waitpid(child, &status, 0);
	ok(child > 0 && status == 0, "a forked child has its parent's blocks and allocates more (status %#x)",
	   (unsigned)status);
	return tap_done();
}
