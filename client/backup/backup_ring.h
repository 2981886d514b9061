/*
 * backup_ring: copies of pages on their way to the local disk, in memory of a fixed size. The ring also notes the pages
 * that found no room.
 *
 * Theory of operation. Any thread puts copies in, one thread takes them out. Each place of the ring has a sequence
 * number (Vyukov's bounded queue), so putting is a compare-and-swap and a copy.
 *
 * A page that finds the ring full is missed: its bit is set. The thread that puts the page in clears the bit. The
 * rebuild thread later reads a missed page back from donors and puts it in with `again` set (rebuild_backup.c). Such a
 * copy may be older than another copy of the page, or than a write that was missed. So the copy's checksum is checked
 * when the copy is taken out. If the checksum is wrong, the page counts as missed again.
 *
 * A page has one writer at a time (client/store.h), so its copies enter in the order of its writes.
 *
 * Threads. Any thread may put, miss and unmiss, and may read the counts and the bits. The functions from backup_ring_at() on
 * are for the thread that takes out. Nothing is allocated after backup_ring_open().
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
	bool again; /* the copy is of a later read, not of the write itself */
};

struct backup_ring {
	uint64_t pages; /* pages of the store */
	uint64_t room;  /* places of the ring, a power of 2 */
	uint8_t *bytes;
	struct backup_ring_place *places;
	_Atomic uint64_t *missed;
	_Atomic uint64_t missed_count;
	_Alignas(64) _Atomic uint64_t tail;
	_Alignas(64) _Atomic uint64_t head; /* stored by the thread that takes out */
};

/* Opens a ring of as many copies as fit in @bytes: a power of 2 from RING_PAGES_MIN to RING_PAGES_MAX. If @bytes is 0,
   the ring has RING_PAGES_MAX places. Returns 0 or -ENOMEM. */
int backup_ring_open(struct backup_ring *ring, uint64_t pages, uint64_t bytes);
/* Frees the ring's memory. Takes a ring that is all zero. */
void backup_ring_close(struct backup_ring *ring);
/* Returns the bytes of memory that the ring takes. */
uint64_t backup_ring_memory(const struct backup_ring *ring);

/* Puts in a copy of the page. Returns false, and does nothing else, if there is no room. */
bool backup_ring_put(struct backup_ring *ring, uint64_t page, const void *data);
/* Puts in a missed page that was read back. If there is no room, it stays missed. Does nothing if the page is not missed
   any more. */
void backup_ring_put_again(struct backup_ring *ring, uint64_t page, const void *data);
void backup_ring_miss(struct backup_ring *ring, uint64_t page);
/* Clears the bits of @count pages. */
void backup_ring_unmiss_all(struct backup_ring *ring, uint64_t page, uint64_t count);
bool backup_ring_is_missed(const struct backup_ring *ring, uint64_t page);
/* Returns the first missed page from @page on, or the number of pages if there is none. */
uint64_t backup_ring_next_missed(const struct backup_ring *ring, uint64_t page);
/* Returns how many copies are in the ring. */
uint64_t backup_ring_count(const struct backup_ring *ring);
/* Returns how many copies were ever put in. If a thread has put in copies and then gets N, these copies have left the
   ring when backup_ring_taken_count() reaches N. */
uint64_t backup_ring_put_count(const struct backup_ring *ring);

/* Returns the place of the copy that has @index older ones, or NULL if it is not there yet. backup_ring_bytes() returns its
   page. */
struct backup_ring_place *backup_ring_at(struct backup_ring *ring, uint64_t index);
uint8_t *backup_ring_bytes(const struct backup_ring *ring, uint64_t index);
/* Looks for the newest copy of the page among the *@below oldest copies. Stores the copy's index in *@below, so that a
   next call looks at older copies only. Returns the copy, or NULL if there is none. */
const uint8_t *backup_ring_find(struct backup_ring *ring, uint64_t page, uint64_t *below);
/* Frees the places of the @count oldest copies. */
void backup_ring_take(struct backup_ring *ring, uint64_t count);
/* Returns how many copies were ever taken out. */
uint64_t backup_ring_taken_count(const struct backup_ring *ring);

#endif
