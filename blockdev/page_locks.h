/*
 * page_locks: locks the pages of a disk that are being read, written or discarded. All queues of the disk share one
 * table.
 *
 * Theory of operation. The table has PAGE_LOCKS words. Each page belongs to one word, so several pages share a word
 * and are locked together. The pages of one run never share a word. Nor do pages at the same offset in different parts
 * of 256 MiB, because programs often use such pages at the same time. A word is 0, a number of readers, or PAGE_LOCKED.
 *
 * page_locks_try() locks all pages of a run, or no page, and does not wait. A page is locked only while the store works
 * on it, and no thread waits for a lock while it holds another lock. So there is no deadlock.
 *
 * A discard may concern a whole disk. So the queue does not lock the pages one by one. page_locks_span() first
 * announces a group of PAGE_LOCKS_SPAN pages in `span`, which all queues share. Then it looks for locked pages in the
 * group. page_locks_try() works in the other order: it locks its pages, then looks at `span`. So if both functions want
 * the same page, at least one of them sees the mark of the other and gives up.
 *
 * Waking. A queue that found a page locked can try again at any time. Before the queue sleeps, it sets its bit in
 * `waiting` (page_locks_arm()) and tries once more. A queue that unlocks pages first unlocks them, and then calls
 * page_locks_wake(). This function clears the bits in `waiting`, and writes the eventfds of the queues whose bits were
 * set. If no bit is set, page_locks_wake() makes no system call.
 *
 * No wake-up is lost, because all these steps are sequentially consistent: if a queue's last try came before the
 * unlock, page_locks_wake() finds the queue's bit set. A bit is cleared either by its own queue (page_locks_disarm()),
 * or by a thread that then writes the eventfd once.
 *
 * If page_locks_try() locks some pages of a run and must unlock them again, it wakes waiting queues, too. Two queues
 * could thus wake each other for ever. To prevent that, page_locks_try() first checks whether the whole run looks free.
 *
 * There is no order between queues. If other queues lock a page again and again, a queue may wait for the page without
 * limit.
 *
 * Threads. Any thread may call page_locks_try(), _unlock(), _span(), _span_end(), _wake() and _join(). The other
 * functions with @slot are for the thread of the queue that has this slot.
 */
#ifndef BLOCKDEV_PAGE_LOCKS_H
#define BLOCKDEV_PAGE_LOCKS_H

#include "client/store.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE_LOCKS 65536u          /* number of words, a power of two; 128 KiB */
#define PAGE_LOCKED UINT16_MAX     /* locked exclusively */
#define PAGE_LOCKS_QUEUES 64u      /* most queues that can join */
#define PAGE_LOCKS_SPAN 16384u     /* pages per group: 64 MiB */
#define PAGE_LOCKS_SPREAD 0x9e37u  /* word of page P + PAGE_LOCKS, minus word of page P */
#define PAGE_LOCKS_READERS 0xfff0u /* most readers per word */

struct page_locks_slot {
	int fd;     /* -1 if never used */
	bool armed; /* the queue's bit in `waiting` was set, and page_locks_disarm() has not cleared it */
};

struct page_locks {
	_Alignas(64) _Atomic uint64_t waiting; /* one bit per slot: the queue waits for a page to be unlocked */
	_Alignas(64) _Atomic uint64_t span;    /* 1 + number of the group in which a discard works, or 0 */
	_Alignas(64) _Atomic uint64_t joined;  /* one bit per slot: in use */
	struct page_locks_slot slots[PAGE_LOCKS_QUEUES];
	_Atomic uint16_t words[PAGE_LOCKS];
};

/* Opens a table and touches its memory. Returns 0 or -ENOMEM. */
int page_locks_open(struct page_locks **ret_locks);
/* Closes the table. All queues must have left. Accepts NULL. */
void page_locks_close(struct page_locks *locks);

/* Assigns a slot to a queue. Returns 0, -EBUSY if all are in use, or -errno of eventfd(2). */
int page_locks_join(struct page_locks *locks, unsigned *ret_slot);
void page_locks_leave(struct page_locks *locks, unsigned slot);

/* Locks @count pages (at most STORE_RUN_MAX), for reading or @exclusive. Returns false if it locked none. */
bool page_locks_try(struct page_locks *locks, unsigned slot, uint64_t page, uint32_t count, bool exclusive);
/* Unlocks pages. The caller then calls page_locks_wake(), once for any number of unlocks. */
void page_locks_unlock(struct page_locks *locks, uint64_t page, uint32_t count, bool exclusive);

/* Reserves pages for a discard. The @count pages from @page on must be in one group. Returns how many of them can be
   discarded now, possibly 0. If the result is not 0, nobody can lock these pages until page_locks_span_end(). The
   caller must soon call page_locks_span_end(), and then page_locks_wake(). */
uint32_t page_locks_span(struct page_locks *locks, unsigned slot, uint64_t page, uint32_t count);
void page_locks_span_end(struct page_locks *locks);

/* Wakes the queues that wait, except the caller's own. */
void page_locks_wake(struct page_locks *locks, unsigned slot);

/* Returns a descriptor that becomes readable when pages are unlocked after page_locks_arm(). */
int page_locks_fd(const struct page_locks *locks, unsigned slot);
/* Announces that the queue is about to sleep. The caller then tries once more. */
void page_locks_arm(struct page_locks *locks, unsigned slot);
/* Undoes page_locks_arm(), so that the descriptor is not readable. If another thread is just about to write the
   descriptor, only the next call of this function resets it. */
void page_locks_disarm(struct page_locks *locks, unsigned slot);

/* For tests: returns true if no page is locked. */
bool page_locks_are_free(const struct page_locks *locks);

#endif
