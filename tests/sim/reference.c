/* reference: see reference.h. */
#include "tests/sim/reference.h"

#include "client/store.h"
#include "tests/sim/world.h"

#include <stdio.h>
#include <string.h>

#define WORDS (STORE_PAGE / sizeof(uint64_t))

void reference_open(struct reference *reference, unsigned store, uint64_t pages)
{
	*reference = (struct reference){.store = store, .pages = pages};
	reference->page = world_memory(pages * sizeof *reference->page);
}

/* Each word of a page is STEP more than the word before. In version 0 all words are zero. */
#define STEP UINT64_C(0x100000000000000b)

static uint64_t word_first(const struct reference *reference, uint64_t page, uint32_t version)
{
	return (uint64_t)(reference->store + 1) << 56 | page << 32 | version;
}

/*
 * Makes four independent words at a time, because a chain of dependent words takes twice as long. A history spends most
 * of its time on the bytes of pages.
 */
static void words_fill(uint64_t *words, uint64_t word, uint64_t step)
{
	for (unsigned i = 0; i < WORDS; i += 4, word += 4 * step) {
		words[i] = word;
		words[i + 1] = word + step;
		words[i + 2] = word + 2 * step;
		words[i + 3] = word + 3 * step;
	}
}

static bool words_are(const uint64_t *words, uint64_t word, uint64_t step)
{
	uint64_t other = 0;

	for (unsigned i = 0; i < WORDS; i += 4, word += 4 * step)
		other |= (words[i] ^ word) | (words[i + 1] ^ (word + step)) | (words[i + 2] ^ (word + 2 * step)) |
			 (words[i + 3] ^ (word + 3 * step));
	return !other;
}

void reference_fill(const struct reference *reference, uint64_t page, uint32_t version, void *data)
{
	words_fill(data, version ? word_first(reference, page, version) : 0, version ? STEP : 0);
}

uint32_t reference_next(struct reference *reference, uint64_t page)
{
	return world_chance(16) ? 0 : ++reference->page[page].written;
}

void reference_settle(struct reference *reference, uint64_t page, uint32_t version)
{
	struct reference_page *p = &reference->page[page];

	p->version = version;
	p->first = p->written + 1;
	p->torn = p->zeroes = false;
}

void reference_doubt(struct reference *reference, uint64_t page, uint32_t version)
{
	struct reference_page *p = &reference->page[page];

	/*
	 * A page has one writer at a time, so every version after the last completed write belongs to a failed write.
	 */
	p->torn = true;
	p->zeroes |= !version;
}

bool reference_allows(const struct reference *reference, uint64_t page, const void *data)
{
	const struct reference_page *p = &reference->page[page];
	uint32_t version = p->version;
	uint64_t word;

	memcpy(&word, data, sizeof word);
	if (p->torn && !word && p->zeroes)
		version = 0;
	else if (p->torn && (uint32_t)word >= p->first && (uint32_t)word <= p->written)
		version = (uint32_t)word;
	return words_are(data, version ? word_first(reference, page, version) : 0, version ? STEP : 0);
}

const char *reference_name(const void *data, char text[96])
{
	uint64_t word;

	memcpy(&word, data, sizeof word);
	if (word)
		snprintf(text, 96, "page %u version %u of store %u", (unsigned)(word >> 32 & 0xffffff), (uint32_t)word,
			 (unsigned)(word >> 56) - 1);
	else
		snprintf(text, 96, "zeroes");
	return text;
}
