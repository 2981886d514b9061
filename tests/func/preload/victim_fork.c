/*
 * A forked child sees memory as it was at the fork, whatever its parent or the child does later. farpage bounds how
 * much far memory a child may bring in. CHILD_MB says how much memory the children of this test use.
 */
#include "tests/func/preload/victim.h"

#include <signal.h>
#include <spawn.h>

static size_t size, reach; /* bytes of all memory, and bytes that a process touches after a fork */
static char *memory;

/*
 * Counts the wrong pages among some pages at equal distances, so that a child sees parts of all memory. The pages that
 * it reads have `reach` / @less bytes in all.
 */
static size_t wrong_far_apart(uint64_t seed, unsigned less)
{
	size_t step = size / reach * less * PAGE, count = 0;

	for (size_t at = 0; at < size; at += step)
		count += wrong(memory + at, PAGE, seed, at);
	return count;
}

static void fill_at(size_t at, size_t length, uint64_t seed)
{
	fill(memory + at, length, seed + at);
}

static void child_sees_memory_of_the_fork(void)
{
	int go[2];
	char byte;

	fill(memory, size, 1);
	if (pipe(go))
		return;
	pid_t child = fork_child();
	if (child == 0) {
		if (read(go[0], &byte, 1) != 1)
			_exit(9);
		_exit(wrong_far_apart(1, 1) ? 1 : 0);
	}
	size_t part = reach / 8;
	fill_at(0, part, 2);
	munmap(memory + size / 2, part);
	madvise(memory + size / 4, part, MADV_DONTNEED);
	ok(write(go[1], "x", 1) == 1, "the parent tells the child that the memory has changed");
	ok(wait_for(child) == 0, "a child sees memory as it was at the fork, after the parent has changed it");
	ok(!wrong(memory, part, 2, 0) && !wrong(memory + part, part, 1, part),
	   "the parent sees the pages that it wrote after the fork");
	ok(!not_zero(memory + size / 4, part), "memory that the parent discarded after the fork is zero in the parent");
	close(go[0]);
	close(go[1]);
	munmap(memory, size);
	memory = map_memory(size);
}

/* The parent discards memory as soon as fork() has returned. Its size makes the snapshot slow. */
static void child_has_memory_discarded_just_after_the_fork(void)
{
	const size_t spread =
	    256 * MB; /* more memory needs more records, which reduce the budget and the child's share */
	char *sparse = map_memory(spread);
	unsigned failed = 0;

	sparse[spread - 1] = 1;
	for (unsigned i = 0; i < 12; i++) {
		int go[2];
		char byte;

		fill(memory, size, 20 + i);
		if (pipe(go))
			break;
		pid_t child = fork_child();
		if (child == 0) {
			close(go[1]);
			_exit(read(go[0], &byte, 1) != 0 || wrong_far_apart(20 + i, 4));
		}
		madvise(memory, size, MADV_DONTNEED);
		close(go[0]);
		close(go[1]);
		failed += wait_for(child) != 0;
	}
	ok(!failed, "a child has memory that its parent discards just after the fork (%u of 12 do not)", failed);
	munmap(sparse, spread);
}

/* The parent forks while farpage serves an earlier child, and overwrites pages that this child has still to read. */
static void forks_while_an_earlier_child_reads(void)
{
	enum { ROUNDS = 6, MORE = 6 };
	size_t part = size / 4 / MORE / PAGE * PAGE;
	unsigned failed = 0;
	for (unsigned i = 0; i < ROUNDS; i++) {
		pid_t children[1 + MORE];

		fill(memory, size, 40 + i);
		children[0] = fork_child();
		if (children[0] == 0)
			_exit(wrong_far_apart(40 + i, 1) ? 1 : 0);
		for (unsigned k = 1; k <= MORE; k++) {
			fill_at((k - 1) * part, part, 60);
			children[k] = fork_child();
			if (children[k] == 0)
				_exit(wrong(memory, PAGE, 60, 0) ? 1 : 0);
		}
		for (unsigned k = 0; k <= MORE; k++)
			failed += wait_for(children[k]) != 0;
	}
	ok(!failed, "children forked while an earlier child reads see their snapshot (%u do not)", failed);
}

