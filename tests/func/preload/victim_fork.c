/*
 * Forks: a child sees memory as it was at the fork, whatever its parent, or itself, does to it later. How much of far
 * memory a child may bring in is bounded: CHILD_MB says how much these children dare to use.
 */
#include "tests/func/preload/victim.h"
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>

static size_t size, reach; /* bytes: all memory, and what children and their parent touch after a fork */
static char *memory;

/* A child that hangs would hang the test: it gets its own deadline. */
static pid_t fork_child(void)
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(120);
	}
	return child;
}

static int wait_for(pid_t child)
{
	int status;
	if (waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* A page every so often, so that a child that reads `reach` bytes sees some of all. */
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

static void test_snapshot(void)
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
	ok(write(go[1], "x", 1) == 1, "the parent has changed its memory");
	ok(wait_for(child) == 0, "the child sees its snapshot all the same");
	ok(!wrong(memory, part, 2, 0) && !wrong(memory + part, part, 1, part), "the parent sees its own");
	ok(!not_zero(memory + size / 4, part), "what the parent discarded is empty");
	close(go[0]);
	close(go[1]);
	munmap(memory, size);
	memory = map_memory(size);
}

/* The parent throws memory away as soon as fork() has returned. The more there is, the longer a snapshot takes. */
static void test_discard_at_once(void)
{
	const size_t spread = 256 * MB; /* its books take a part of the budget, and so of the child's share */
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
	ok(!failed, "a child has what its parent discards just after the fork (%u of 12 did not)", failed);
	munmap(sparse, spread);
}

/* Forks while an earlier child is being answered, and what it still wants is about to be overwritten: more than there
   is room for, so that one may be denied. None may read something else, and nobody may wait for ever. */
static void test_fork_while_read(void)
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
		for (unsigned k = 0; k <= MORE; k++) {
			int status = wait_for(children[k]);
			failed += status && status != 1000 + SIGBUS;
		}
	}
	ok(!failed, "forks while an earlier child reads, and its parent writes (%u failed)", failed);
}

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

static void test_child_changes(void)
{
	fill(memory, size, 3);
	pid_t child = fork_child();
	if (child == 0)
		_exit(child_changes());
	int status = wait_for(child);
	ok(status == 0, "a child discards, unmaps, maps, moves and allocates (%d)", status);
	ok(!wrong(memory, size, 3, 0), "its parent notices nothing");
}

static void test_heap(void)
{
	enum { BLOCKS = 1000 };
	static char *blocks[BLOCKS];
	size_t each = reach / 2 / BLOCKS / 8 * 8;
	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = memset(malloc(each), (int)i, each);
	fill(memory, size, 4); /* sends the blocks away */
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
	ok(status == 0, "a child goes on with the heap it had (%d)", status);
	size_t bad = 0;
	for (unsigned i = 0; i < BLOCKS; i++) {
		bad += blocks[i][each / 2] != (i % 2 ? (char)i : 77);
		free(blocks[i]);
	}
	ok(!bad, "so does its parent");
}

static void test_generations(void)
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
	ok(status == 0, "a child of a child sees its parent's memory at the fork (%d)", status);
	ok(!wrong(memory, size, 4, 0), "and the first parent its own");
}

static void test_storm(void)
{
	enum { CHILDREN = 24 };
	pid_t children[CHILDREN];
	unsigned failed = 0;
	/* CHILDREN parts all over; every child is forked after one more of them changed, and looks at all. */
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
	ok(!failed, "many children at once, each with a snapshot of its own (%u failed)", failed);
}

static void test_exec(void)
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
	ok(!failed, "fork and exec");
	for (unsigned i = 0; i < 20; i++) {
		if (posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ))
			failed++;
		else
			failed += wait_for(child) != 7;
	}
	ok(!failed, "posix_spawn");
	ok(WEXITSTATUS(system("echo far | grep -q far")) == 0, "system with a pipeline");
	FILE *pipe_in = popen("seq 1000 | sort -n | tail -1", "r");
	char line[16] = "";
	ok(pipe_in && fgets(line, sizeof line, pipe_in) && !strcmp(line, "1000\n"), "popen");
	if (pipe_in)
		pclose(pipe_in);
	ok(!wrong(memory, size, 12, 0), "memory is what it was");
}

int main(void)
{
	const char *child_mb = getenv("CHILD_MB");
	size = victim_size() / MB / 8 * 8 * MB;
	reach = child_mb ? (size_t)atol(child_mb) * MB : size;
	memory = map_memory(size);
	test_snapshot();
	test_discard_at_once();
	test_fork_while_read();
	test_child_changes();
	test_heap();
	test_generations();
	test_storm();
	test_exec();
	munmap(memory, size);
	return tap_done();
}
