/*
 * victim: helpers of the victim programs. A victim is an ordinary program that checks itself and prints TAP. Each
 * victim must also pass without farpage, which shows that the victim expects only what Linux does. SIZE_MB in the
 * environment says how much memory a victim uses.
 */
#ifndef TESTS_FUNC_PRELOAD_VICTIM_H
#define TESTS_FUNC_PRELOAD_VICTIM_H
#include "tests/lib/mix.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define MB ((size_t)1 << 20)

/* Returns the number of bytes to use: SIZE_MB, or 64 MiB by default. */
static inline size_t victim_size(void)
{
	const char *text = getenv("SIZE_MB");

	return (text ? (size_t)atol(text) : 64) * MB;
}

/* Writes the first and last word of each page. The words are different for each page and each @seed. */
static inline void fill(void *memory, size_t length, uint64_t seed)
{
	for (size_t at = 0; at < length; at += PAGE) {
		uint64_t *words = (uint64_t *)((char *)memory + at);

		words[0] = mix(seed + at);
		words[511] = ~words[0];
	}
}

/*
 * Counts the pages that differ from those of fill(). @memory lies @offset bytes after the start of the range that
 * fill() has filled.
 */
static inline size_t wrong(const void *memory, size_t length, uint64_t seed, size_t offset)
{
	size_t count = 0;

	for (size_t at = 0; at < length; at += PAGE) {
		const uint64_t *words = (const uint64_t *)((const char *)memory + at);

		count += words[0] != mix(seed + offset + at) || words[511] != ~words[0];
	}
	return count;
}

/* Counts the words that are not zero. */
static inline size_t not_zero(const void *memory, size_t length)
{
	const uint64_t *words = memory;
	size_t count = 0;

	for (size_t i = 0; i < length / sizeof *words; i++)
		count += words[i] != 0;
	return count;
}

/* Maps @length bytes of anonymous memory. Ends the test if that fails. */
static inline char *map_memory(size_t length)
{
	char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		printf("Bail out! cannot map %zu bytes\n", length);
		exit(EXIT_FAILURE);
	}
	return memory;
}

/* Returns the resident memory of this process in bytes. */
static inline size_t resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t all = 0, pages = SIZE_MAX / PAGE;

	if (file && fscanf(file, "%zu %zu", &all, &pages) != 2)
		pages = SIZE_MAX / PAGE;
	if (file)
		fclose(file);
	return pages * PAGE;
}

/* Makes the environment unreadable. A program can move it to memory that becomes far (it does, to change its title). So
   farpage's threads must not read it. */
static inline void hide_environment(void)
{
	environ = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Forks a child with a deadline of its own, because a child that hangs would hang the test. */
static inline pid_t fork_child(void)
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(120);
	}
	return child;
}

/* Returns the exit status of @child, 1000 + the number of the signal that ended it, or -1. */
static inline int wait_for(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Calls @work in a child, which exits with its result. Returns as wait_for(). */
static inline int in_child(int (*work)(void))
{
	pid_t child = fork_child();
	if (child == 0)
		_exit(work());
	return wait_for(child);
}

/* Returns true if @address can be read. Asks the kernel with write(2), which reports EFAULT instead of a signal. */
static inline bool readable(const void *address)
{
	int fds[2];

	if (pipe(fds))
		return false;
	bool yes = write(fds[1], address, 1) == 1;
	close(fds[0]);
	close(fds[1]);
	return yes;
}

/* Returns true if @address can be written, and writes a byte there. Asks the kernel with read(2), which also reports
   EFAULT. */
static inline bool writable(void *address)
{
	int fds[2];

	if (pipe(fds))
		return false;
	bool yes = write(fds[1], "w", 1) == 1 && read(fds[0], address, 1) == 1;
	close(fds[0]);
	close(fds[1]);
	return yes;
}

#endif
