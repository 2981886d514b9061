/*
 * residents: the pages on this machine, and the order in which they are evicted.
 *
 * Theory of operation. Two first-in-first-out queues, after 2Q (Johnson and Shasha, 1994). Pages arrive in the *young*
 * one. A page that was missed again while it was still in the victim buffer (victims.h) has shown that it is in use
 * and comes back to the *proven* one. While the young have more than their share of the budget, the oldest of them
 * leaves, else the oldest proven page: pages touched once pass through without driving out those in use.
 *
 * Pages that cannot leave for now, because a device or their mapping holds them, wait in a third queue, *held*. The
 * evictor tries some of them again now and then.
 *
 * A page stands in one queue at most once (PAGE_QUEUED), and may be stale: its page was discarded since. The first two
 * queues are a little longer than the budget, so that a scan usually finds a stale entry to drop before it would
 * overflow. If there is none (more is here than the budget allows, for too much is held), the queue is made longer.
 *
 * Any thread; a lock held for a few instructions.
 */
#ifndef PAGER_RESIDENTS_H
#define PAGER_RESIDENTS_H

#include "pager/pages.h"
#include <pthread.h>

/* A ring of page numbers. */
struct queue {
	uint32_t *ring;
	uint32_t capacity, head, count; /* head: the oldest */
};

struct residents {
	struct queue young, proven, held;
	uint32_t young_share; /* pages */
	pthread_mutex_t lock;
	struct pages *pages;
};

/* @budget: pages that can be resident at once. */
int residents_open(struct residents *residents, struct pages *pages, uint32_t budget);
/* Room for @count pages that are resident from the start, more than the budget. Nothing was pushed yet. */
int residents_reserve(struct residents *residents, uint32_t count);
void residents_close(struct residents *residents);
/* Bytes of memory it takes. */
uint64_t residents_memory(const struct residents *residents);

/* @page became resident, @proven to be in use or not: behind the others, unless it stands here already. */
void residents_push(struct residents *residents, uint64_t page, bool proven);
/* Takes up to @max pages that are to leave: resident and not being written. Those in somebody's hands go to the end. */
unsigned residents_pop(struct residents *residents, uint64_t *pages, unsigned max);

/* @page is resident and cannot leave for now. */
void residents_hold(struct residents *residents, uint64_t page);
/* As residents_pop, of those that are held: the ones that have waited longest. */
unsigned residents_pop_held(struct residents *residents, uint64_t *pages, unsigned max);
/* Pages that stand in the queues, or are held; stale ones included. */
uint32_t residents_count(struct residents *residents);
uint32_t residents_held(struct residents *residents);

#endif
