#include "pager/pages.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

#define TO(state) (1u << PAGE_##state)

/* The legal moves: for each state, the states that a page may move to. */
static const uint16_t pages_moves[PAGE_STATES] = {
    [PAGE_UNTOUCHED] = TO(FILLING) | TO(RESIDENT) | TO(DISCARDING), /* RESIDENT: present when the pager started */
    [PAGE_RESIDENT] = TO(EVICTING) | TO(DISCARDING) | TO(FILLING),  /* FILLING: absent, or being unprotected */
    [PAGE_EVICTING] = TO(BUFFERED) | TO(FAR) | TO(UNTOUCHED) | TO(RESIDENT), /* RESIDENT: could not be taken */
    [PAGE_BUFFERED] = TO(RETURNING) | TO(FAR) | TO(DISCARDING) | TO(LOST),
    [PAGE_RETURNING] = TO(RESIDENT) | TO(BUFFERED) | TO(UNTOUCHED),
    [PAGE_FAR] = TO(FETCHING) | TO(DISCARDING),
    [PAGE_FETCHING] = TO(RESIDENT) | TO(FAR) | TO(LOST),
    [PAGE_FILLING] = TO(RESIDENT) | TO(UNTOUCHED),
    [PAGE_DISCARDING] = TO(UNTOUCHED),
    [PAGE_LOST] = TO(DISCARDING),
};

static const char *const page_state_names[] = {
    [PAGE_UNTOUCHED] = "untouched", [PAGE_RESIDENT] = "resident",   [PAGE_EVICTING] = "evicting",
    [PAGE_BUFFERED] = "buffered",   [PAGE_RETURNING] = "returning", [PAGE_FAR] = "far",
    [PAGE_FETCHING] = "fetching",   [PAGE_FILLING] = "filling",     [PAGE_DISCARDING] = "discarding",
    [PAGE_LOST] = "lost",
};
_Static_assert(sizeof page_state_names / sizeof page_state_names[0] == PAGE_STATES, "a name for each state");

int pages_open(struct pages *pages, uint64_t count)
{
	/* One table for the whole window. It is sparse: only accessed parts use memory. */
	void *words = mmap(NULL, count * sizeof(uint32_t), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (words == MAP_FAILED)
		return -errno;
	madvise(words, count * sizeof(uint32_t), MADV_DONTFORK);
	madvise(words, count * sizeof(uint32_t), MADV_NOHUGEPAGE);
	*pages = (struct pages){.words = words, .count = count};
	return 0;
}

void pages_close(struct pages *pages)
{
	if (pages->words)
		munmap(pages->words, pages->count * sizeof(uint32_t));
	pages->words = NULL;
}

#define PORTION (4096 / sizeof(uint32_t)) /* words in a page of memory */
#define PORTIONS 256

/* The word of @page must be the first of its part of the table. Returns how many pages from @page on have their words
   in parts that are not in memory. */
static uint64_t absent_run(const struct pages *pages, uint64_t page, uint64_t end)
{
	unsigned char in_core[PORTIONS];
	const uint64_t limit = (end - page) / PORTION;
	uint64_t run = 0, next = 0;

	/* Asks for a single part first, because that part usually is in memory. */
	for (uint64_t asked = 1; run == next && run < limit; asked = PORTIONS) {
		next = asked < limit - run ? run + asked : limit;
		if (mincore((void *)(uintptr_t)(pages->words + page + run * PORTION), (next - run) * 4096, in_core))
			break;
		for (uint64_t first = run; run < next && !(in_core[run - first] & 1);)
			run++;
	}
	return run * PORTION;
}

uint64_t pages_next_known(const struct pages *pages, uint64_t page, uint64_t end)
{
	while (page < end) {
		uint64_t run = page % PORTION == 0 ? absent_run(pages, page, end) : 0;

		if (!run && pages_load(pages, page))
			break;
		page += run ? run : 1;
	}
	return page < end ? page : end;
}

uint64_t pages_table_memory(const void *table, uint64_t length)
{
	unsigned char in_core[1024];
	const uint64_t portion = sizeof in_core * 4096;
	uint64_t present = 0;

	for (uint64_t offset = 0; offset < length; offset += portion) {
		uint64_t size = length - offset < portion ? length - offset : portion;

		if (mincore((char *)(uintptr_t)table + offset, size, in_core))
			return length;
		for (uint64_t i = 0; i < (size + 4095) / 4096; i++)
			present += in_core[i] & 1;
	}
	return present * 4096;
}

uint64_t pages_memory(const struct pages *pages, uint64_t count)
{
	return pages_table_memory(pages->words, count * sizeof(uint32_t));
}

bool pages_state_is_far(enum page_state state)
{
	switch (state) {
	case PAGE_EVICTING:
	case PAGE_BUFFERED:
	case PAGE_RETURNING:
	case PAGE_FAR:
	case PAGE_FETCHING:
	case PAGE_LOST:
		return true;
	case PAGE_UNTOUCHED:
	case PAGE_RESIDENT:
	case PAGE_FILLING:
	case PAGE_DISCARDING: /* the discarding thread empties the page, so a child may read zeroes there */
	case PAGE_STATES:
		break;
	}
	return false;
}

const char *pages_state_name(enum page_state state)
{
	return (unsigned)state < PAGE_STATES ? page_state_names[state] : "?";
}

bool pages_move(struct pages *pages, uint64_t page, enum page_state from, enum page_state to, uint32_t to_frame)
{
	assert(page < pages->count);
	assert(pages_moves[from] & (1u << to));
	uint32_t word = atomic_load_explicit(&pages->words[page], memory_order_acquire);
	do {
		if (page_state(word) != from || (to == PAGE_EVICTING && (word & PAGE_KEPT)))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&pages->words[page], &word,
							(word & PAGE_MARKS) | (uint32_t)to | to_frame << 8,
							memory_order_acq_rel, memory_order_acquire));
	return true;
}

bool pages_move_from(struct pages *pages, uint64_t page, uint32_t word, enum page_state to, uint32_t to_frame)
{
	assert(page < pages->count);
	assert(pages_moves[page_state(word)] & (1u << to));
	if (to == PAGE_EVICTING && (word & PAGE_KEPT))
		return false;
	return atomic_compare_exchange_strong_explicit(&pages->words[page], &word,
						       (word & PAGE_MARKS) | (uint32_t)to | to_frame << 8,
						       memory_order_acq_rel, memory_order_acquire);
}

uint32_t pages_mark(struct pages *pages, uint64_t page, uint32_t marks)
{
	return atomic_fetch_or_explicit(&pages->words[page], marks & PAGE_MARKS, memory_order_acq_rel);
}

uint32_t pages_unmark(struct pages *pages, uint64_t page, uint32_t marks)
{
	return atomic_fetch_and_explicit(&pages->words[page], ~(marks & PAGE_MARKS), memory_order_acq_rel);
}