/* Returns 0, or the number of the step that failed. */
static int child_changes(void)
{
	size_t part = reach / 8;

	if (madvise(memory, part, MADV_DONTNEED) || not_zero(memory, part))
		return 1;
	if (munmap(memory + size / 4, part) || readable(memory + size / 4))
		return 2;
	char *again = map_memory(part);
	if (not_zero(again, part))
		return 3;
	fill(again, part, 7);
	if (wrong(again, part, 7, 0) || wrong(memory + size / 2, part, 3, size / 2))
		return 4;
	fill(memory + size / 2, part, 8);
	if (wrong(memory + size / 2, part, 8, 0))
		return 5;
	char *moved = mremap(again, part, 2 * part, MREMAP_MAYMOVE);
	if (moved == MAP_FAILED || wrong(moved, part, 7, 0) || not_zero(moved + part, part))
		return 6;
	char *block = malloc(part);
	memset(block, 5, part);
	block = realloc(block, 2 * part);
	for (size_t i = 0; i < part; i++)
		if (block[i] != 5)
			return 7;
	free(block);
	char *cleared = calloc(1, part);
	if (not_zero(cleared, part))
		return 8;
	return 0;
}

/* Returns 0, or the number of the step that failed. The memory begins read-only, and its second half is writable. */
static int child_discards_read_only(void)
{
	size_t part = reach / 8;
	char *half = memory + part;

	if (mprotect(memory, part, PROT_READ) || madvise(memory, 2 * part, MADV_DONTNEED))
		return 1;
	if (not_zero(memory, 2 * part))
		return 2;
	if (writable(memory) || writable(half - 1))
		return 3;
	return writable(half) && writable(half + part - 1) ? 0 : 4;
}

static void child_discards_read_only_memory(void)
{
	size_t part = reach / 4;

	fill(memory, part, 13);
	madvise(memory, part, MADV_PAGEOUT);
	int status = in_child(child_discards_read_only);
	ok(status == 0, "read-only memory that a child discards is zero and stays read-only (%d)", status);
	ok(!wrong(memory, part, 13, 0), "memory that a child discards stays as it was in the parent");
}

static void child_changes_its_memory_alone(void)
{
	fill(memory, size, 3);
	int status = in_child(child_changes);
	ok(status == 0, "a child discards, unmaps, maps, moves and allocates memory (%d)", status);
	ok(!wrong(memory, size, 3, 0), "memory that a child changes stays as it was in the parent");
}

static void child_and_parent_use_the_heap_after_fork(void)
{
	enum { BLOCKS = 1000 };
	static char *blocks[BLOCKS];
	size_t each = reach / 2 / BLOCKS / 8 * 8;
	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = memset(malloc(each), (int)i, each);
	fill(memory, size, 4); /* evicts the blocks */
	pid_t child = fork_child();
	if (child == 0) {
		for (unsigned i = 0; i < BLOCKS; i++) {
			if (blocks[i][0] != (char)i || blocks[i][each - 1] != (char)i)
				_exit(1);
			free(blocks[i]);
		}
		for (unsigned i = 0; i < BLOCKS; i++) {
			blocks[i] = calloc(1, each);
			if (not_zero(blocks[i], each))
				_exit(2);
		}
		_exit(0);
	}
	for (unsigned i = 0; i < BLOCKS; i += 2)
		memset(blocks[i], 77, each);
	int status = wait_for(child);
	ok(status == 0, "a child reads, frees and allocates blocks of the heap it had at the fork (%d)", status);
	size_t bad = 0;
	for (unsigned i = 0; i < BLOCKS; i++) {
		bad += blocks[i][each / 2] != (i % 2 ? (char)i : 77);
		free(blocks[i]);
	}
	ok(!bad, "the parent's heap blocks keep their contents while a child uses its own");
}

