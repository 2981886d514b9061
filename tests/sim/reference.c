/* reference: see reference.h. */
#include "tests/sim/reference.h"

#include "farpage/store.h"
#include "tests/sim/world.h"

#include <stdio.h>
#include <string.h>

#define WORDS (STORE_PAGE / sizeof(uint64_t))

void reference_open(struct reference *reference, unsigned store, uint64_t pages)
{
	*reference = (struct reference){.store = store, .pages = pages};
	reference->page = world_memory(pages * sizeof *reference->page);
}

void reference_fill(const struct reference *reference, uint64_t page, uint32_t version, void *data)
{
	uint64_t word = (uint64_t)(reference->store + 1) << 56 | page << 32 | version;
	uint64_t *words = data;

	if (!version) {
		memset(data, 0, STORE_PAGE);
		return;
	}
	for (unsigned i = 0; i < WORDS; i++)
		words[i] = word + i * UINT64_C(0x100000000000000b);
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

	/* A page has one writer at a time: every version since the last that was completed is one that failed. */
	p->torn = true;
	p->zeroes |= !version;
}

bool reference_allows(const struct reference *reference, uint64_t page, const void *data)
{
	static uint64_t wanted[WORDS];
	const struct reference_page *p = &reference->page[page];
	uint32_t version = p->version;
	uint64_t word;

	memcpy(&word, data, sizeof word);
	if (p->torn && !word && p->zeroes)
		version = 0;
	else if (p->torn && (uint32_t)word >= p->first && (uint32_t)word <= p->written)
		version = (uint32_t)word;
	reference_fill(reference, page, version, wanted);
	return !memcmp(wanted, data, STORE_PAGE);
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
