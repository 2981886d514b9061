/*
 * residents: queues of the resident pages, in the order of eviction.
 *
 * Theory of operation. The order is that of 2Q (Johnson and Shasha, 1994), with two first-in-first-out queues. A
 * page enters the *young* queue when it becomes resident. If the program touches an evicted page again while the
 * victim buffer (victims.h) still has it, the page enters the *proven* queue. So does a fetched page that a sixth more
 * local memory would have kept here (refault.h). While the program is in a loop, loop.h chooses these pages instead.
 * The evictor takes the oldest young page while the young queue is longer than its share of the budget. Otherwise it
 * takes the oldest proven page. So pages that are touched only once do not displace pages in use.
 *
 * The share adapts to the program, between a 32nd and three quarters of the budget. A page that returns from the victim
 * buffer was evicted too early. If the page had been proven, the share becomes smaller by one page. If it had been
 * young, the share becomes larger by a quarter of a page. So while the program does not change, at most about one of
 * five pages evicted from the proven queue returns. docs/performance.md compares other weights.
 *
 * Pages that cannot be evicted for now, because a device or their mapping holds them, wait in a third queue, *held*.
 * The evictor retries some of them now and then.
 *
 * A page is in at most one queue (PAGE_QUEUED). When a page is discarded, its entry stays and becomes stale. A push
 * into a full queue searches for a stale entry and drops it. The young and proven queues are a little longer than
 * the budget, so the search usually succeeds. But held pages can raise the number of resident pages above the
 * budget. If the search fails, the queue is made longer.
 *
 * Any thread may call these functions. They hold a lock for a few instructions, or for the search of a queue.
 */
#ifndef PAGER_RESIDENTS_H
#define PAGER_RESIDENTS_H

#include "pager/pages.h"

#include <pthread.h>

struct queue {
	uint32_t *ring;
	uint32_t capacity, head, count; /* `head`: index of the oldest entry */
};

struct residents {
	struct queue young, proven, held;
	uint32_t budget;      /* pages */
	uint32_t young_share; /* the young queue's share of the budget, in pages times YOUNG_WEIGHT */
	pthread_mutex_t lock;
	struct pages *pages;
};

/* @budget: the most pages that are resident at once. Returns 0 or -errno. */
int residents_open(struct residents *residents, struct pages *pages, uint32_t budget);
/* Makes the young queue long enough for the @count pages that are resident when the pager starts. @count may exceed
   the budget. Must be called before any push. Returns 0 or -errno. */
int residents_reserve(struct residents *residents, uint32_t count);
void residents_close(struct residents *residents);
uint64_t residents_memory(const struct residents *residents);

/* Appends @page, which has become resident, to the proven or the young queue. Does nothing if a queue already has the
   page. */
void residents_push(struct residents *residents, uint64_t page, bool proven);
/* Removes up to @max pages that can be evicted: resident, and not being written. A page that another thread works on
   moves to the end of its queue. Sets ret_proven[i] if pages[i] was proven; @ret_proven may be NULL. Returns the
   number of pages removed. */
unsigned residents_pop(struct residents *residents, uint64_t *pages, bool *ret_proven, unsigned max);
/* Adapts the young queue's share, after @young pages evicted from the young queue and @proven pages evicted from the
   proven queue have returned from the victim buffer. */
void residents_adapt(struct residents *residents, uint32_t young, uint32_t proven);

/* Appends @page, which is resident but cannot be evicted for now, to the held queue. */
void residents_hold(struct residents *residents, uint64_t page);
/* Does the same as residents_pop() on the held queue. */
unsigned residents_pop_held(struct residents *residents, uint64_t *pages, unsigned max);
/* residents_count() returns the number of entries in the young and proven queues, residents_held() in the held
   queue. Stale entries count, too. */
uint32_t residents_count(struct residents *residents);
uint32_t residents_held(struct residents *residents);

#endif
