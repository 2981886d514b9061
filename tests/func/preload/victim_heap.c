/* The malloc family, with blocks of all sizes. Most of the heap is far. */
#include "tests/func/preload/victim.h"

#include <malloc.h>
#include <stdalign.h>

#define BLOCKS 4096

static size_t size;

static uint8_t byte_of(size_t block, size_t at)
{
	return (uint8_t)(mix(block) >> (at % 8 * 8)) ^ (uint8_t)(at >> 12);
}

/* Writes every 61st byte of a block, and the last. */
static void mark(uint8_t *bytes, size_t block, size_t length)
{
	for (size_t at = 0; at < length; at += 61)
		bytes[at] = byte_of(block, at);
	bytes[length - 1] = byte_of(block, length - 1);
}

/* Returns true if the bytes are as mark() wrote them. Looks at the last byte only if @with_last. */
static bool marked(const uint8_t *bytes, size_t block, size_t length, bool with_last)
{
	for (size_t at = 0; at < length; at += 61)
		if (bytes[at] != byte_of(block, at) && (with_last || at != length - 1))
			return false;
	return !with_last || bytes[length - 1] == byte_of(block, length - 1);
}

/* Returns a small, medium or large length. BLOCKS of them have about `size` bytes in all. */
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

static void blocks_of_all_sizes_keep_their_contents(void)
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
	ok(!unclean, "calloc gives zeroes, also in memory that was used before");
	for (unsigned i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

static void realloc_grows_and_shrinks_a_block(void)
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
	ok(!bad, "a block that realloc doubles beyond local memory keeps its contents");
	block = realloc(block, size / 2);
	ok(!wrong(block, size / 2, 1, 0), "a block that realloc shrinks keeps its contents");
	ok(realloc(block, 0) == NULL, "realloc to 0 bytes returns NULL");
}

/* A block that moves is copied, so far pages come back. Without farpage, the kernel moves them without a copy. */
static void a_block_that_grows_in_small_steps_seldom_moves(void)
{
	const size_t step = 64 << 10, first = 2 * step;
	size_t moves = 0;
	char *block = malloc(first);

	fill(block, first, 2);
	for (size_t length = first; length < size / 4; length += step) {
		char *longer = realloc(block, length + step);

		moves += longer != block;
		block = longer;
		fill(block + length, step, 2 + length);
	}
	ok(!getenv("FARPAGE_LOCAL") || moves <= 16, "a block that grows in small steps seldom moves (%zu times)",
	   moves);
	size_t bad = wrong(block, first, 2, 0);
	for (size_t at = first; at < size / 4; at += step)
		bad += wrong(block + at, step, 2 + at, 0);
	ok(!bad, "a block that grows in small steps keeps its contents");
	free(block);
}

static void blocks_are_aligned_as_asked(void)
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
	ok(!bad, "posix_memalign and aligned_alloc align blocks to up to 64 MiB");
	block = NULL;
	ok(posix_memalign(&block, 24, 8) == EINVAL && posix_memalign(&block, 4, 8) == EINVAL && !block,
	   "posix_memalign refuses alignments of 24 and 4 with EINVAL");
	block = memalign(odd, 100);
	ok(block && (uintptr_t)block % 128 == 0, "memalign rounds an alignment of 100 up to 128");
	free(block);
	block = valloc(10);
	ok(block && (uintptr_t)block % PAGE == 0, "valloc aligns a block to a page");
	free(block);
	block = pvalloc(10);
	ok(block && (uintptr_t)block % PAGE == 0 && malloc_usable_size(block) >= PAGE,
	   "pvalloc aligns a block to a page and gives a whole page");
	free(block);
	for (unsigned i = 1; i < 200; i++) {
		block = malloc(i);
		bad += (uintptr_t)block % alignof(max_align_t) && i >= alignof(max_align_t);
		bad += malloc_usable_size(block) < i;
		free(block);
	}
	ok(!bad, "malloc aligns blocks for any type and gives at least the requested bytes");
}

static void impossible_sizes_are_refused(void)
{
	volatile size_t huge = SIZE_MAX / 2;

	errno = 0;
	ok(!malloc(huge) && errno == ENOMEM, "malloc of too much fails with ENOMEM");
	errno = 0;
	ok(!calloc(huge, 4) && errno == ENOMEM, "calloc of a size that overflows fails with ENOMEM");
	char *volatile block = malloc(100); /* volatile: the compiler takes a block as freed even if realloc fails */
	errno = 0;
	ok(!reallocarray(block, huge, 4) && errno == ENOMEM, "reallocarray of a size that overflows fails with ENOMEM");
	ok(!realloc(block, huge), "realloc of too much returns NULL");
	memset(block, 1, 100);
	free(block);
	errno = 77;
	free(malloc(size));
	free(NULL);
	ok(errno == 77, "free does not change errno");
	ok(malloc_usable_size(NULL) == 0, "malloc_usable_size of NULL is 0");
	block = malloc(0);
	ok(block != NULL, "malloc of 0 bytes returns a block");
	free(block);
	block = strdup("from libc");
	ok(!strcmp(block, "from libc"), "strdup in the C library returns a copy of the text");
	free(block);
}

int main(void)
{
	size = victim_size();
	blocks_of_all_sizes_keep_their_contents();
	realloc_grows_and_shrinks_a_block();
	a_block_that_grows_in_small_steps_seldom_moves();
	blocks_are_aligned_as_asked();
	impossible_sizes_are_refused();
	return tap_done();
}
