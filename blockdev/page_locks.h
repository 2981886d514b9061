/*
 * page_locks: locks the pages of a disk that are being read, written or discarded, for all of its queues.
 *
 * Theory of operation. There is a fixed table of PAGE_LOCKS small words. Pages are spread over the table so that no two
 * pages of a run share a word. Pages at the same place of different 256 MiB parts of the disk, which programs often use
 * at the same time, share no word either. Two pages that share a word are treated as one page. A word is 0, a number of
 * readers, or PAGE_LOCKED.
 *
 * A run is locked as a whole or not at all, and no thread waits inside. A lock is held only while the store works on
 * the page, and never while another lock is wanted. So there is no deadlock.
 *
 * Discards may concern whole disks, so they lock no words. A discard first announces the group of PAGE_LOCKS_SPAN pages
 * in which it works (`span`, one for all queues). It then looks for locked pages in that group. A thread that locks
 * pages first takes the words and then looks if they are in the span. So the second of the two sees the first and backs
 * off.
 *
 * Waking. A thread that found a page locked may try again at any time. Before it sleeps, it sets its bit in `waiting`
 * (page_locks_arm()) and tries once more. A thread that unlocks pages does so first and then reads `waiting`
 * (page_locks_wake()). page_locks_wake() clears the bits that it finds, and writes the eventfds of those queues.
 *
 * All four steps are sequentially consistent. If the last try comes before the unlock, the bit was set before it is
 * read, so no wake-up is lost. If no bit is set, there is no system call.
 *
 * Each set bit is cleared exactly once: by its own queue (page_locks_disarm()), or by a thread that then writes the
 * eventfd once. An attempt that takes some pages of a run and releases them again also counts as an unlock. Two waiting
 * queues could thus wake each other without end. To avoid this, page_locks_try() first looks at the whole run.
 *
 * There is no order between queues. If other queues lock a page without a pause, a queue may wait for it without limit.
 *
 * Threads. Any thread may call page_locks_try(), _unlock(), _span(), _span_end(), _wake() and _join(). A function that
 * takes @slot belongs to the thread of the queue that joined.
 */
#ifndef BLOCKDEV_PAGE_LOCKS_H
#define BLOCKDEV_PAGE_LOCKS_H

#include "client/store.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE_LOCKS 65536u          /* words, a power of two: 128 KiB */
#define PAGE_LOCKED UINT16_MAX     /* locked exclusively */
#define PAGE_LOCKS_QUEUES 64u      /* most queues that can join */
#define PAGE_LOCKS_SPAN 16384u     /* pages (64 MiB) */
#define PAGE_LOCKS_SPREAD 0x9e37u  /* distance in words between page P and page P + PAGE_LOCKS */
#define PAGE_LOCKS_READERS 0xfff0u /* most readers of a word */

struct page_locks_slot {
	int fd;     /* -1 if never used */
	bool armed; /* the queue's own: its bit in `waiting` was set, and it has not read the eventfd yet */
};

struct page_locks {
	_Alignas(64) _Atomic uint64_t waiting; /* one bit per slot, set if its queue sleeps and wants a page */
	_Alignas(64) _Atomic uint64_t span;    /* 1 + the number of the group in which a discard works, or 0 for none */
	_Alignas(64) _Atomic uint64_t joined;  /* slots in use */
	struct page_locks_slot slots[PAGE_LOCKS_QUEUES];
	_Atomic uint16_t words[PAGE_LOCKS];
};

/* Opens a table. Its memory is allocated on return. Returns 0 or -ENOMEM. */
int page_locks_open(struct page_locks **ret_locks);
/* Closes the table after every queue has left. Accepts NULL. */
void page_locks_close(struct page_locks *locks);

/* Takes a slot for a queue. Returns 0, -EBUSY if all are taken, or an error of eventfd(2). */
int page_locks_join(struct page_locks *locks, unsigned *ret_slot);
void page_locks_leave(struct page_locks *locks, unsigned slot);

/* Locks @count pages (at most STORE_RUN_MAX), shared to read or @exclusive. Returns false if it locked none of them. */
bool page_locks_try(struct page_locks *locks, unsigned slot, uint64_t page, uint32_t count, bool exclusive);
/* Unlocks pages. The caller then calls page_locks_wake(), once for several unlocks. */
void page_locks_unlock(struct page_locks *locks, uint64_t page, uint32_t count, bool exclusive);

/*
 * Returns how many of @count pages from @page on can be discarded now, 0 .. @count. All @count pages must be in one
 * group. If the result is not 0, nobody locks them until page_locks_span_end(). Call that soon, and page_locks_wake()
 * after it.
 */
uint32_t page_locks_span(struct page_locks *locks, unsigned slot, uint64_t page, uint32_t count);
void page_locks_span_end(struct page_locks *locks);

/* Wakes the queues that wait, except the caller's own. */
void page_locks_wake(struct page_locks *locks, unsigned slot);

/* Returns a descriptor that is readable when a page has been unlocked since page_locks_arm(). */
int page_locks_fd(const struct page_locks *locks, unsigned slot);
/* Prepares to sleep. The caller then tries once more. */
void page_locks_arm(struct page_locks *locks, unsigned slot);
/* Undoes page_locks_arm(): unlocks no longer wake the queue, and the descriptor is no longer readable. If a wake-up is
   still on its way, the next call takes it. */
void page_locks_disarm(struct page_locks *locks, unsigned slot);

/* For tests: returns true if no page is locked. */
bool page_locks_are_free(const struct page_locks *locks);

#endif
