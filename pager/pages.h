/*
 * pages: what is known of each page of the window, in one atomic 32-bit word: where its contents are, some marks,
 * and, while they are in one of farpage's buffers, in which frame.
 *
 * Theory of operation. The handler, the evictor and the program's own threads (discarding) meet only here. Whoever
 * moves a page from one state to another by compare-and-swap owns it until the next move; pages_moves[] in pages.c
 * says which moves exist, and every move is checked against it.
 *
 *   untouched --fault--> fetching --> resident --evictor--> evicting --+--> buffered --frame reused--> far
 *                          ^  ^                                        +--> far (clean)   +--> untouched (all zero)
 *                          |  +--fault-- far                  buffered --fault--> returning --> resident
 *   lost: the donor died; touching it is SIGBUS.              any settled state --discard--> discarding --> untouched
 *
 * "Resident" covers clean and dirty: a page is found clean when it has left, by comparing it with the checksum of
 * what its donor has, which makes tracking of writes (write-protection and its faults) unnecessary.
 */
#ifndef PAGER_PAGES_H
#define PAGER_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum page_state {
	PAGE_UNTOUCHED, /* zeroes; nowhere. Must be 0: fresh tables are all untouched */
	PAGE_RESIDENT,  /* in the program's memory */
	PAGE_EVICTING,  /* the evictor is taking it out */
	PAGE_BUFFERED,  /* out, and still in frame `frame` of the victim buffer */
	PAGE_RETURNING, /* the handler is copying frame `frame` back */
	PAGE_FAR,       /* on its donors only */
	PAGE_FETCHING,  /* the handler is bringing it in (or filling it with zeroes) */
	PAGE_DISCARDING,
	PAGE_LOST,
	PAGE_STATES
};

#define PAGE_QUEUED (1u << 4)   /* stands in the residents' queue */
#define PAGE_WRITING (1u << 5)  /* a write of it to the donors is in flight */
#define PAGE_SNAPSHOT (1u << 6) /* a forked child may still need the contents its donors have now */
#define PAGE_MARKS (PAGE_QUEUED | PAGE_WRITING | PAGE_SNAPSHOT)
#define PAGE_FRAME_MAX ((1u << 24) - 1)

struct pages {
	_Atomic uint32_t *words;
	uint64_t count;
};

int pages_open(struct pages *pages, uint64_t count);
void pages_close(struct pages *pages);
/* Bytes of memory that the words of the first @count pages take: only what was looked at is there. */
uint64_t pages_memory(const struct pages *pages, uint64_t count);

static inline uint32_t pages_load(const struct pages *pages, uint64_t page)
{
	return atomic_load_explicit(&pages->words[page], memory_order_acquire);
}

static inline enum page_state page_state(uint32_t word)
{
	return (enum page_state)(word & 0xf);
}

static inline uint32_t page_frame(uint32_t word)
{
	return word >> 8;
}

const char *page_state_name(enum page_state state);

/*
 * Moves @page from state @from (in which @frame must be its frame, where that state has one) to @to with @to_frame,
 * keeping its marks. False, and nothing done, when it is in another state by now. The move must be a legal one.
 */
bool pages_move(struct pages *pages, uint64_t page, enum page_state from, enum page_state to, uint32_t to_frame);

/* Sets or clears marks, whatever the state; returns the word as it was. */
uint32_t pages_mark(struct pages *pages, uint64_t page, uint32_t marks);
uint32_t pages_unmark(struct pages *pages, uint64_t page, uint32_t marks);

#endif
