/*
 * Forked children read all of their parent's memory, which is more than they may have in local memory at a time. They
 * also write to it, discard it, replace it, and fork. No child reads wrong contents.
 */
#include "tests/func/preload/victim.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#define SEED 1
#define OTHER 1000 /* a seed for what children write */

static size_t size;
static char *memory;

/* Reads the pages of [0, @length) in an order that depends on @order. Returns true if any is wrong. */
static bool reads_wrong(size_t length, unsigned order)
{
	static const size_t steps[] = {1, 7919, 6841, 104729};
	const size_t pages = length / PAGE, step = steps[order % 4];
	size_t count = 0;

	for (size_t i = 0, page = 0; i < pages; i++, page = (page + step) % pages)
		count += wrong(memory + page * PAGE, PAGE, SEED, page * PAGE);
	return count != 0;
}

static void children_read_all_memory_at_once(void)
{
	enum { CHILDREN = 4, TIMES = 2 };
	pid_t children[CHILDREN];
	unsigned failed = 0;

	for (unsigned i = 0; i < CHILDREN; i++) {
		children[i] = fork_child();
		if (children[i] == 0) {
			bool any = false;

			for (unsigned k = 0; k < TIMES; k++)
				any = reads_wrong(size, i + k) || any;
			_exit(any);
		}
	}
	for (unsigned i = 0; i < CHILDREN; i++)
		failed += wait_for(children[i]) != 0;
	ok(!failed, "each of 4 children reads all memory twice (%u do not)", failed);
}

/* run_victim.sh sets CHILD_MB if memory is far. A child then shares the pages that were local at the fork, a quarter of
   all memory, and has copies of an eighth. */
static int child_reads_within_its_share(void)
{
	return reads_wrong(size, 0) || (getenv("CHILD_MB") && resident() > size / 2);
}

static void child_stays_within_its_share(void)
{
	int status = in_child(child_reads_within_its_share);
	ok(status == 0, "a child that reads all memory has less than half of it in local memory (%d)", status);
}

static int child_writes(void)
{
	const size_t stride = 64 * PAGE;
	size_t bad = 0;

	if (reads_wrong(size, 0))
		return 1;
	for (size_t at = 0; at < size; at += stride)
		fill(memory + at, PAGE, OTHER + at);
	for (unsigned times = 0; times < 2; times++)
		for (size_t at = 0; at < size; at += PAGE)
			bad += wrong(memory + at, PAGE, at % stride ? SEED : OTHER, at);
	return bad ? 2 : 0;
}

static void child_keeps_what_it_writes(void)
{
	int status = in_child(child_writes);
	ok(status == 0, "a child that reads all memory keeps the pages that it has written (%d)", status);
}

