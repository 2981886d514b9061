/*
 * backup_ring: copies of pages on their way to the local disk, in memory of fixed size. The ring also remembers the
 * pages for which it had no room.
 *
 * Theory of operation. Any thread may put copies into the ring (backup_ring_put()). Only the backup's thread takes
 * copies out. Each place of the ring has a sequence number (Vyukov's bounded queue), so putting takes one
 * compare-and-swap and the copying of a page. A page has one writer at a time (client/store.h), so its copies enter
 * in the order of its writes.
 *
 * If the ring is full, the caller marks the page as missed (backup_ring_miss()), which sets a bit. The rebuild thread
 * later reads the page from donors and calls backup_ring_put_again() (rebuild_backup.c). This copy may be older than
 * the page's last write, so it is marked with `again`. When the backup's thread takes such a copy out, it checks the
 * copy's checksum. If the checksum is wrong, the page is missed again.
 *
 * Threads. Any thread may put, miss and unmiss, and may read the counts and the bits. The functions from
 * backup_ring_at() on are for the backup's thread. Nothing is allocated after backup_ring_open().
 */
#ifndef CLIENT_BACKUP_RING_H
#define CLIENT_BACKUP_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RING_PAGES_MIN 512u
#define RING_PAGES_MAX 2048u

struct backup_ring_place {
	_Atomic uint64_t sequence;
	uint64_t page;
	bool again; /* the copy was read from donors again, so it may be older than the last write */
};

struct backup_ring {
	uint64_t pages;
	uint64_t room; /* number of places in the ring, a power of 2 */
	uint8_t *bytes;
	struct backup_ring_place *places;
	_Atomic uint64_t *missed;
	_Atomic uint64_t missed_count;
	_Alignas(64) _Atomic uint64_t tail;
	_Alignas(64) _Atomic uint64_t head; /* only the backup's thread changes it */
};

/* Opens a ring with as many places as fit in @bytes: a power of 2 from RING_PAGES_MIN to RING_PAGES_MAX. 0 means
   RING_PAGES_MAX places. Returns 0 or -ENOMEM. */
int backup_ring_open(struct backup_ring *ring, uint64_t pages, uint64_t bytes);
/* Frees the ring's memory. @ring may be all zero. */
void backup_ring_close(struct backup_ring *ring);
uint64_t backup_ring_memory(const struct backup_ring *ring);

/* Puts in a copy of the page. Returns false if there is no room. */
bool backup_ring_put(struct backup_ring *ring, uint64_t page, const void *data);
/* Puts in a missed page that was read from donors again. If there is no room, the page stays missed. Does nothing
   if the page is not missed any more. */
void backup_ring_put_again(struct backup_ring *ring, uint64_t page, const void *data);
void backup_ring_miss(struct backup_ring *ring, uint64_t page);
/* Clears the missed bits of @count pages. */
void backup_ring_unmiss_all(struct backup_ring *ring, uint64_t page, uint64_t count);
bool backup_ring_is_missed(const struct backup_ring *ring, uint64_t page);
/* Returns the first missed page from @page on, or the number of pages if there is none. */
uint64_t backup_ring_next_missed(const struct backup_ring *ring, uint64_t page);
uint64_t backup_ring_count(const struct backup_ring *ring);
/* Returns how many copies were ever put in. If a thread puts in copies and then gets N from this function, its copies
   have left the ring when backup_ring_taken_count() reaches N. */
uint64_t backup_ring_put_count(const struct backup_ring *ring);

/* Copy 0 is the oldest copy in the ring. backup_ring_at() returns the place of copy @index, or NULL if the copy is
   not complete yet. backup_ring_bytes() returns the bytes of the copy. */
struct backup_ring_place *backup_ring_at(struct backup_ring *ring, uint64_t index);
uint8_t *backup_ring_bytes(const struct backup_ring *ring, uint64_t index);
/* Looks for the page in the *@below oldest copies of the ring. Returns the newest copy of the page there, or NULL if
   there is none. Stores the index of this copy in *@below, so that the next call looks only at older copies. */
const uint8_t *backup_ring_find(struct backup_ring *ring, uint64_t page, uint64_t *below);
void backup_ring_take(struct backup_ring *ring, uint64_t count);
uint64_t backup_ring_taken_count(const struct backup_ring *ring);

#endif
