/*
 * residents: the pages on this machine, oldest arrival first: the order in which they are evicted.
 *
 * Theory of operation. A ring of page numbers. A page stands in it at most once (PAGE_QUEUED), and may be stale: its
 * page was discarded since. Twice as long as the budget, so that a scan always finds a stale entry to drop before it
 * would overflow. First in, first out is the whole policy here; the second chance is given by the victim buffer
 * (victims.h), out of which a page that is missed soon returns without the network, to the young end.
 *
 * Any thread; a lock held for a few instructions.
 */
#ifndef PAGER_RESIDENTS_H
#define PAGER_RESIDENTS_H

#include "pager/pages.h"
#include <pthread.h>

struct residents {
	uint32_t *ring;
	uint32_t capacity, head, count; /* head: the oldest */
	pthread_mutex_t lock;
	struct pages *pages;
};

/* @budget: pages that can be resident at once. */
int residents_open(struct residents *residents, struct pages *pages, uint32_t budget);
void residents_close(struct residents *residents);
/* Bytes of memory it takes. */
uint64_t residents_memory(const struct residents *residents);

/* @page became resident: to the young end, unless it stands here already. */
void residents_push(struct residents *residents, uint64_t page);
/* Takes up to @max of the oldest pages that are resident and not being written. Those still in somebody's hands go
   to the young end. */
unsigned residents_pop(struct residents *residents, uint64_t *pages, unsigned max);

#endif
