/*
 * pages: one atomic 32-bit word for each page of the window. The word has the page's state and its marks. While the
 * contents are in one of farpage's buffers, the word also has their frame.
 *
 * Theory of operation. The handler, the evictor and the program's discarding threads meet only here. A thread that
 * moves a page to an in-between state, by compare-and-swap, owns the page until the next move. The table pages_moves[]
 * in pages.c lists the legal moves, and every move is checked against it.
 *
 *   untouched --fault--> filling ---> resident --evictor--> evicting --+--> buffered --frame reused--> far
 *         far --fault--> fetching --> resident                         +--> untouched (all zero)
 *                                                             buffered --fault--> returning --> resident
 *   lost: the donor died; touching it is SIGBUS.              any settled state --discard--> discarding --> untouched
 *
 * Resident pages may be clean or dirty. The evictor finds this out after the page has left: it compares the page with
 * the checksum of the donors' contents. That takes 0.2 to 0.3 us. Pages that were rewritten with the same contents are
 * thus found clean, too. Tracking writes instead (UFFD_FEATURE_WP_ASYNC, PAGEMAP_SCAN) has three drawbacks:
 * - The first write of each clean page costs a fault.
 * - A page cannot be dropped without a race, because the protection is asynchronous.
 * - Scattered pages need a call each.
 */
#ifndef PAGER_PAGES_H
#define PAGER_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum page_state {
	PAGE_UNTOUCHED, /* zeroes, stored nowhere; must be 0, because fresh tables are all untouched */
	PAGE_RESIDENT,  /* in the program's memory */
	PAGE_EVICTING,  /* the evictor is taking it out */
	PAGE_BUFFERED,  /* out, and still in its frame of the victim buffer */
	PAGE_RETURNING, /* the handler is copying it back from its frame */
	PAGE_FAR,       /* on its donors only */
	PAGE_FETCHING,  /* the handler is bringing it in from its donors */
	PAGE_FILLING,   /* the handler is filling it with zeroes; its donors may still have old contents */
	PAGE_DISCARDING,
	PAGE_LOST,
	PAGE_STATES
};

#define PAGE_QUEUED (1u << 4)   /* is in a queue of residents */
#define PAGE_WRITING (1u << 5)  /* a write of the page to the donors is in flight */
#define PAGE_SNAPSHOT (1u << 6) /* a forked child may still need the contents its donors have now */
#define PAGE_KEPT (1u << 7)     /* must not leave (keep.h) */
#define PAGE_MARKS (PAGE_QUEUED | PAGE_WRITING | PAGE_SNAPSHOT | PAGE_KEPT)
#define PAGE_FRAME_MAX ((1u << 24) - 1)

struct pages {
	_Atomic uint32_t *words;
	uint64_t count;
};

int pages_open(struct pages *pages, uint64_t count);
void pages_close(struct pages *pages);
/* Returns the bytes of memory that the words of the first @count pages take. Only words that were accessed take
   memory. */
uint64_t pages_memory(const struct pages *pages, uint64_t count);

/* Returns the first page from @page on whose word is not 0, or @end. Skips words that are not in memory, such as those
   of large unused parts of a reservation, because reading them would allocate memory. */
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

/* Returns true if a page in @state has contents outside the program's memory. A child forked now lacks these
   contents. */
bool pages_state_is_far(enum page_state state);
const char *pages_state_name(enum page_state state);

/*
 * Moves @page from state @from to @to with @to_frame, whatever its frame and marks were. Keeps the marks. Returns false
 * and changes nothing if the page is in another state, or if it is kept and @to is PAGE_EVICTING. The move must be
 * legal. Use this if the decision to move rests on the state alone.
 */
bool pages_move(struct pages *pages, uint64_t page, enum page_state from, enum page_state to, uint32_t to_frame);

/* Does the same if the page's word still equals @word. Use this if the decision to move rests on the frame or the
   marks. The page may have left and come back to the same state since the caller looked. */
bool pages_move_from(struct pages *pages, uint64_t page, uint32_t word, enum page_state to, uint32_t to_frame);

/* Set or clear @marks in any state. Return the previous word. */
uint32_t pages_mark(struct pages *pages, uint64_t page, uint32_t marks);
uint32_t pages_unmark(struct pages *pages, uint64_t page, uint32_t marks);

#endif
