/* Reservations: memory mapped without access and opened piece by piece, as Java, Go, V8 and allocators do. */
#include "tests/func/preload/victim.h"
#include <sys/wait.h>

#define RESERVED ((size_t)8 << 30)
#define CHOICES 200 /* more than the library denies before it lets the kernel choose */

static size_t size; /* bytes; several times what may stay local */

static char *reserve(void *choice, size_t length)
{
	return mmap(choice, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static bool open_fixed(char *start, size_t length)
{
	return mmap(start, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start;
}

/* As jemalloc and the JVM. */
static void test_protections(void)
{
	char *memory = reserve(NULL, RESERVED);
	ok(memory != MAP_FAILED && !readable(memory) && !readable(memory + RESERVED - 1),
	   "reserved memory has no access");
	ok(!mprotect(memory + MB, size, PROT_READ | PROT_WRITE) && !not_zero(memory + MB, MB),
	   "opened by mprotect: zeroes");
	fill(memory + MB, size, 1);
	ok(!wrong(memory + MB, size, 1, 0), "all pages hold what was written");
	ok(!readable(memory) && !readable(memory + MB + size), "what is beside them is closed");
	ok(!mprotect(memory + MB, size, PROT_NONE) && !readable(memory + MB), "closed again");
	ok(!mprotect(memory + MB, size, PROT_READ | PROT_WRITE) && !wrong(memory + MB, size, 1, 0),
	   "contents outlast that");
	ok(!mprotect(memory + MB, size, PROT_NONE) && !madvise(memory + MB, size, MADV_DONTNEED) &&
	       !mprotect(memory + MB, size, PROT_READ | PROT_WRITE) && !not_zero(memory + MB, size),
	   "given back while closed: zeroes");
	for (size_t at = 0; at < size; at += MB / 4)
		if (mprotect(memory + size + 2 * MB + at, MB / 4, PROT_READ | PROT_WRITE))
			break;
	fill(memory + size + 2 * MB, size, 2);
	ok(!wrong(memory + size + 2 * MB, size, 2, 0), "opened piece by piece");
	ok(!munmap(memory, RESERVED) && !readable(memory + MB), "unmapped");
}

/* As Go and V8. */
static void test_fixed(void)
{
	char *memory = reserve(NULL, RESERVED);
	ok(open_fixed(memory, size) && !not_zero(memory, MB), "opened by MAP_FIXED: zeroes");
	fill(memory, size, 3);
	ok(!wrong(memory, size, 3, 0), "all pages hold what was written");
	ok(mmap(memory + size / 2, size / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
		0) == memory + size / 2 &&
	       !readable(memory + size / 2),
	   "a half is given back by MAP_FIXED");
	ok(open_fixed(memory + size / 2, size / 2) && !not_zero(memory + size / 2, size / 2) &&
	       !wrong(memory, size / 2, 3, 0),
	   "it reads as zeroes, the other half is there");
	ok(!munmap(memory + size, RESERVED - size) && !wrong(memory, size / 2, 3, 0), "the rest of it is unmapped");
	ok(!munmap(memory, size), "and all");
}

/* An aligned piece is cut out, as by V8 and mimalloc. */
static void test_cut(void)
{
	const size_t piece = (size_t)1 << 30;
	char *memory = reserve(NULL, 2 * piece);
	char *low = (char *)(((uintptr_t)memory + piece - 1) / piece * piece);
	ok((low == memory || !munmap(memory, (size_t)(low - memory))) &&
	       !munmap(low + piece, (size_t)(memory + piece - low)),
	   "cut out");
	ok(!mprotect(low, size, PROT_READ | PROT_WRITE), "and opened");
	fill(low, size, 4);
	ok(!wrong(low, size, 4, 0), "all pages hold what was written");
	munmap(low, piece);
}

/* What was unopened when it was unmapped is empty when somebody has it next. */
static void test_unopened(void)
{
	char *memory = reserve(NULL, RESERVED);
	mprotect(memory, size, PROT_READ | PROT_WRITE);
	fill(memory, size, 5);
	munmap(memory, RESERVED);
	memory = reserve(NULL, RESERVED);
	munmap(memory, RESERVED);
	memory = map_memory(size);
	ok(!not_zero(memory, size), "memory after two reservations reads as zeroes");
	munmap(memory, size);
	munmap(reserve(NULL, size), size);
	memory = map_memory(size); /* in the reservation's place */
	fill(memory, size, 8);
	munmap(memory, size);
	memory = map_memory(size);
	ok(!not_zero(memory, size), "memory that took a reservation's place is emptied when it is unmapped");
	munmap(memory, size);
}

static void test_choice(void)
{
	char *choice = (char *)((uintptr_t)42 << 40), *memory;
	unsigned tries = 0;
	while ((memory = reserve(choice, MB)) != choice && tries++ < CHOICES)
		munmap(memory, MB);
	ok(memory == choice, "who must have an address gets it, after %u tries", tries);
	munmap(memory, MB);
}

static void test_fork(void)
{
	char *memory = reserve(NULL, RESERVED);
	int status = -1;
	mprotect(memory, MB, PROT_READ | PROT_WRITE);
	fill(memory, MB, 6);
	pid_t child = fork();
	if (child == 0) {
		bool right = !wrong(memory, MB, 6, 0) && !readable(memory + MB) &&
			     !mprotect(memory + MB, MB, PROT_READ | PROT_WRITE) && !not_zero(memory + MB, MB);
		fill(memory + MB, MB, 7);
		_exit(right && !wrong(memory + MB, MB, 7, 0) ? 0 : 1);
	}
	ok(waitpid(child, &status, 0) == child && status == 0, "a forked child has it, and opens more (status %x)",
	   (unsigned)status);
	ok(!readable(memory + MB) && !wrong(memory, MB, 6, 0), "which its parent has not");
	munmap(memory, RESERVED);
}

int main(void)
{
	size = victim_size();
	test_protections();
	test_fixed();
	test_cut();
	test_unopened();
	test_choice();
	test_fork();
	return tap_done();
}
