#include "blockdev/page_locks.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert((PAGE_LOCKS & (PAGE_LOCKS - 1)) == 0, "a power of two");
/* The pages of a run have consecutive words. At a page number that is a multiple of PAGE_LOCKS, PAGE_LOCKS_SPREAD words
   are skipped. The words after this gap must not be the run's own first words. */
_Static_assert(PAGE_LOCKS_SPREAD + 1 + STORE_RUN_MAX < PAGE_LOCKS && PAGE_LOCKS_SPREAD >= STORE_RUN_MAX,
	       "a run's pages have words of their own");
_Static_assert(PAGE_LOCKS_SPAN >= STORE_RUN_MAX, "a run is in one span or in two");

static uint32_t word_of(uint64_t page)
{
	return (uint32_t)(page + page / PAGE_LOCKS * PAGE_LOCKS_SPREAD) & (PAGE_LOCKS - 1);
}

static uint64_t slot_bit(unsigned slot)
{
	return UINT64_C(1) << slot;
}

/* --- Locking --------------------------------------------------------------------------------------------- */

static bool span_meets(const struct page_locks *locks, uint64_t page, uint32_t count)
{
	uint64_t span = atomic_load(&locks->span);

	return span && page / PAGE_LOCKS_SPAN < span && (page + count - 1) / PAGE_LOCKS_SPAN >= span - 1;
}

static bool word_is_free(const struct page_locks *locks, uint64_t page, bool exclusive)
{
	uint16_t value = atomic_load(&locks->words[word_of(page)]);

	return exclusive ? !value : value < PAGE_LOCKS_READERS;
}

static bool run_looks_free(const struct page_locks *locks, uint64_t page, uint32_t count, bool exclusive)
{
	if (span_meets(locks, page, count))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!word_is_free(locks, page + i, exclusive))
			return false;
	return true;
}

static bool word_try(struct page_locks *locks, uint64_t page, bool exclusive)
{
	_Atomic uint16_t *word = &locks->words[word_of(page)];
	uint16_t value = 0;

	if (exclusive)
		return atomic_compare_exchange_strong(word, &value, PAGE_LOCKED);
	value = atomic_load(word);
	do {
		if (value >= PAGE_LOCKS_READERS)
			return false;
	} while (!atomic_compare_exchange_weak(word, &value, (uint16_t)(value + 1)));
	return true;
}

bool page_locks_try(struct page_locks *locks, unsigned slot, uint64_t page, uint32_t count, bool exclusive)
{
	uint32_t taken = 0;

	if (!run_looks_free(locks, page, count, exclusive))
		return false;
	while (taken < count && word_try(locks, page + taken, exclusive))
		taken++;
	if (taken == count && !span_meets(locks, page, count))
		return true;
	page_locks_unlock(locks, page, taken, exclusive);
	page_locks_wake(locks, slot);
	return false;
}

void page_locks_unlock(struct page_locks *locks, uint64_t page, uint32_t count, bool exclusive)
{
	for (uint32_t i = 0; i < count; i++) {
		_Atomic uint16_t *word = &locks->words[word_of(page + i)];

		if (exclusive)
			atomic_store(word, 0);
		else
			atomic_fetch_sub(word, 1);
	}
}

/* --- Discarding ------------------------------------------------------------------------------------------ */

uint32_t page_locks_span(struct page_locks *locks, unsigned slot, uint64_t page, uint32_t count)
{
	uint64_t none = 0;
	uint32_t unlocked = 0;

	/* Checks the first page before it announces the group. Otherwise two queues could wake each other for ever
	   (page_locks.h). */
	if (!word_is_free(locks, page, true))
		return 0;
	if (!atomic_compare_exchange_strong(&locks->span, &none, page / PAGE_LOCKS_SPAN + 1))
		return 0;
	while (unlocked < count && word_is_free(locks, page + unlocked, true))
		unlocked++;
	if (!unlocked) {
		page_locks_span_end(locks);
		page_locks_wake(locks, slot);
	}
	return unlocked;
}

void page_locks_span_end(struct page_locks *locks)
{
	atomic_store(&locks->span, 0);
}

/* --- Waking ---------------------------------------------------------------------------------------------- */

void page_locks_wake(struct page_locks *locks, unsigned slot)
{
	uint64_t others = atomic_load(&locks->waiting) & ~slot_bit(slot);

	if (!others)
		return;
	/* Several threads may find the same bit set. The thread that clears the bit wakes the queue. */
	others &= atomic_fetch_and(&locks->waiting, ~others);
	for (; others; others &= others - 1)
		eventfd_write(locks->slots[__builtin_ctzll(others)].fd, 1);
}

int page_locks_fd(const struct page_locks *locks, unsigned slot)
{
	return locks->slots[slot].fd;
}

void page_locks_arm(struct page_locks *locks, unsigned slot)
{
	if (locks->slots[slot].armed)
		return;
	locks->slots[slot].armed = true;
	atomic_fetch_or(&locks->waiting, slot_bit(slot));
}

void page_locks_disarm(struct page_locks *locks, unsigned slot)
{
	eventfd_t value;

	if (!locks->slots[slot].armed)
		return;
	/* If another thread has cleared the bit, that thread writes the eventfd. If it has not written yet, the queue
	   stays armed, and the next call reads the eventfd. */
	if (atomic_fetch_and(&locks->waiting, ~slot_bit(slot)) & slot_bit(slot) ||
	    eventfd_read(locks->slots[slot].fd, &value) == 0)
		locks->slots[slot].armed = false;
}

/* --- Opening and closing --------------------------------------------------------------------------------- */

int page_locks_join(struct page_locks *locks, unsigned *ret_slot)
{
	for (unsigned slot = 0; slot < PAGE_LOCKS_QUEUES; slot++) {
		if (atomic_fetch_or(&locks->joined, slot_bit(slot)) & slot_bit(slot))
			continue;
		/* Descriptors stay open until page_locks_close(), so that a late wake-up never writes to another
		   file. */
		if (locks->slots[slot].fd < 0)
			locks->slots[slot].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (locks->slots[slot].fd < 0) {
			int error = -errno;

			atomic_fetch_and(&locks->joined, ~slot_bit(slot));
			return error;
		}
		*ret_slot = slot;
		return 0;
	}
	return -EBUSY;
}

void page_locks_leave(struct page_locks *locks, unsigned slot)
{
	struct pollfd fd = {.fd = locks->slots[slot].fd, .events = POLLIN};

	page_locks_disarm(locks, slot);
	while (locks->slots[slot].armed) {
		poll(&fd, 1, -1);
		page_locks_disarm(locks, slot);
	}
	atomic_fetch_and(&locks->joined, ~slot_bit(slot));
}

int page_locks_open(struct page_locks **ret_locks)
{
	struct page_locks *locks =
	    mmap(NULL, sizeof *locks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (locks == MAP_FAILED)
		return -ENOMEM;
	for (unsigned i = 0; i < PAGE_LOCKS_QUEUES; i++)
		locks->slots[i].fd = -1;
	*ret_locks = locks;
	return 0;
}

void page_locks_close(struct page_locks *locks)
{
	if (!locks)
		return;
	for (unsigned i = 0; i < PAGE_LOCKS_QUEUES; i++)
		if (locks->slots[i].fd >= 0)
			close(locks->slots[i].fd);
	munmap(locks, sizeof *locks);
}

bool page_locks_are_free(const struct page_locks *locks)
{
	for (unsigned i = 0; i < PAGE_LOCKS; i++)
		if (atomic_load_explicit(&locks->words[i], memory_order_acquire))
			return false;
	return !atomic_load(&locks->span);
}
