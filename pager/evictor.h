/*
 * evictor: the thread that evicts pages.
 *
 * Theory of operation. The evictor sleeps until fewer than `low` pages are free. Then it evicts batches of the
 * oldest resident pages (residents.h) until `high` pages are free. The evictor first moves a batch out of the program's
 * reach (take.h), so that the contents no longer change, and copies it to the victim buffer (victims.h). Then it
 * compares the contents of each page with the donors' contents:
 * - A page of zeroes becomes untouched: nothing needs to be stored.
 * - A page that equals the donors' contents is clean. It is not written.
 * - Any other page is dirty. It is written to its donors (writer.h).
 *
 * Clean and dirty pages stay in the victim buffer. Until a page's frame is reused, the handler answers faults on the
 * page from the frame.
 *
 * Pages that cannot leave. A page that a device or its mapping holds (TAKE_HELD in take.h) goes to the held queue
 * (residents.h). The evictor retries a batch of this queue now and then. If no other page is left to evict and no
 * memory is free, the program would wait forever. So the evictor then raises the limit and logs a line.
 *
 * Forked children (children.h). Before the evictor changes the donors' contents of a page that children need, it copies
 * them to a shadow. It also writes the pages to shadows that children have moved out (reclaim.h).
 *
 * If another thread calls evictor_send_out(), the evictor serves this request before it checks the number of free
 * pages again.
 */
#ifndef PAGER_EVICTOR_H
#define PAGER_EVICTOR_H

#include "pager/core.h"
#include "pager/take.h"
#include "pager/writer.h"

#include <pthread.h>

struct evictor {
	struct core *core;
	struct writer writer;
	struct take take;
	unsigned batch; /* pages per batch, at most TAKE_MAX */
	pthread_t thread;
	bool running;
	uint64_t store_memory;  /* the store's memory that the limit takes into account (evictor.c) */
	uint64_t overhead;      /* bytes of farpage's fixed tables, which count against the budget */
	uint64_t local;         /* the local budget in bytes, from the options */
	unsigned since_account; /* batches since the last account() (evictor.c) */
	int64_t beyond;         /* by how many pages the limit was raised, because too many pages are held */
	bool told_beyond;
	int cpu; /* the processor that the evictor is pinned to, or -1 for none (follow.h) */

	pthread_mutex_t request_lock; /* for one request at a time; guards the fields below */
	pthread_cond_t request_done;
	bool request_busy;
	_Atomic bool request_posted;
	uint64_t request_page, request_count;
};

/* @landing and @copies are those of take_open(). Does not start the thread. Returns 0 or -errno. */
int evictor_open(struct evictor *evictor, struct core *core, void *landing, unsigned batch, bool copies);
int evictor_start(struct evictor *evictor);
/* Ends the thread and frees the evictor's memory. The caller sets core->stop first. Works after a failed
   evictor_open(), too. */
void evictor_close(struct evictor *evictor);

/* Evicts @count pages from @page on. Returns when their donors have them. Any thread except the pager's own. */
void evictor_send_out(struct evictor *evictor, uint64_t page, uint64_t count);

#endif
