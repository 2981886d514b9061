#include "pager/residents.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

#define YOUNG_WEIGHT 4 /* as many returned young pages weigh as much as one returned proven page */
/* The young queue's share of a budget, in pages times YOUNG_WEIGHT: at the start (as 2Q proposes), at
   least, at most. */
#define SHARE_FIRST(budget) (YOUNG_WEIGHT * (budget) / 4)
#define SHARE_MIN(budget) (YOUNG_WEIGHT * (budget) / 32)
#define SHARE_MAX(budget) (YOUNG_WEIGHT * (budget) / 4 * 3)
#define SPARE 64 /* entries beyond the budget, because some entries are stale */

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
	*residents = (struct residents){.pages = pages, .budget = budget, .young_share = SHARE_FIRST(budget)};
	pthread_mutex_init(&residents->lock, NULL);
	int result = queue_open(&residents->young, budget);
	if (result == 0)
		result = queue_open(&residents->proven, budget);
	return result ? result : queue_open(&residents->held, 0);
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
	queue_close(&residents->held);
	pthread_mutex_destroy(&residents->lock);
	residents->pages = NULL;
}

uint64_t residents_memory(const struct residents *residents)
{
	return (uint64_t)(residents->young.capacity + residents->proven.capacity + residents->held.capacity) *
	       sizeof(uint32_t);
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

static bool is_stale(uint32_t word)
{
	switch (page_state(word)) {
	case PAGE_RESIDENT:
	case PAGE_FETCHING:
	case PAGE_FILLING:
	case PAGE_RETURNING:
	case PAGE_EVICTING:
		return false;
	default:
		return true;
	}
}

/* Puts @page back at the end of @queue. @word is the page's word when it was removed from the queue. Does nothing and
   returns false if the page is stale, or if another thread has queued the page since (PAGE_QUEUED). */
static bool put_back(struct residents *residents, struct queue *queue, uint32_t page, uint32_t word)
{
	if (is_stale(word) || pages_mark(residents->pages, page, PAGE_QUEUED) & PAGE_QUEUED)
		return false;
	append(queue, page);
	return true;
}

static bool drop_stale(struct residents *residents, struct queue *queue)
{
	for (uint32_t scanned = 0; scanned < queue->capacity; scanned++) {
		uint32_t page = take_oldest(queue);

		if (!put_back(residents, queue, page, pages_unmark(residents->pages, page, PAGE_QUEUED)))
			return true;
	}
	return false;
}

static bool queue_grow(struct queue *queue)
{
	struct queue larger;

	if (queue_open(&larger, 2 * queue->capacity))
		return false;
	while (queue->count)
		append(&larger, take_oldest(queue));
	queue_close(queue);
	*queue = larger;
	return true;
}

static void push(struct residents *residents, struct queue *queue, uint64_t page)
{
	if (pages_mark(residents->pages, page, PAGE_QUEUED) & PAGE_QUEUED)
		return;
	pthread_mutex_lock(&residents->lock);
	bool room = queue->count < queue->capacity || drop_stale(residents, queue) || queue_grow(queue);
	if (room)
		append(queue, (uint32_t)page);
	pthread_mutex_unlock(&residents->lock);
	if (!room)
		pages_unmark(residents->pages, page, PAGE_QUEUED); /* no memory: the page is never evicted */
}

void residents_push(struct residents *residents, uint64_t page, bool proven)
{
	push(residents, proven ? &residents->proven : &residents->young, page);
}

void residents_hold(struct residents *residents, uint64_t page)
{
	push(residents, &residents->held, page);
}

static struct queue *next_queue(struct residents *residents)
{
	if (residents->proven.count == 0 || YOUNG_WEIGHT * residents->young.count > residents->young_share)
		return &residents->young;
	return &residents->proven;
}

/* Removes the oldest page of @queue. If the page cannot be evicted now, returns false. The page then goes to the
   end of the queue, unless it is stale. */
static bool pop(struct residents *residents, struct queue *queue, uint64_t *ret_page)
{
	uint32_t page = take_oldest(queue), word = pages_unmark(residents->pages, page, PAGE_QUEUED);
	bool ready = page_state(word) == PAGE_RESIDENT && !(word & PAGE_WRITING);

	if (ready)
		*ret_page = page;
	else
		put_back(residents, queue, page, word);
	return ready;
}

unsigned residents_pop(struct residents *residents, uint64_t *pages, bool *ret_proven, unsigned max)
{
	unsigned found = 0;

	pthread_mutex_lock(&residents->lock);
	uint32_t count = residents->young.count + residents->proven.count;
	for (uint32_t scanned = 0; found < max && scanned < count; scanned++) {
		struct queue *queue = next_queue(residents);

		if (ret_proven)
			ret_proven[found] = queue == &residents->proven;
		found += pop(residents, queue, &pages[found]);
	}
	pthread_mutex_unlock(&residents->lock);
	return found;
}

void residents_adapt(struct residents *residents, uint32_t young, uint32_t proven)
{
	if (young == 0 && proven == 0)
		return;
	pthread_mutex_lock(&residents->lock);
	int64_t share = (int64_t)residents->young_share + young - YOUNG_WEIGHT * (int64_t)proven;
	int64_t least = SHARE_MIN(residents->budget), most = SHARE_MAX(residents->budget);
	residents->young_share = (uint32_t)(share < least ? least : share > most ? most : share);
	pthread_mutex_unlock(&residents->lock);
}

unsigned residents_pop_held(struct residents *residents, uint64_t *pages, unsigned max)
{
	unsigned found = 0;

	pthread_mutex_lock(&residents->lock);
	uint32_t count = residents->held.count;
	for (uint32_t scanned = 0; found < max && scanned < count; scanned++)
		found += pop(residents, &residents->held, &pages[found]);
	pthread_mutex_unlock(&residents->lock);
	return found;
}

uint32_t residents_count(struct residents *residents)
{
	pthread_mutex_lock(&residents->lock);
	uint32_t count = residents->young.count + residents->proven.count;
	pthread_mutex_unlock(&residents->lock);
	return count;
}

uint32_t residents_held(struct residents *residents)
{
	pthread_mutex_lock(&residents->lock);
	uint32_t count = residents->held.count;
	pthread_mutex_unlock(&residents->lock);
	return count;
}
