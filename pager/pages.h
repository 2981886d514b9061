/*
 * pages: what is known of each page of the window, in one atomic 32-bit word: where its contents are, some marks,
 * and, while they are in one of farpage's buffers, in which frame.
 *
 * Theory of operation. The handler, the evictor and the program's own threads (discarding) meet only here. Whoever
 * moves a page from one state to another by compare-and-swap owns it until the next move; pages_moves[] in pages.c
 * says which moves exist, and every move is checked against it.
 *
 *   untouched --fault--> filling ---> resident --evictor--> evicting --+--> buffered --frame reused--> far
 *         far --fault--> fetching --> resident                         +--> far (clean)   +--> untouched (all zero)
 *                                                             buffered --fault--> returning --> resident
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
	PAGE_FETCHING,  /* the handler is bringing it in from its donors */
	PAGE_FILLING,   /* the handler is filling it with zeroes: what donors may still keep is not its contents */
	PAGE_DISCARDING,
	PAGE_LOST,
	PAGE_STATES
};

#define PAGE_QUEUED (1u << 4)   /* stands in the residents' queue */
#define PAGE_WRITING (1u << 5)  /* a write of it to the donors is in flight */
#define PAGE_SNAPSHOT (1u << 6) /* a forked child may still need the contents its donors have now */
#define PAGE_KEPT (1u << 7)     /* must not leave: see keep.h */
#define PAGE_MARKS (PAGE_QUEUED | PAGE_WRITING | PAGE_SNAPSHOT | PAGE_KEPT)
#define PAGE_FRAME_MAX ((1u << 24) - 1)

struct pages {
	_Atomic uint32_t *words;
	uint64_t count;
};

int pages_open(struct pages *pages, uint64_t count);
void pages_close(struct pages *pages);
/* Bytes of memory that the words of the first @count pages take: only what was looked at is there. */
uint64_t pages_memory(const struct pages *pages, uint64_t count);

/* The first page from @page on of which something is known (its word is not 0), or @end. Of wide stretches that nobody
   used, as in a program's reservations, the words are not looked at: that would bring them into memory. */
uint64_t pages_next_known(const struct pages *pages, uint64_t page, uint64_t end);

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

/* Returns true if a page in @state has contents that are not in the program's memory: a child forked now lacks them. */
bool page_state_is_far(enum page_state state);
const char *page_state_name(enum page_state state);

/*
 * Moves @page from state @from, whatever its frame and marks, to @to with @to_frame; keeps the marks. Returns false,
 * and does nothing, when the page is in another state by now, or would be evicted and is kept. The move must be a legal
 * one. For callers whose decision rests on the state alone.
 */
bool pages_move(struct pages *pages, uint64_t page, enum page_state from, enum page_state to, uint32_t to_frame);

/*
 * The same if the page's word is still @word to the last bit. For callers whose decision rests on its frame or its
 * marks: the page may have gone and come back to the same state since they looked.
 */
bool pages_move_from(struct pages *pages, uint64_t page, uint32_t word, enum page_state to, uint32_t to_frame);

/* Sets or clears marks, whatever the state; returns the word as it was. */
uint32_t pages_mark(struct pages *pages, uint64_t page, uint32_t marks);
uint32_t pages_unmark(struct pages *pages, uint64_t page, uint32_t marks);

#endif
