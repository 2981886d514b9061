/*
 * Forked children write to all of their parent's memory, which is more than they may have in local memory at a time.
 * Each child reads what it wrote, and nobody else sees it.
 */
#include "tests/func/preload/victim.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define SEED 1

static size_t size;
static char *memory;

/* Writes all pages. Reads them twice, in two orders. Returns true if any is wrong. */
static bool writes_wrong(uint64_t seed)
{
	const size_t pages = size / PAGE;
	size_t bad = 0;

	for (size_t at = 0; at < size; at += PAGE)
		fill(memory + at, PAGE, seed + at);
	bad += wrong(memory, size, seed, 0);
	for (size_t i = 0, page = 0; i < pages; i++, page = (page + 7919) % pages)
		bad += wrong(memory + page * PAGE, PAGE, seed, page * PAGE);
	return bad;
}

static void children_write_all_memory_at_once(void)
{
	enum { CHILDREN = 3 };
	pid_t children[CHILDREN];
	unsigned failed = 0;

	for (unsigned i = 0; i < CHILDREN; i++) {
		children[i] = fork_child();
		if (children[i] == 0)
			_exit(wrong(memory, size, SEED, 0) || writes_wrong(100 + i));
	}
	for (unsigned i = 0; i < CHILDREN; i++)
		failed += wait_for(children[i]) != 0;
	ok(!failed, "each of 3 children writes all memory and reads it back (%u do not)", failed);
}

/* A child's children begin with what it wrote. Some are forked while pages of it are moved out. */
static int child_writes_and_forks(void)
{
	pid_t grandchildren[4];
	unsigned failed = 0;

	for (unsigned i = 0; i < 4; i++) {
		const uint64_t seed = 200 + i;

		for (size_t at = 0; at < size / 2; at += PAGE)
			fill(memory + at, PAGE, seed + at);
		grandchildren[i] = fork_child();
		if (grandchildren[i] == 0)
			_exit(wrong(memory, size / 2, seed, 0) || wrong(memory + size / 2, size / 2, SEED, size / 2) ||
			      writes_wrong(300 + i));
	}
	failed += wrong(memory, size / 2, 203, 0) != 0;
	for (unsigned i = 0; i < 4; i++)
		failed += wait_for(grandchildren[i]) != 0;
	return (int)failed;
}

static void children_of_a_child_begin_with_its_pages(void)
{
	int status = in_child(child_writes_and_forks);
	ok(status == 0, "children of a child begin with the pages that it wrote (%d)", status);
}

/* The child that forks ends at once. */
static int child_forks_and_ends(void)
{
	int done[2];
	char byte = 1;

	for (size_t at = 0; at < size; at += PAGE)
		fill(memory + at, PAGE, 400 + at);
	if (pipe(done))
		return 1;
	if (fork_child() == 0) {
		if (fork()) /* fork_child() would end it with its parent */
			_exit(0);
		byte = wrong(memory, size, 400, 0) != 0;
		if (write(done[1], &byte, 1) != 1)
			_exit(1);
		_exit(0);
	}
	close(done[1]);
	return read(done[0], &byte, 1) != 1 || byte;
}

static void grandchild_outlives_its_parent(void)
{
	int status = in_child(child_forks_and_ends);
	ok(status == 0, "a process whose parent, a forked child, has ended reads what an earlier one wrote (%d)",
	   status);
}

static atomic_bool writes_end;

static void *write_meanwhile(void *unused)
{
	(void)unused;
	void *bad = writes_wrong(500) ? memory : NULL;
	writes_end = true;
	return bad;
}

/* One thread writes all memory, so that pages are moved out. The other forks again and again. */
static int child_forks_while_it_writes(void)
{
	pthread_t thread;
	void *bad;
	unsigned failed = 0;

	pthread_create(&thread, NULL, write_meanwhile, NULL);
	while (!writes_end) {
		pid_t child = fork_child();

		if (child == 0) {
			size_t odd = 0;

			/* A page was written, or was not. */
			for (size_t at = 0; at < size; at += 61 * PAGE)
				odd += wrong(memory + at, PAGE, 500, at) && wrong(memory + at, PAGE, SEED, at);
			_exit(odd > 1); /* one may be half written */
		}
		failed += wait_for(child) != 0;
	}
	pthread_join(thread, &bad);
	return bad ? 100 : (int)failed;
}

