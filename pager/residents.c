#include "pager/residents.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

int residents_open(struct residents *residents, struct pages *pages, uint32_t budget)
{
	uint32_t capacity = 2 * budget;
	void *ring =
	    mmap(NULL, capacity * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring == MAP_FAILED)
		return -errno;
	*residents = (struct residents){.ring = ring, .capacity = capacity, .pages = pages};
	pthread_mutex_init(&residents->lock, NULL);
	return 0;
}

void residents_close(struct residents *residents)
{
	if (!residents->ring)
		return;
	munmap(residents->ring, residents->capacity * sizeof(uint32_t));
	pthread_mutex_destroy(&residents->lock);
	residents->ring = NULL;
}

uint64_t residents_memory(const struct residents *residents)
{
	return residents->capacity * sizeof(uint32_t);
}

static void append(struct residents *residents, uint32_t page)
{
	assert(residents->count < residents->capacity);
	residents->ring[(residents->head + residents->count++) % residents->capacity] = page;
}

static uint32_t take_oldest(struct residents *residents)
{
	assert(residents->count > 0);
	uint32_t page = residents->ring[residents->head];
	residents->head = (residents->head + 1) % residents->capacity;
	residents->count--;
	return page;
}

/* Pages that are on their way in or back will be resident in a moment. */
static bool is_stale(uint32_t word)
{
	switch (page_state(word)) {
	case PAGE_RESIDENT:
	case PAGE_FETCHING:
	case PAGE_RETURNING:
	case PAGE_EVICTING:
		return false;
	default:
		return true;
	}
}

static void drop_stale(struct residents *residents)
{
	for (uint32_t scanned = 0; scanned < residents->capacity; scanned++) {
		uint32_t page = take_oldest(residents);
		if (is_stale(pages_load(residents->pages, page))) {
			pages_unmark(residents->pages, page, PAGE_QUEUED);
			return;
		}
		append(residents, page);
	}
	assert(!"more pages resident than the budget allows");
}

void residents_push(struct residents *residents, uint64_t page)
{
	if (pages_mark(residents->pages, page, PAGE_QUEUED) & PAGE_QUEUED)
		return;
	pthread_mutex_lock(&residents->lock);
	if (residents->count == residents->capacity)
		drop_stale(residents);
	append(residents, (uint32_t)page);
	pthread_mutex_unlock(&residents->lock);
}

unsigned residents_pop(struct residents *residents, uint64_t *pages, unsigned max)
{
	unsigned found = 0;
	pthread_mutex_lock(&residents->lock);
	for (uint32_t scanned = 0, count = residents->count; found < max && scanned < count; scanned++) {
		uint32_t page = take_oldest(residents), word = pages_load(residents->pages, page);
		if (page_state(word) == PAGE_RESIDENT && !(word & PAGE_WRITING)) {
			pages_unmark(residents->pages, page, PAGE_QUEUED);
			pages[found++] = page;
		} else if (is_stale(word)) {
			pages_unmark(residents->pages, page, PAGE_QUEUED);
		} else {
			append(residents, page);
		}
	}
	pthread_mutex_unlock(&residents->lock);
	return found;
}