static int child_discards(void)
{
	const size_t part = size / 8;

	if (reads_wrong(size, 0))
		return 1;
	if (madvise(memory + size - part, part, MADV_DONTNEED) || munmap(memory + size - 2 * part, part) ||
	    mmap(memory + size - 2 * part, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		return 2;
	fill(memory + size - 2 * part, part, OTHER);
	for (unsigned i = 0; i < 4; i++)
		if (reads_wrong(size - 2 * part, i))
			return 3;
	if (not_zero(memory + size - part, part))
		return 4;
	return wrong(memory + size - 2 * part, part, OTHER, 0) ? 5 : 0;
}

static void child_keeps_memory_in_place_of_what_it_discards(void)
{
	int status = in_child(child_discards);
	ok(status == 0, "memory that a child has discarded or replaced stays as the child left it (%d)", status);
}

static atomic_bool reads_end;

static void *read_meanwhile(void *unused)
{
	bool any = false;

	(void)unused;
	for (unsigned i = 0; i < 6; i++)
		any = reads_wrong(size / 2, i) || any;
	reads_end = true;
	return any ? memory : NULL;
}

/* One thread reads the first half, so that the child drops pages. The other thread replaces pages of the second half by
   memory of its own, right after it has read them. */
static int child_replaces_while_it_reads(void)
{
	const size_t part = 16 * PAGE;
	pthread_t thread;
	void *any;

	pthread_create(&thread, NULL, read_meanwhile, NULL);
	for (size_t at = size / 2; !reads_end; at = at + part < size ? at + part : size / 2) {
		size_t bad = 0;

		for (size_t page = 0; page < part; page += PAGE)
			bad += *(volatile uint64_t *)(void *)(memory + at + page) == 0;
		if (bad || madvise(memory + at, part, MADV_DONTNEED))
			return 1;
		fill(memory + at, part, OTHER + at);
		if (wrong(memory + at, part, OTHER, at))
			return 2;
	}
	pthread_join(thread, &any);
	return any ? 3 : 0;
}

static void child_replaces_pages_while_it_drops_others(void)
{
	int status = in_child(child_replaces_while_it_reads);
	ok(status == 0, "a child replaces pages while another of its threads reads all memory (%d)", status);
}

static int child_forks(void)
{
	pid_t grandchildren[3];
	int status = 0;

	for (unsigned i = 0; i < 3; i++) {
		if (reads_wrong(size / 2, i))
			return 1;
		grandchildren[i] = fork_child();
		if (grandchildren[i] == 0)
			_exit(reads_wrong(size, i) ? 2 : child_writes());
	}
	if (reads_wrong(size, 0))
		return 1;
	for (unsigned i = 0; i < 3; i++)
		status += wait_for(grandchildren[i]);
	return status;
}

static void children_of_a_child_read_all_memory(void)
{
	int status = in_child(child_forks);
	ok(status == 0, "a child and three children of it read all memory (%d)", status);
}

static void children_read_while_their_parent_writes(void)
{
	enum { ROUNDS = 4, CHILDREN = 2 };
	unsigned failed = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		pid_t children[CHILDREN];

		fill(memory, size, SEED);
		for (unsigned i = 0; i < CHILDREN; i++) {
			children[i] = fork_child();
			if (children[i] == 0)
				_exit(reads_wrong(size, round + i) || reads_wrong(size, i));
		}
		for (unsigned times = 0; times < 4; times++)
			fill(memory + (round + times) * size / 16, size / 16, OTHER + times);
		for (unsigned i = 0; i < CHILDREN; i++)
			failed += wait_for(children[i]) != 0;
	}
	ok(!failed, "children see their snapshot while the parent writes (%u do not)", failed);
	fill(memory, size, SEED);
}

/* The child is stopped while pages of it are asked back, with some luck. Its parent must not wait for it. */
static void a_stopped_child_holds_nobody_up(void)
{
	int ready[2];
	char byte;
	unsigned failed = 0;

	for (unsigned round = 0; round < 2; round++) {
		if (pipe(ready))
			return;
		pid_t child = fork_child();
		if (child == 0) {
			bool any = reads_wrong(size / 2, round);

			if (write(ready[1], "x", 1) != 1)
				_exit(2);
			_exit(reads_wrong(size, round + 1) || any);
		}
		failed += read(ready[0], &byte, 1) != 1;
		kill(child, SIGSTOP);
		pid_t other = fork_child();
		if (other == 0)
			_exit(reads_wrong(size, 1));
		fill(memory, size, OTHER);
		failed += wait_for(other) != 0;
		kill(child, SIGCONT);
		failed += wait_for(child) != 0;
		close(ready[0]);
		close(ready[1]);
		fill(memory, size, SEED);
	}
	ok(!failed, "a stopped child holds up neither its parent nor other children (%u failures)", failed);
}

/* Reads some pages of each part of the memory. Returns true if any is wrong. */
static bool samples_wrong(unsigned offset)
{
	enum { SAMPLES = 40 };
	const size_t part = size / SAMPLES / PAGE * PAGE;
	size_t bad = 0;

	for (size_t at = offset % (part / PAGE) * PAGE; at < size; at += part)
		bad += wrong(memory + at, PAGE, SEED, at);
	return bad != 0;
}

static void many_children_live_at_once(void)
{
	enum { CHILDREN = 150 };
	pid_t children[CHILDREN];
	unsigned failed = 0;
	int gate[2];
	char byte;

	if (pipe(gate))
		return;
	for (unsigned i = 0; i < CHILDREN; i++) {
		children[i] = fork_child();
		if (children[i] == 0) {
			close(gate[1]);
			_exit(read(gate[0], &byte, 1) != 0 || samples_wrong(i));
		}
	}
	close(gate[0]);
	close(gate[1]); /* the children begin */
	for (unsigned i = 0; i < CHILDREN; i++)
		failed += wait_for(children[i]) != 0;
	ok(!failed, "150 children live at once, and all read memory (%u do not)", failed);
}

static int child_reads_and_forks(void)
{
	return reads_wrong(size, 0) ? 1 : in_child(child_writes);
}

/* A process that has used all its descriptors can fork, so it must be able to with far memory. */
static void children_need_no_free_descriptor(void)
{
	struct rlimit limit;
	int first = dup(STDOUT_FILENO), last = first;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	const rlim_t before = limit.rlim_cur;
	limit.rlim_cur = (rlim_t)first + 40;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (int fd; (fd = dup(first)) >= 0;)
		last = fd;
	int status = in_child(child_reads_and_forks);
	getrlimit(RLIMIT_NOFILE, &limit);
	const rlim_t after = limit.rlim_cur;
	for (int fd = first; fd <= last; fd++)
		close(fd);
	limit.rlim_cur = before;
	setrlimit(RLIMIT_NOFILE, &limit);
	ok(status == 0, "a program without a free descriptor forks, and so does its child (%d)", status);
	ok(after == (rlim_t)first + 40, "the program's limit on descriptors stays as it was");
}

int main(void)
{
	size = victim_size();
	memory = map_memory(size);
	fill(memory, size, SEED);
	children_read_all_memory_at_once();
	child_stays_within_its_share();
	child_keeps_what_it_writes();
	child_keeps_memory_in_place_of_what_it_discards();
	child_replaces_pages_while_it_drops_others();
	children_of_a_child_read_all_memory();
	children_read_while_their_parent_writes();
	a_stopped_child_holds_nobody_up();
	many_children_live_at_once();
	children_need_no_free_descriptor();
	ok(!wrong(memory, size, SEED, 0), "the parent's memory is as the parent left it");
	return tap_done();
}
