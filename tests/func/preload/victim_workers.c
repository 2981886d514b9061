/*
 * Forked children map new memory, more than the budget, while their parent and its far memory live. New memory begins
 * as zeroes, also where a page of the parent or an earlier page of the child was far. Under farpage, LOCAL is the
 * budget.
 */
#include "tests/func/preload/victim.h"

#include <pthread.h>
#include <stdatomic.h>

#define SEED 1

static size_t size;
static char *memory; /* the parent's */

static unsigned generation; /* 1 in a child, 2 in a child's child */

/* Returns true if this process has at most its budget in local memory, and the budgets of the processes before it,
   whose pages it shares. */
static bool is_within_budget(void)
{
	const char *local = getenv("LOCAL");

	return !local || !*local || resident() <= (1 + generation) * (size_t)atol(local) * MB;
}

/* Returns true if the range is empty, and can be written and read back. */
static bool works(char *range, size_t length, uint64_t seed)
{
	if (not_zero(range, length))
		return false;
	fill(range, length, seed);
	return !wrong(range, length, seed, 0) && !wrong(range, length, seed, 0);
}

static int child_uses_new_memory(void)
{
	char *new = map_memory(size);

	if (!works(new, size, 2))
		return 1;
	if (!is_within_budget())
		return 2;
	return wrong(memory, size, SEED, 0) ? 3 : 0;
}

static void children_use_new_memory(void)
{
	enum { CHILDREN = 3 };
	pid_t children[CHILDREN];
	int first = in_child(child_uses_new_memory);
	unsigned failed = 0;

	ok(first == 0, "a child uses new memory, and its pages leave local memory (%d)", first);
	for (unsigned i = 0; i < CHILDREN; i++) {
		children[i] = fork_child();
		if (children[i] == 0)
			_exit(child_uses_new_memory());
	}
	for (unsigned i = 0; i < CHILDREN; i++)
		failed += wait_for(children[i]) != 0;
	ok(!failed, "three children at once use new memory (%u do not)", failed);
}

/* As workers of servers do. Such a process may not create a userfaultfd, or open files of its own in /proc. */
static int child_changes_its_user(void)
{
	if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
		return 10;
	return child_uses_new_memory();
}

/* The C library places large blocks like mappings, and small ones in its heap. */
static int child_allocates(void)
{
	enum { BLOCKS = 16 };
	const size_t block = size / BLOCKS;
	char *blocks[BLOCKS], **small = calloc(4096, sizeof *small);

	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = calloc(1, block);
		if (!blocks[i] || !works(blocks[i], block / PAGE * PAGE, 10 + i))
			return 1;
	}
	for (unsigned i = 0; i < 4096; i++) {
		small[i] = malloc(1000);
		memset(small[i], (int)i, 1000);
	}
	for (unsigned i = 0; i < BLOCKS; i += 2)
		free(blocks[i]);
	for (unsigned i = 0; i < 4096; i++)
		if (small[i][0] != (char)i || small[i][999] != (char)i)
			return 2;
	for (unsigned i = 1; i < BLOCKS; i += 2)
		if (wrong(blocks[i], block / PAGE * PAGE, 10 + i, 0))
			return 3;
	return is_within_budget() ? 0 : 4;
}

/* Ranges are emptied, unmapped and mapped again while some of their pages are far. */
static int child_replaces_memory(void)
{
	char *range = map_memory(size);

	for (unsigned round = 0; round < 3; round++) {
		if (!works(range, size, 20 + round))
			return 1;
		if (madvise(range, size / 2, MADV_DONTNEED) || not_zero(range, size / 2) ||
		    wrong(range + size / 2, size / 2, 20 + round, size / 2))
			return 2;
		if (munmap(range, size))
			return 3;
		range = map_memory(size);
	}
	/* The parent's memory, which the child may replace, too. */
	if (madvise(memory, size / 4, MADV_DONTNEED) || !works(memory, size / 4, 30))
		return 4;
	if (mmap(memory + size / 2, size / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
		memory + size / 2 ||
	    !works(memory + size / 2, size / 4, 31))
		return 5;
	if (wrong(memory + size / 4, size / 4, SEED, size / 4) ||
	    wrong(memory + size / 4 * 3, size / 4, SEED, size / 4 * 3))
		return 6;
	return is_within_budget() ? 0 : 7;
}

static int child_moves_new_memory(void)
{
	char *range = map_memory(size / 2);

	fill(range, size / 2, 40);
	range = mremap(range, size / 2, size, MREMAP_MAYMOVE);
	if (range == MAP_FAILED || wrong(range, size / 2, 40, 0) || not_zero(range + size / 2, size / 2))
		return 1;
	fill(range + size / 2, size / 2, 41);
	range = mremap(range, size, size / 4, MREMAP_MAYMOVE);
	return range == MAP_FAILED || wrong(range, size / 4, 40, 0);
}

/* A child's children begin with its new memory, and have new memory of their own. */
static int child_forks(void)
{
	pid_t grandchildren[3];
	char *range = map_memory(size);
	unsigned failed = 0;

	for (unsigned i = 0; i < 3; i++) {
		fill(range, size, 50 + i);
		grandchildren[i] = fork_child();
		generation = grandchildren[i] == 0 ? 2 : 1;
		if (grandchildren[i] == 0)
			_exit(wrong(range, size, 50 + i, 0) || wrong(memory, size, SEED, 0) ||
			      child_uses_new_memory() || child_replaces_memory());
	}
	failed += wrong(range, size, 52, 0) != 0;
	for (unsigned i = 0; i < 3; i++)
		failed += wait_for(grandchildren[i]) != 0;
	return (int)failed;
}

static atomic_bool ends;

static void *map_meanwhile(void *seed)
{
	size_t bad = 0;

	while (!ends) {
		char *range = map_memory(size / 16);

		bad += !works(range, size / 16, (uintptr_t)seed);
		munmap(range, size / 16);
	}
	return bad ? memory : NULL;
}

/* Two threads map and unmap while another forks, and while pages leave. */
static int child_threads_map_and_fork(void)
{
	pthread_t threads[2];
	void *bad;
	unsigned failed = 0;
	char *range = map_memory(size);

	fill(range, size, 60);
	for (uintptr_t i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, map_meanwhile, (void *)(i + 61)))
			return 1;
	for (unsigned i = 0; i < 20; i++) {
		pid_t grandchild = fork_child();

		if (grandchild == 0)
			_exit(wrong(range, size / 4, 60, 0) != 0);
		failed += wait_for(grandchild) != 0;
	}
	ends = true;
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(threads[i], &bad);
		failed += bad != NULL;
	}
	return (int)(failed + (wrong(range, size, 60, 0) != 0));
}

static void child_works(int (*work)(void), const char *what)
{
	int status = in_child(work);

	ok(status == 0, "%s (%d)", what, status);
}

int main(void)
{
	size = victim_size();
	memory = map_memory(size);
	fill(memory, size, SEED);
	generation = 1; /* of the processes that check their budgets */
	children_use_new_memory();
	child_works(child_changes_its_user, "pages of a child leave local memory after it has given up root's rights");
	child_works(child_allocates, "a child's malloc uses new memory");
	child_works(child_replaces_memory, "a child empties, unmaps and replaces memory");
	child_works(child_moves_new_memory, "a child grows, moves and shrinks new memory");
	child_works(child_forks, "a child's children begin with its new memory, and have their own");
	child_works(child_threads_map_and_fork, "threads of a child map and unmap memory while another thread forks");
	ok(!wrong(memory, size, SEED, 0), "the parent's memory is what it was");
	return tap_done();
}
