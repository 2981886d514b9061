/*
 * far_published: the format of the word in which a queue publishes a piece. The rebuild window has the same format.
 * See far_queue.h.
 *
 *     bits 18-63  first page
 *     bits 10-17  low 8 bits of the version of the chunk's slots
 *     bits 1-9    number of pages
 *     bit 0       1 for a write, 0 for a read
 *
 * 0 means that nothing is published. Eight bits of the version are enough. Each change of slots waits for the pieces
 * of earlier versions, so the version cannot rise by 256 while a piece is in flight.
 */
#ifndef CLIENT_FAR_PUBLISHED_H
#define CLIENT_FAR_PUBLISHED_H

#include "client/store.h"

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

/* Returns true if the word names a page of [@page, @page + @count). */
static inline bool published_overlaps(uint64_t word, uint64_t page, uint64_t count)
{
	uint64_t first = word >> 18, length = word >> 1 & 0x1ff;

	return first < page + count && page < first + length;
}

#endif
