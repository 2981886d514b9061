/* Heap: the malloc family, with blocks of all sizes living far from each other and from here. */
#include "tests/func/preload/victim.h"
#include <malloc.h>
#include <stdalign.h>

#define BLOCKS 4096

static size_t size;

static uint8_t byte_of(size_t block, size_t at)
{
	return (uint8_t)(mix(block) >> (at % 8 * 8)) ^ (uint8_t)(at >> 12);
}

/* A byte every 61, and the last. */
static void mark(uint8_t *bytes, size_t block, size_t length)
{
	for (size_t at = 0; at < length; at += 61)
		bytes[at] = byte_of(block, at);
	bytes[length - 1] = byte_of(block, length - 1);
}

static bool marked(const uint8_t *bytes, size_t block, size_t length, bool with_last)
{
	for (size_t at = 0; at < length; at += 61)
		if (bytes[at] != byte_of(block, at) && (with_last || at != length - 1))
			return false;
	return !with_last || bytes[length - 1] == byte_of(block, length - 1);
}

/* Small, middling and large ones, with `size` bytes in all on average. */
static size_t random_length(uint64_t *state)
{
	uint64_t random = mix(++*state), kind = random % 100, mean = size / BLOCKS;
	random >>= 8;
	if (kind < 60)
		return 1 + random % 1000;
	if (kind < 95)
		return 1 + random % (mean * 2);
	return 1 + random % (mean * 20);
}

static void test_random(void)
{
	static uint8_t *blocks[BLOCKS];
	static size_t lengths[BLOCKS];
	uint64_t state = 42;
	size_t bad = 0, unclean = 0;
	for (unsigned step = 0; step < 6 * BLOCKS; step++) {
		size_t i = mix(++state) % BLOCKS, length = random_length(&state);
		unsigned what = mix(++state) % 4;
		if (blocks[i] && !marked(blocks[i], i, lengths[i], true))
			bad++;
		if (what == 0) {
			free(blocks[i]);
			blocks[i] = NULL;
			continue;
		}
		if (what == 1) {
			size_t kept = blocks[i] ? (lengths[i] < length ? lengths[i] : length) : 0;
			bool last = kept == lengths[i];
			blocks[i] = realloc(blocks[i], length);
			if (kept && !marked(blocks[i], i, kept, last))
				bad++;
		} else {
			free(blocks[i]);
			blocks[i] = what == 2 ? malloc(length) : calloc(1, length);
			if (what == 3)
				for (size_t at = 0; at < length; at++)
					unclean += blocks[i][at] != 0;
		}
		lengths[i] = length;
		mark(blocks[i], i, length);
	}
	ok(!bad, "blocks keep their contents over malloc, realloc and free");
	ok(!unclean, "calloc gives zeroes, also where something was");
	for (unsigned i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

static void test_growing(void)
{
	size_t length = PAGE;
	char *block = malloc(length);
	size_t bad = 0;
	fill(block, length, 1);
	while (length < size) {
		size_t longer = length * 2 < size ? length * 2 : size;
		block = realloc(block, longer);
		bad += wrong(block, length, 1, 0);
		fill(block, longer, 1);
		length = longer;
	}
	ok(!bad, "a block that doubles until it is larger than local memory");
	block = realloc(block, size / 2);
	ok(!wrong(block, size / 2, 1, 0), "and halves");
	ok(realloc(block, 0) == NULL, "realloc to nothing frees");
}

static void test_alignment(void)
{
	size_t bad = 0;
	volatile size_t odd = 100;
	void *block = NULL;
	for (size_t alignment = sizeof(void *); alignment <= 64 * MB; alignment *= 2) {
		for (size_t length = 1; length <= MB; length *= 1024) {
			if (posix_memalign(&block, alignment, length) || (uintptr_t)block % alignment)
				bad++;
			memset(block, 1, length);
			free(block);
			block = aligned_alloc(alignment, length);
			if (!block || (uintptr_t)block % alignment)
				bad++;
			memset(block, 1, length);
			block = realloc(block, length * 2);
			bad += ((char *)block)[length - 1] != 1;
			free(block);
		}
	}
	ok(!bad, "posix_memalign and aligned_alloc, up to 64 MiB");
	block = NULL;
	ok(posix_memalign(&block, 24, 8) == EINVAL && posix_memalign(&block, 4, 8) == EINVAL && !block,
	   "posix_memalign refuses what is no alignment");
	block = memalign(odd, 100);
	ok(block && (uintptr_t)block % 128 == 0, "memalign rounds up");
	free(block);
	block = valloc(10);
	ok(block && (uintptr_t)block % PAGE == 0, "valloc");
	free(block);
	block = pvalloc(10);
	ok(block && (uintptr_t)block % PAGE == 0 && malloc_usable_size(block) >= PAGE, "pvalloc");
	free(block);
	for (unsigned i = 1; i < 200; i++) {
		block = malloc(i);
		bad += (uintptr_t)block % alignof(max_align_t) && i >= alignof(max_align_t);
		bad += malloc_usable_size(block) < i;
		free(block);
	}
	ok(!bad, "malloc aligns for any type, and gives no less than asked for");
}

static void test_refusals(void)
{
	volatile size_t huge = SIZE_MAX / 2;
	errno = 0;
	ok(!malloc(huge) && errno == ENOMEM, "malloc of too much");
	errno = 0;
	ok(!calloc(huge, 4) && errno == ENOMEM, "calloc that overflows");
	char *volatile block = malloc(100); /* volatile: the compiler believes a refused block to be gone */
	errno = 0;
	ok(!reallocarray(block, huge, 4) && errno == ENOMEM, "reallocarray that overflows");
	ok(!realloc(block, huge), "realloc of too much leaves the block");
	memset(block, 1, 100);
	free(block);
	errno = 77;
	free(malloc(size));
	free(NULL);
	ok(errno == 77, "errno is left alone");
	ok(malloc_usable_size(NULL) == 0, "nothing has no size");
	block = malloc(0);
	ok(block != NULL, "malloc of nothing gives something");
	free(block);
	block = strdup("from libc");
	ok(!strcmp(block, "from libc"), "strdup");
	free(block);
}

int main(void)
{
	size = victim_size();
	test_random();
	test_growing();
	test_alignment();
	test_refusals();
	return tap_done();
}
