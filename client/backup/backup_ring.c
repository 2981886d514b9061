/* backup_ring: see backup_ring.h. */
#include "client/backup/backup_ring.h"

#include "client/store.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t place_of(const struct backup_ring *ring, uint64_t at)
{
	return at & (ring->room - 1);
}

static uint64_t missed_words(const struct backup_ring *ring)
{
	return (ring->pages + 63) / 64;
}

/* Returns the size of the copies, the places and the bits, which follow each other in memory. */
static uint64_t ring_bytes(const struct backup_ring *ring)
{
	return ring->room * (STORE_PAGE + sizeof *ring->places) + missed_words(ring) * sizeof *ring->missed;
}

int backup_ring_open(struct backup_ring *ring, uint64_t pages, uint64_t bytes)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
	void *base;

	ring->pages = pages;
	ring->room = RING_PAGES_MAX;
	while (bytes && ring->room > RING_PAGES_MIN && ring->room * STORE_PAGE > bytes)
		ring->room /= 2;
	base = mmap(NULL, ring_bytes(ring), PROT_READ | PROT_WRITE, flags, -1, 0);
	if (base == MAP_FAILED)
		return -ENOMEM;
	ring->bytes = base;
	ring->places = (struct backup_ring_place *)(ring->bytes + ring->room * STORE_PAGE);
	ring->missed = (_Atomic uint64_t *)(ring->places + ring->room);
	for (uint64_t i = 0; i < ring->room; i++)
		ring->places[i].sequence = i;
	return 0;
}

void backup_ring_close(struct backup_ring *ring)
{
	if (ring->bytes)
		munmap(ring->bytes, ring_bytes(ring));
	ring->bytes = NULL;
}

uint64_t backup_ring_memory(const struct backup_ring *ring)
{
	return sizeof *ring + ring_bytes(ring);
}

/* --- Any thread ----------------------------------------------------------------------------------------------- */

static bool ring_put(struct backup_ring *ring, uint64_t page, const void *data, bool again)
{
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	struct backup_ring_place *place;

	for (;;) {
		uint64_t sequence;

		place = &ring->places[place_of(ring, tail)];
		sequence = atomic_load_explicit(&place->sequence, memory_order_acquire);
		if (sequence == tail) {
			if (atomic_compare_exchange_weak_explicit(&ring->tail, &tail, tail + 1, memory_order_relaxed,
								  memory_order_relaxed))
				break;
		} else if (sequence < tail) {
			return false;
		} else {
			tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
		}
	}
	place->page = page;
	place->again = again;
	memcpy(ring->bytes + place_of(ring, tail) * STORE_PAGE, data, STORE_PAGE);
	/* Sequentially consistent, because before the backup's thread sleeps, it sets `asleep` and then loads
	   `sequence` (backup.c). */
	atomic_store(&place->sequence, tail + 1);
	return true;
}

bool backup_ring_put(struct backup_ring *ring, uint64_t page, const void *data)
{
	return ring_put(ring, page, data, false);
}

void backup_ring_put_again(struct backup_ring *ring, uint64_t page, const void *data)
{
	_Atomic uint64_t *word = &ring->missed[page / 64];
	uint64_t bit = UINT64_C(1) << page % 64;

	/* Clears the bit before the page enters the ring, so that a write that is missed from now on sets it again.
	   Until the page is in the ring, missed_count still counts it. */
	if (!(atomic_fetch_and(word, ~bit) & bit))
		return;
	if (ring_put(ring, page, data, true) || atomic_fetch_or(word, bit) & bit)
		atomic_fetch_sub(&ring->missed_count, 1);
}

void backup_ring_miss(struct backup_ring *ring, uint64_t page)
{
	uint64_t bit = UINT64_C(1) << page % 64;

	/* Counts the page before its bit is set. So the count may be too high for a moment, but is never too
	   low. */
	atomic_fetch_add(&ring->missed_count, 1);
	if (atomic_fetch_or(&ring->missed[page / 64], bit) & bit)
		atomic_fetch_sub(&ring->missed_count, 1);
}

void backup_ring_unmiss_all(struct backup_ring *ring, uint64_t page, uint64_t count)
{
	if (!atomic_load_explicit(&ring->missed_count, memory_order_relaxed))
		return;
	for (uint64_t i = page; i < page + count; i++) {
		uint64_t bit = UINT64_C(1) << i % 64;

		if (backup_ring_is_missed(ring, i) && atomic_fetch_and(&ring->missed[i / 64], ~bit) & bit)
			atomic_fetch_sub(&ring->missed_count, 1);
	}
}

bool backup_ring_is_missed(const struct backup_ring *ring, uint64_t page)
{
	return atomic_load_explicit(&ring->missed[page / 64], memory_order_relaxed) >> page % 64 & 1;
}

uint64_t backup_ring_next_missed(const struct backup_ring *ring, uint64_t page)
{
	while (page < ring->pages) {
		uint64_t word = atomic_load_explicit(&ring->missed[page / 64], memory_order_relaxed) >> page % 64;

		if (word)
			return page + (unsigned)__builtin_ctzll(word);
		page = (page / 64 + 1) * 64;
	}
	return ring->pages;
}

uint64_t backup_ring_count(const struct backup_ring *ring)
{
	/* Loads the head before the tail. If it loaded the tail first, the head might be ahead of the old tail. */
	uint64_t head = atomic_load(&ring->head);

	return atomic_load(&ring->tail) - head;
}

uint64_t backup_ring_put_count(const struct backup_ring *ring)
{
	return atomic_load(&ring->tail);
}

/* --- The backup's thread ---------------------------------------------------------------------------------------- */

struct backup_ring_place *backup_ring_at(struct backup_ring *ring, uint64_t index)
{
	uint64_t at = atomic_load_explicit(&ring->head, memory_order_relaxed) + index;
	struct backup_ring_place *place = &ring->places[place_of(ring, at)];

	return atomic_load(&place->sequence) == at + 1 ? place : NULL;
}

uint8_t *backup_ring_bytes(const struct backup_ring *ring, uint64_t index)
{
	uint64_t at = atomic_load_explicit(&ring->head, memory_order_relaxed) + index;

	return ring->bytes + place_of(ring, at) * STORE_PAGE;
}

const uint8_t *backup_ring_find(struct backup_ring *ring, uint64_t page, uint64_t *below)
{
	while (*below) {
		const struct backup_ring_place *place = backup_ring_at(ring, --*below);

		if (place && place->page == page)
			return backup_ring_bytes(ring, *below);
	}
	return NULL;
}

void backup_ring_take(struct backup_ring *ring, uint64_t count)
{
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

	for (uint64_t i = head; i < head + count; i++)
		atomic_store_explicit(&ring->places[place_of(ring, i)].sequence, i + ring->room, memory_order_release);
	atomic_store(&ring->head, head + count);
}

uint64_t backup_ring_taken_count(const struct backup_ring *ring)
{
	return atomic_load_explicit(&ring->head, memory_order_relaxed);
}
