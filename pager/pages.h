/*
 * pages: one atomic 32-bit word for each page of the window. The word holds the page's state and its marks. While a
 * frame of the victim buffer has the page's contents, the word also holds the number of that frame. While the page is
 * far or being fetched, the same bits hold a stamp (refault.h).
 *
 * Theory of operation. The handler, the evictor and the program's discarding threads share no other state of a page.
 * To work on a page, a thread first moves it to an in-between state (-ing) by compare-and-swap. The page then
 * belongs to that thread until it moves the page on. Every move is checked against the table of legal moves,
 * pages_moves[] in pages.c.
 *
 *   untouched --fault--> filling ---> resident --evictor--> evicting --+--> buffered --frame reused--> far
 *         far --fault--> fetching --> resident                         +--> untouched (all zero)
 *                                                             buffered --fault--> returning --> resident
 *   lost: the donor died; touching it is SIGBUS.              any settled state --discard--> discarding --> untouched
 *
 * A word does not say whether a resident page is clean. The evictor finds that out after the page has left the
 * program: it compares the page with the checksum of the donors' contents, in 0.2 to 0.3 us. So a page that was
 * rewritten with the same contents is clean, too. The kernel could track writes instead (UFFD_FEATURE_WP_ASYNC,
 * PAGEMAP_SCAN), but:
 * - The first write to each clean page would cost a fault.
 * - A page could be written between the check and its removal, because this protection does not stop the writer.
 * - Pages that are not adjacent would need one system call each.
 */
#ifndef PAGER_PAGES_H
#define PAGER_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum page_state {
	PAGE_UNTOUCHED, /* reads as zeroes and is stored nowhere; is 0, because new tables are zeroed */
	PAGE_RESIDENT,  /* in the program's memory */
	PAGE_EVICTING,  /* the evictor is moving it out of the program */
	PAGE_BUFFERED,  /* not in the program, but in a frame of the victim buffer */
	PAGE_RETURNING, /* the handler is copying it from its frame to the program */
	PAGE_FAR,       /* on its donors only */
	PAGE_FETCHING,  /* the handler is reading it from its donors */
	PAGE_FILLING,   /* the handler is filling it with zeroes; its donors may still have old contents */
	PAGE_DISCARDING,
	PAGE_LOST,
	PAGE_STATES
};

#define PAGE_QUEUED (1u << 4)   /* is in a queue of residents.h */
#define PAGE_WRITING (1u << 5)  /* a write of the page to the donors is in flight */
#define PAGE_SNAPSHOT (1u << 6) /* a forked child may still read the donors' present contents */
#define PAGE_KEPT (1u << 7)     /* must not be evicted (keep.h) */
#define PAGE_MARKS (PAGE_QUEUED | PAGE_WRITING | PAGE_SNAPSHOT | PAGE_KEPT)
#define PAGE_FRAME_MAX ((1u << 24) - 1)

struct pages {
	_Atomic uint32_t *words;
	uint64_t count;
};

int pages_open(struct pages *pages, uint64_t count);
void pages_close(struct pages *pages);
/* Returns the bytes of memory that the first @length bytes of a sparse table use: only accessed parts of it do. */
uint64_t pages_table_memory(const void *table, uint64_t length);
/* Returns the bytes of memory that the words of the first @count pages use. */
uint64_t pages_memory(const struct pages *pages, uint64_t count);

/* Returns the first page from @page on whose word is not 0, or @end if there is none. Skips parts of the table that
   are not in memory, because their words are 0 and reading them would allocate memory. */
uint64_t pages_next_known(const struct pages *pages, uint64_t page, uint64_t end);

static inline uint32_t pages_load(const struct pages *pages, uint64_t page)
{
	return atomic_load_explicit(&pages->words[page], memory_order_acquire);
}

static inline enum page_state page_state(uint32_t word)
{
	return (enum page_state)(word & 0xf);
}

/* Returns the frame, or the stamp of a page that is PAGE_FAR or PAGE_FETCHING. */
static inline uint32_t page_frame(uint32_t word)
{
	return word >> 8;
}

/* Returns true if a page in @state has contents that a child forked now would not inherit, because they are outside
   the program's memory. */
bool pages_state_is_far(enum page_state state);
const char *pages_state_name(enum page_state state);

/*
 * Moves @page from state @from to @to, sets its frame to @to_frame, and keeps its marks. Returns false and changes
 * nothing if the page is not in state @from. Does the same if @to is PAGE_EVICTING and the page has the mark PAGE_KEPT.
 * Aborts if the move is not legal. Does not compare the old frame and marks. So this function is only for callers that
 * have not looked at the frame or the marks.
 */
bool pages_move(struct pages *pages, uint64_t page, enum page_state from, enum page_state to, uint32_t to_frame);

/* Does the same as pages_move(), but only if the page's word still equals @word. Callers that have looked at the
   frame or the marks need this: the page may have left since, and returned to the same state with another frame. */
bool pages_move_from(struct pages *pages, uint64_t page, uint32_t word, enum page_state to, uint32_t to_frame);

/* Set or clear @marks, whatever the state is. Return the word as it was before. */
uint32_t pages_mark(struct pages *pages, uint64_t page, uint32_t marks);
uint32_t pages_unmark(struct pages *pages, uint64_t page, uint32_t marks);

#endif
