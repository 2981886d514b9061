#include "pager/residents.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

#define YOUNG_SHARE 4 /* a quarter of the budget, as 2Q proposes */
#define SPARE 64      /* entries beyond the budget */

static int queue_open(struct queue *queue, uint32_t pages)
{
	uint32_t capacity = pages + SPARE;
	void *ring =
	    mmap(NULL, capacity * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring == MAP_FAILED)
		return -errno;
	*queue = (struct queue){.ring = ring, .capacity = capacity};
	return 0;
}

static void queue_close(struct queue *queue)
{
	if (queue->ring)
		munmap(queue->ring, queue->capacity * sizeof(uint32_t));
	queue->ring = NULL;
}

int residents_open(struct residents *residents, struct pages *pages, uint32_t budget)
{
	*residents = (struct residents){.pages = pages, .young_share = budget / YOUNG_SHARE};
	pthread_mutex_init(&residents->lock, NULL);
	int result = queue_open(&residents->young, budget);
	return result ? result : queue_open(&residents->proven, budget);
}

int residents_reserve(struct residents *residents, uint32_t count)
{
	struct queue larger;
	int result;

	if (count + SPARE <= residents->young.capacity)
		return 0;
	assert(residents->young.count == 0);
	result = queue_open(&larger, count);
	if (result)
		return result;
	queue_close(&residents->young);
	residents->young = larger;
	return 0;
}

void residents_close(struct residents *residents)
{
	if (!residents->pages)
		return;
	queue_close(&residents->young);
	queue_close(&residents->proven);
	pthread_mutex_destroy(&residents->lock);
	residents->pages = NULL;
}

uint64_t residents_memory(const struct residents *residents)
{
	return (uint64_t)(residents->young.capacity + residents->proven.capacity) * sizeof(uint32_t);
}

static void append(struct queue *queue, uint32_t page)
{
	assert(queue->count < queue->capacity);
	queue->ring[(queue->head + queue->count++) % queue->capacity] = page;
}

static uint32_t take_oldest(struct queue *queue)
{
	assert(queue->count > 0);
	uint32_t page = queue->ring[queue->head];
	queue->head = (queue->head + 1) % queue->capacity;
	queue->count--;
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

static void drop_stale(struct residents *residents, struct queue *queue)
{
	for (uint32_t scanned = 0; scanned < queue->capacity; scanned++) {
		uint32_t page = take_oldest(queue);
		if (is_stale(pages_load(residents->pages, page))) {
			pages_unmark(residents->pages, page, PAGE_QUEUED);
			return;
		}
		append(queue, page);
	}
	assert(!"more pages resident than the budget allows");
}

void residents_push(struct residents *residents, uint64_t page, bool proven)
{
	struct queue *queue = proven ? &residents->proven : &residents->young;
	if (pages_mark(residents->pages, page, PAGE_QUEUED) & PAGE_QUEUED)
		return;
	pthread_mutex_lock(&residents->lock);
	if (queue->count == queue->capacity)
		drop_stale(residents, queue);
	append(queue, (uint32_t)page);
	pthread_mutex_unlock(&residents->lock);
}

static struct queue *next_queue(struct residents *residents)
{
	if (residents->proven.count == 0 || residents->young.count > residents->young_share)
		return &residents->young;
	return &residents->proven;
}

unsigned residents_pop(struct residents *residents, uint64_t *pages, unsigned max)
{
	unsigned found = 0;
	pthread_mutex_lock(&residents->lock);
	uint32_t count = residents->young.count + residents->proven.count;
	for (uint32_t scanned = 0; found < max && scanned < count; scanned++) {
		struct queue *queue = next_queue(residents);
		uint32_t page = take_oldest(queue), word = pages_load(residents->pages, page);
		if (page_state(word) == PAGE_RESIDENT && !(word & PAGE_WRITING)) {
			pages_unmark(residents->pages, page, PAGE_QUEUED);
			pages[found++] = page;
		} else if (is_stale(word)) {
			pages_unmark(residents->pages, page, PAGE_QUEUED);
		} else {
			append(queue, page);
		}
	}
	pthread_mutex_unlock(&residents->lock);
	return found;
}
