/*
 * backup_ring: copies of pages on their way to the local disk, in memory of a fixed size; and which pages found no
 * room.
 *
 * Theory of operation. Any thread puts pages in, one takes them out: a ring in which each place has a sequence number
 * (Vyukov's bounded queue), so that putting is a compare-and-swap and a copy. A page that finds the ring full is
 * missed: a bit of it is set, and whoever has time copies it later from where it is (rebuild_backup.c) with `again`
 * set. A copy that was made later and came in earlier is told from that one by its checksum, which is looked at when it
 * is taken out. A page that gets in is not missed any more.
 *
 * Of one page there is one writer at a time (farpage/store.h), so its copies come in in the order of its writes.
 *
 * Threads. ring_put, ring_miss, ring_unmiss and the figures: any. The rest: the one that takes out. Nothing is
 * allocated after ring_open().
 */
#ifndef CLIENT_BACKUP_RING_H
#define CLIENT_BACKUP_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RING_PAGES_MIN 512u
#define RING_PAGES_MAX 2048u

struct ring_place {
	_Atomic uint64_t sequence;
	uint64_t page;
	bool again; /* not copied when it was written, but later */
};

struct ring {
	uint64_t pages; /* of the store */
	uint64_t room;  /* places: a power of 2 */
	uint8_t *bytes;
	struct ring_place *places;
	_Atomic uint64_t *missed;
	_Atomic uint64_t missed_count;
	_Alignas(64) _Atomic uint64_t tail;
	_Alignas(64) _Atomic uint64_t head; /* stored by the one that takes out */
};

/* For copies of at most @bytes, a power of 2 of them between RING_PAGES_MIN and _MAX; 0: as many as may be. -ENOMEM. */
int ring_open(struct ring *ring, uint64_t pages, uint64_t bytes);
/* Takes one that was not opened but is all zero. */
void ring_close(struct ring *ring);
/* Bytes that it takes. */
uint64_t ring_memory(const struct ring *ring);

/* A copy of the page; false: there is no room, and nothing else is done. */
bool ring_put(struct ring *ring, uint64_t page, const void *data, bool again);
void ring_miss(struct ring *ring, uint64_t page);
/* Whether it was missed: it is not any more. */
bool ring_unmiss(struct ring *ring, uint64_t page);
/* Of @count pages. */
void ring_unmiss_all(struct ring *ring, uint64_t page, uint64_t count);
bool ring_is_missed(const struct ring *ring, uint64_t page);
/* The first page from @page on that was missed; the number of pages: none. */
uint64_t ring_next_missed(const struct ring *ring, uint64_t page);
/* How many copies are in it. */
uint64_t ring_count(const struct ring *ring);
/* How many were ever put in. Those that this thread has put in are done with when as many were taken out. */
uint64_t ring_put_count(const struct ring *ring);

/* The copy @index places from the oldest on; NULL: there is none yet. */
struct ring_place *ring_at(struct ring *ring, uint64_t index);
uint8_t *ring_bytes(const struct ring *ring, uint64_t index);
/* The newest copy of the page among the oldest *@below, or NULL; *@below is then its place: for the one before. */
const uint8_t *ring_find(struct ring *ring, uint64_t page, uint64_t *below);
/* The oldest @count are done with. */
void ring_take(struct ring *ring, uint64_t count);
/* How many ever were. */
uint64_t ring_taken_count(const struct ring *ring);

#endif
