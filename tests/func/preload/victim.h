/*
 * victim: what the programs of these tests share. They are ordinary programs that check themselves and print TAP; each
 * must pass on a plain kernel too, which is how we know that what they ask for is what Linux does. SIZE_MB in the
 * environment says how much memory to use.
 */
#ifndef TESTS_FUNC_PRELOAD_VICTIM_H
#define TESTS_FUNC_PRELOAD_VICTIM_H
#include "tests/mix.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define MB ((size_t)1 << 20)

/* Bytes to use: SIZE_MB, or 64 MiB. */
static inline size_t victim_size(void)
{
	const char *text = getenv("SIZE_MB");
	return (text ? (size_t)atol(text) : 64) * MB;
}

/* Every page differs from every other and from those of other seeds, in its first and last words. */
static inline void fill(void *memory, size_t length, uint64_t seed)
{
	for (size_t at = 0; at < length; at += PAGE) {
		uint64_t *words = (uint64_t *)((char *)memory + at);
		words[0] = mix(seed + at);
		words[511] = ~words[0];
	}
}

/* Pages that are not as fill() left them, were it done with @memory at @offset. */
static inline size_t wrong(const void *memory, size_t length, uint64_t seed, size_t offset)
{
	size_t count = 0;
	for (size_t at = 0; at < length; at += PAGE) {
		const uint64_t *words = (const uint64_t *)((const char *)memory + at);
		count += words[0] != mix(seed + offset + at) || words[511] != ~words[0];
	}
	return count;
}

static inline size_t not_zero(const void *memory, size_t length)
{
	const uint64_t *words = memory;
	size_t count = 0;
	for (size_t i = 0; i < length / sizeof *words; i++)
		count += words[i] != 0;
	return count;
}

static inline char *map_memory(size_t length)
{
	char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		printf("Bail out! cannot map %zu bytes\n", length);
		exit(EXIT_FAILURE);
	}
	return memory;
}

/* Whether @address can be read; asks the kernel, so that the answer is no signal. */
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

#endif
