/*
 * far_published: what a queue publishes of a piece, in a word, and what a window is. See far_queue.h.
 *
 *     page << 18 | low 8 bits of the version << 10 | pages << 1 | whether it is a write      0: none
 *
 * Of the version the low bits will do: nothing is under way for as long as a chunk's slots take to change 256 times,
 * for each change waits for what went by those before.
 */
#ifndef CLIENT_FAR_PUBLISHED_H
#define CLIENT_FAR_PUBLISHED_H

#include "farpage/store.h"

#include <stdbool.h>
#include <stdint.h>

#define PUBLISHED_NONE UINT64_C(0)
_Static_assert(STORE_RUN_MAX < 1 << 9, "a run has its place");

static inline uint64_t published_make(uint64_t page, uint32_t count, uint32_t version, bool write)
{
	return page << 18 | (uint64_t)(version & 0xff) << 10 | (uint64_t)count << 1 | write;
}

static inline bool published_is_write(uint64_t word)
{
	return word & 1;
}

static inline bool published_is_of(uint64_t word, uint32_t version)
{
	return (word >> 10 & 0xff) == (version & 0xff);
}

/* Whether it has pages of [@page, @page + @count). */
static inline bool published_overlaps(uint64_t word, uint64_t page, uint64_t count)
{
	uint64_t first = word >> 18, length = word >> 1 & 0x1ff;

	return first < page + count && page < first + length;
}

#endif