static void grandchild_sees_memory_of_its_fork(void)
{
	size_t part = reach / 4;

	fill(memory, size, 4);
	pid_t child = fork_child();
	if (child == 0) {
		fill_at(0, part, 5);
		pid_t grandchild = fork_child();
		if (grandchild == 0)
			_exit(wrong(memory, part, 5, 0) || wrong(memory + size / 2, part, 4, size / 2));
		fill_at(0, part, 6);
		if (wait_for(grandchild))
			_exit(1);
		_exit(wrong(memory, part, 6, 0) || wrong(memory + size / 4, part, 4, size / 4) ? 2 : 0);
	}
	int status = wait_for(child);
	ok(status == 0, "a grandchild sees its parent's memory as it was at the fork (%d)", status);
	ok(!wrong(memory, size, 4, 0), "memory that a child and a grandchild change stays as it was in the parent");
}

static void concurrent_children_have_their_own_snapshots(void)
{
	enum { CHILDREN = 24 };
	pid_t children[CHILDREN];
	unsigned failed = 0;
	/* Memory has CHILDREN parts. Each child is forked after one more part has changed, and reads all parts. */
	size_t stride = size / CHILDREN / PAGE * PAGE, part = reach / CHILDREN / CHILDREN / PAGE * PAGE;
	fill(memory, size, 10);
	for (unsigned i = 0; i < CHILDREN; i++) {
		children[i] = fork_child();
		if (children[i] == 0) {
			for (unsigned k = 0; k < CHILDREN; k++)
				if (wrong(memory + k * stride, part, k < i ? 11 : 10, k * stride))
					_exit(1);
			_exit(0);
		}
		fill_at(i * stride, part, 11);
	}
	for (unsigned i = 0; i < CHILDREN; i++)
		failed += wait_for(children[i]) != 0;
	ok(!failed, "each of 24 concurrent children sees memory as at its own fork (%u do not)", failed);
}

static void children_execute_programs(void)
{
	char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"exit $((3 + 4))"}, NULL};
	pid_t child;
	unsigned failed = 0;

	fill(memory, size, 12);
	for (unsigned i = 0; i < 20; i++) {
		child = fork_child();
		if (child == 0) {
			execv("/bin/sh", argv);
			_exit(1);
		}
		failed += wait_for(child) != 7;
	}
	ok(!failed, "a forked child executes a program, 20 times");
	for (unsigned i = 0; i < 20; i++) {
		if (posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ))
			failed++;
		else
			failed += wait_for(child) != 7;
	}
	ok(!failed, "posix_spawn executes a program, 20 times");
	ok(WEXITSTATUS(system("echo far | grep -q far")) == 0, "system() runs a pipeline");
	FILE *pipe_in = popen("seq 1000 | sort -n | tail -1", "r");
	char line[16] = "";
	ok(pipe_in && fgets(line, sizeof line, pipe_in) && !strcmp(line, "1000\n"),
	   "popen() reads the output of a pipeline");
	if (pipe_in)
		pclose(pipe_in);
	ok(!wrong(memory, size, 12, 0), "memory keeps its contents after children executed programs");
}

int main(void)
{
	const char *child_mb = getenv("CHILD_MB");

	size = victim_size() / MB / 8 * 8 * MB;
	reach = child_mb ? (size_t)atol(child_mb) * MB : size;
	memory = map_memory(size);
	child_sees_memory_of_the_fork();
	child_has_memory_discarded_just_after_the_fork();
	forks_while_an_earlier_child_reads();
	child_changes_its_memory_alone();
	child_discards_read_only_memory();
	child_and_parent_use_the_heap_after_fork();
	grandchild_sees_memory_of_its_fork();
	concurrent_children_have_their_own_snapshots();
	children_execute_programs();
	munmap(memory, size);
	return tap_done();
}
