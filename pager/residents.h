/*
 * residents: the resident pages, in the order of eviction.
 *
 * Theory of operation. Two first-in-first-out queues follow 2Q (Johnson and Shasha, 1994). Pages arrive in the *young*
 * queue. If a page is touched again while it is in the victim buffer (victims.h), it comes back to the *proven* queue.
 * While the young queue exceeds its share of the budget, its oldest page leaves. Otherwise the oldest proven page
 * leaves. So pages that are touched only once do not drive out pages in use.
 *
 * Pages that cannot leave for now, because a device or their mapping holds them, wait in a third queue, *held*. The
 * evictor retries some of them now and then.
 *
 * A page is in at most one queue (PAGE_QUEUED). An entry is stale if its page was discarded meanwhile. The first two
 * queues are a little longer than the budget. So a scan usually finds a stale entry to drop before a queue is full. If
 * many pages are held, more pages are resident than the budget allows. A full queue without a stale entry is made
 * longer.
 *
 * Any thread may call these functions. A lock is held for a few instructions, or for one scan of a queue.
 */
#ifndef PAGER_RESIDENTS_H
#define PAGER_RESIDENTS_H

#include "pager/pages.h"
#include <pthread.h>

/* A ring of page numbers. */
struct queue {
	uint32_t *ring;
	uint32_t capacity, head, count; /* `head` is the index of the oldest */
};

struct residents {
	struct queue young, proven, held;
	uint32_t young_share; /* pages */
	pthread_mutex_t lock;
	struct pages *pages;
};

/* @budget is the number of pages that can be resident at once. Returns 0 or -errno. */
int residents_open(struct residents *residents, struct pages *pages, uint32_t budget);
/* Makes room for @count pages that are resident from the start, more than the budget. Call it before any push. Returns
   0 or -errno. */
int residents_reserve(struct residents *residents, uint32_t count);
void residents_close(struct residents *residents);
/* Returns the bytes of memory that the queues take. */
uint64_t residents_memory(const struct residents *residents);

/* Appends @page, which became resident, to the proven or the young queue. Does nothing if it is in a queue already. */
void residents_push(struct residents *residents, uint64_t page, bool proven);
/* Takes up to @max pages to evict: pages that are resident and not being written. A page that another thread works on
   goes to the end. Returns the number of pages. */
unsigned residents_pop(struct residents *residents, uint64_t *pages, unsigned max);

/* Appends @page, which is resident and cannot leave for now, to the held queue. */
void residents_hold(struct residents *residents, uint64_t page);
/* Does the same as residents_pop() for held pages. Takes the pages that have waited longest. */
unsigned residents_pop_held(struct residents *residents, uint64_t *pages, unsigned max);
/* Return the entries of the young and proven queues, or of the held queue. Stale entries count. */
uint32_t residents_count(struct residents *residents);
uint32_t residents_held(struct residents *residents);

#endif