static void a_child_forks_while_its_pages_move(void)
{
	int status = in_child(child_forks_while_it_writes);
	ok(status == 0, "processes that a child forks while its pages leave see its memory (%d)", status);
}

enum { THREADS = 4, TOUCHES = 12000 };

/* Thread @number counts up the pages whose number leaves the remainder @number, and reads the others. Returns whether a
   page had another count than the thread's last one. */
static void *count_up(void *number)
{
	const size_t pages = size / PAGE, mine = (size_t)number;
	uint16_t *counts = calloc(pages, sizeof *counts);
	size_t bad = 0;

	for (unsigned i = 0; i < TOUCHES; i++) {
		const size_t page = mix(mine * TOUCHES + i) % pages;
		volatile uint64_t *word = (volatile uint64_t *)(void *)(memory + page * PAGE);

		if (page % THREADS == mine) {
			bad += word[1] != counts[page];
			word[1] = ++counts[page];
		} else {
			(void)word[1];
		}
	}
	free(counts);
	return (void *)bad;
}

static int threads_of_a_child_write(void)
{
	pthread_t threads[THREADS];
	size_t bad = 0;

	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, count_up, (void *)i);
	for (size_t i = 0; i < THREADS; i++) {
		void *wrong_counts;

		pthread_join(threads[i], &wrong_counts);
		bad += (size_t)wrong_counts;
	}
	return bad || wrong(memory, size, SEED, 0);
}

static void several_threads_of_a_child_write_at_random(void)
{
	int status = in_child(threads_of_a_child_write);
	ok(status == 0, "several threads of a child write at random to pages that they share (%d)", status);
}

/* The kernel writes to a page for read(2), also when it has just left. */
static int child_reads_into_pages(void)
{
	int zero = open("/dev/zero", O_RDONLY);
	size_t bad = 0;

	for (size_t at = 0; at < size; at += PAGE)
		fill(memory + at, PAGE, 600 + at);
	for (size_t at = 0; at < size; at += 16 * PAGE)
		if (read(zero, memory + at, 8 * PAGE) != 8 * PAGE)
			return 1;
	for (size_t at = 0; at < size; at += 16 * PAGE)
		bad += not_zero(memory + at, 8 * PAGE) + wrong(memory + at + 8 * PAGE, 8 * PAGE, 600, at + 8 * PAGE);
	close(zero);
	return bad != 0;
}

static void system_calls_write_to_pages_that_left(void)
{
	int status = in_child(child_reads_into_pages);
	ok(status == 0, "system calls of a child write to pages that have left (%d)", status);
}

/* A child does not touch its memory while its parent writes all of it, three times. */
static void parent_writes_all_memory(void)
{
	int go[2];
	char byte;

	if (pipe(go))
		return;
	pid_t child = fork_child();
	if (child == 0) {
		close(go[1]);
		_exit(read(go[0], &byte, 1) != 0 || wrong(memory, size, SEED, 0) || writes_wrong(700));
	}
	close(go[0]);
	for (unsigned times = 0; times < 3; times++)
		fill(memory, size, 800 + times);
	close(go[1]);
	int status = wait_for(child);
	ok(status == 0, "a child has all memory of the fork after its parent has overwritten all of it (%d)", status);
	ok(!wrong(memory, size, 802, 0), "the parent has what it wrote");
	fill(memory, size, SEED);
}

int main(void)
{
	size = victim_size();
	memory = map_memory(size);
	fill(memory, size, SEED);
	hide_environment();
	children_write_all_memory_at_once();
	children_of_a_child_begin_with_its_pages();
	grandchild_outlives_its_parent();
	a_child_forks_while_its_pages_move();
	several_threads_of_a_child_write_at_random();
	system_calls_write_to_pages_that_left();
	parent_writes_all_memory();
	ok(!wrong(memory, size, SEED, 0), "the parent's memory is as the parent left it");
	return tap_done();
}
