#include "pager/shadows.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

static size_t entries_bytes(const struct shadows *shadows)
{
	return shadows->count * sizeof *shadows->entries;
}

int shadows_open(struct shadows *shadows, struct store *store, struct pages *pages, uint64_t first)
{
	uint64_t count = store->pages > first ? store->pages - first : 0;

	*shadows = (struct shadows){.store = store,
				    .pages = pages,
				    .first = first,
				    .count = count < SHADOWS_NONE ? count : SHADOWS_NONE,
				    .free = SHADOWS_NONE};
	pthread_mutex_init(&shadows->lock, NULL);
	if (!shadows->count)
		return 0;
	void *entries = mmap(NULL, entries_bytes(shadows), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (entries == MAP_FAILED)
		return -ENOMEM;
	madvise(entries, entries_bytes(shadows), MADV_DONTFORK);
	shadows->entries = entries;
	return 0;
}

void shadows_close(struct shadows *shadows)
{
	if (shadows->entries)
		munmap(shadows->entries, entries_bytes(shadows));
	if (shadows->store)
		pthread_mutex_destroy(&shadows->lock);
	*shadows = (struct shadows){0};
}

uint64_t shadows_memory(const struct shadows *shadows)
{
	return shadows->fresh * (sizeof *shadows->entries + sizeof *shadows->pages->words);
}

uint32_t shadows_left(struct shadows *shadows)
{
	pthread_mutex_lock(&shadows->lock);
	uint32_t left = (uint32_t)shadows->count - shadows->used;
	pthread_mutex_unlock(&shadows->lock);
	return left;
}

uint64_t shadows_allocate(struct shadows *shadows, uint32_t kept)
{
	uint32_t shadow = SHADOWS_NONE;

	pthread_mutex_lock(&shadows->lock);
	if (shadows->count - shadows->used <= kept) {
		shadow = SHADOWS_NONE;
	} else if (shadows->free != SHADOWS_NONE) {
		shadow = shadows->free;
		shadows->free = shadows->entries[shadow];
	} else {
		shadow = shadows->fresh++;
	}
	if (shadow != SHADOWS_NONE) {
		shadows->entries[shadow] = 1;
		shadows->used++;
		pages_mark(shadows->pages, shadows->first + shadow, PAGE_SNAPSHOT);
	}
	pthread_mutex_unlock(&shadows->lock);
	return shadow == SHADOWS_NONE ? 0 : shadows->first + shadow;
}

/* Frees a shadow that has no user and is not being written. */
static void put(struct shadows *shadows, uint64_t page)
{
	uint32_t shadow = (uint32_t)(page - shadows->first);

	store_discard(shadows->store, page, 1);
	shadows->entries[shadow] = shadows->free;
	shadows->free = shadow;
	shadows->used--;
}

void shadows_share(struct shadows *shadows, uint64_t page)
{
	if (!shadows_has(shadows, page))
		return;
	pthread_mutex_lock(&shadows->lock);
	assert(shadows->entries[page - shadows->first]);
	shadows->entries[page - shadows->first]++;
	pthread_mutex_unlock(&shadows->lock);
}

void shadows_drop(struct shadows *shadows, uint64_t page)
{
	if (!shadows_has(shadows, page))
		return;
	pthread_mutex_lock(&shadows->lock);
	assert(shadows->entries[page - shadows->first]);
	if (--shadows->entries[page - shadows->first] == 0 &&
	    !(pages_unmark(shadows->pages, page, PAGE_SNAPSHOT) & PAGE_WRITING))
		put(shadows, page);
	pthread_mutex_unlock(&shadows->lock);
}

void shadows_written(struct shadows *shadows, uint64_t page)
{
	pthread_mutex_lock(&shadows->lock);
	pages_unmark(shadows->pages, page, PAGE_WRITING);
	if (shadows->entries[page - shadows->first] == 0)
		put(shadows, page);
	pthread_mutex_unlock(&shadows->lock);
}
