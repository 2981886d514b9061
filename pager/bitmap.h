/*
 * bitmap: sets and reads bits in an array of 64-bit words. Any thread may call these functions without a lock,
 * because they change a word atomically: bits that another thread sets in the same word are not lost.
 */
#ifndef PAGER_BITMAP_H
#define PAGER_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BITMAP_WORD 64u

/* Returns the bytes of a bitmap with room for @bits bits. */
static inline size_t bitmap_bytes(uint64_t bits)
{
	return (bits + BITMAP_WORD - 1) / BITMAP_WORD * sizeof(uint64_t);
}

static inline void bitmap_set(uint64_t *words, uint64_t first, uint64_t count, bool value)
{
	while (count) {
		unsigned shift = first % BITMAP_WORD;
		uint64_t bits = BITMAP_WORD - shift < count ? BITMAP_WORD - shift : count;
		uint64_t mask = (bits == BITMAP_WORD ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1) << shift;
		uint64_t *word = &words[first / BITMAP_WORD];

		if (value)
			__atomic_fetch_or(word, mask, __ATOMIC_RELAXED);
		else
			__atomic_fetch_and(word, ~mask, __ATOMIC_RELAXED);
		first += bits;
		count -= bits;
	}
}

static inline bool bitmap_has(const uint64_t *words, uint64_t bit)
{
	return __atomic_load_n(&words[bit / BITMAP_WORD], __ATOMIC_RELAXED) >> (bit % BITMAP_WORD) & 1;
}

#endif
