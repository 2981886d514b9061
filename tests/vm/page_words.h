/* page_words: contents of a page. Each word depends on the seed of the page and on the position of the word. */
#ifndef TESTS_VM_PAGE_WORDS_H
#define TESTS_VM_PAGE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_WORDS (4096 / sizeof(uint64_t))

static inline uint64_t page_word(uint64_t seed, size_t index)
{
	return seed + index * UINT64_C(0x9e3779b97f4a7c15);
}

static inline void page_words_fill(uint64_t *words, uint64_t seed)
{
	for (size_t i = 0; i < PAGE_WORDS; i++)
		words[i] = page_word(seed, i);
}

static inline bool page_words_are(const uint64_t *words, uint64_t seed)
{
	for (size_t i = 0; i < PAGE_WORDS; i++)
		if (words[i] != page_word(seed, i))
			return false;
	return true;
}

#endif
