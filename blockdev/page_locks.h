/*
 * page_locks: which pages of a disk are being read, written or discarded, by all of its queues.
 *
 * Theory of operation. A table of PAGE_LOCKS small words, never grown: pages are spread over it so that no two pages of
 * a run share a word, and neither do those at the same place of different 256 MiB of the disk, where programs like to
 * work side by side. Two pages that do share one are taken for the same. A word is 0, a number of readers, or
 * PAGE_LOCKED. A run is locked as a whole or not at all, and nobody waits inside: a lock is held only while the store
 * works on the page, never while another is wanted, so there is nothing to deadlock on.
 *
 * Discards can be of whole disks, so they lock no words. A discard first says which PAGE_LOCKS_SPAN pages it works in
 * (`span`, one for all queues), then looks for pages in it that are locked. Who locks pages first takes the words, then
 * looks whether they are in the span. Whichever comes second sees the other, and lets go.
 *
 * Waking. Who found a page locked tries again whenever it likes. Before it sleeps, it sets its bit in `waiting`
 * (page_locks_arm), and tries once more. Who lets go of pages does so first, then looks at `waiting` (page_locks_wake),
 * clears the bits that it finds there and writes those queues' eventfds. All four are sequentially consistent: if the
 * last try came before the letting go, the bit was set before it is looked at, so no wake-up is lost; and while no bit
 * is set there is no system call. Every bit set is answered by exactly one of: it is cleared by its own queue
 * (page_locks_disarm), or the eventfd is written once. To take some pages of a run, and give them back because others
 * are locked, is letting go too; so that two waiting queues do not wake each other in turns, a run is first looked at.
 *
 * There is no order between queues: a page that others never leave alone for a moment keeps a queue waiting.
 *
 * Threads. page_locks_try, _unlock, _span, _span_end, _wake, _join: any. What names a slot: the queue's that joined.
 */
#ifndef BLOCKDEV_PAGE_LOCKS_H
#define BLOCKDEV_PAGE_LOCKS_H

#include "farpage/store.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE_LOCKS 65536u          /* words, a power of two: 128 KiB */
#define PAGE_LOCKED UINT16_MAX     /* exclusively */
#define PAGE_LOCKS_QUEUES 64u      /* that can join */
#define PAGE_LOCKS_SPAN 16384u     /* pages (64 MiB) */
#define PAGE_LOCKS_SPREAD 0x9e37u  /* words from a page to the one PAGE_LOCKS further on */
#define PAGE_LOCKS_READERS 0xfff0u /* at most, of a word */

struct page_locks_slot {
	int fd;     /* -1: never used */
	bool armed; /* its bit in `waiting` was set, and not answered yet; its queue's own */
};

struct page_locks {
	_Alignas(64) _Atomic uint64_t waiting; /* a bit for each slot: its queue sleeps and wants a page */
	_Alignas(64) _Atomic uint64_t span;    /* what is discarded in: its number + 1; 0: nothing */
	_Alignas(64) _Atomic uint64_t joined;  /* slots that are in use */
	struct page_locks_slot slots[PAGE_LOCKS_QUEUES];
	_Atomic uint16_t words[PAGE_LOCKS];
};

/* Its memory is there when it returns. -ENOMEM. */
int page_locks_open(struct page_locks **ret_locks);
/* Every queue has left. Takes NULL. */
void page_locks_close(struct page_locks *locks);

/* A place for a queue. -EBUSY: all are taken; what eventfd(2) says. */
int page_locks_join(struct page_locks *locks, unsigned *ret_slot);
void page_locks_leave(struct page_locks *locks, unsigned slot);

/* All of @count pages (at most STORE_RUN_MAX), to be read by several or @exclusive, or none of them: false. */
bool page_locks_try(struct page_locks *locks, unsigned slot, uint64_t page, uint32_t count, bool exclusive);
/* To be followed by page_locks_wake(), once for many. */
void page_locks_unlock(struct page_locks *locks, uint64_t page, uint32_t count, bool exclusive);

/* How many of @count pages from @page on can be discarded right now, 0 .. @count; they are all within one span. If
   there are any, then nobody locks them until page_locks_span_end(), to be called soon and followed by a wake. */
uint32_t page_locks_span(struct page_locks *locks, unsigned slot, uint64_t page, uint32_t count);
void page_locks_span_end(struct page_locks *locks);

/* Wakes the queues that wait, but not the caller's own. */
void page_locks_wake(struct page_locks *locks, unsigned slot);

/* Readable when a page has been unlocked since page_locks_arm(). */
int page_locks_fd(const struct page_locks *locks, unsigned slot);
/* To be followed by one more try. */
void page_locks_arm(struct page_locks *locks, unsigned slot);
/* Awake: nobody need write the descriptor, and what was written is taken. */
void page_locks_disarm(struct page_locks *locks, unsigned slot);

/* For tests. */
bool page_locks_are_free(const struct page_locks *locks);

#endif
