/*
 * scrub: a slow look at pages that nobody reads, so that what rots on a donor is found, and mended while another
 * replica has it right.
 *
 * Theory of operation. A part of rebuild.h: the rebuild thread does it with its own queue, in its phase IDLE, when
 * there is no job and no repair. In passes from the array's first page to its last, each run of live pages of one chunk
 * is read from each FULL slot's donor, and checked like any fetch. The pages are held meanwhile, so that the slab stays
 * ours; writers are not kept out, for what they change may look wrong and costs no more than a second look: that is a
 * repair's (rebuild.h), page by page, in a window that keeps them out. A page that is still wrong then, live, and not
 * about to be written again, is counted and told, and written there anew from another replica; if there is none that
 * has it right, that is told, too. Donors that cannot be reached, and slots still being filled, are left for another
 * pass.
 *
 * The rate is far_config.scrub_rate, a quarter of it while requests are in flight on other queues: SCRUB_BURST pages,
 * then a pause. A pass takes no less time than one of SCRUB_LEAST bytes would, so that a small store is not read all
 * the time. While no chunk has a slab the scrub sleeps (`dormant`) until scrub_wake() sees that a donor leases one.
 *
 * Threads. The rebuild thread; scrub_wake: the control thread. Nothing is allocated.
 */
#ifndef CLIENT_SCRUB_H
#define CLIENT_SCRUB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SCRUB_BURST 64u /* pages */
#define SCRUB_SPOILT 64u
#define SCRUB_LEAST (UINT64_C(1) << 30)

struct far;
struct rebuild;

struct scrub {
	_Atomic bool dormant;
	/* The thread's own. */
	uint64_t page; /* where the pass has come to */
	uint32_t run;  /* live pages there; 0: to be looked for */
	unsigned slot; /* of their chunk, to be read next */
	unsigned donor;
	uint32_t epoch;       /* in which the chunk is held */
	bool seen;            /* a chunk that has a slab, in this pass */
	uint64_t burst;       /* pages read since the last pause */
	uint64_t begun;       /* the pass; 0: none yet */
	uint64_t due;         /* the next read */
	uint64_t quiet_until; /* pages that match nothing may be about to be written: nothing is believed wrong */
	_Atomic uint64_t told_changed; /* when that was last logged */
	_Atomic uint64_t told_spoilt;
	uint64_t spoilt[SCRUB_SPOILT]; /* pages that were, and with which contents: page << 16 | generation, or 0 */
	unsigned spoilt_next;
};

/* Before the first of the below. */
void scrub_open(struct scrub *scrub, const struct far *far, uint64_t now);
/* The thread has nothing else to do: submits the next read, or returns when it is due. */
uint64_t scrub_idle(struct rebuild *rebuild, uint64_t now);
/* It was answered. What is to be doubted is the rebuild's next task. */
uint64_t scrub_read_done(struct rebuild *rebuild, uint64_t now);

/* Nobody writes to rebuild->page now, which is live: a donor has sent it back changed; every replica that there is has.
   Counted (the latter: unless by the former), and logged once a second each. Not while a write of it may have been cut
   off, and be about to go out again, by this process or, for a while, as one that has ended left it: false. A page that
   was told to be spoilt is neither counted nor told again until it is written anew, as long as it is remembered among
   SCRUB_SPOILT. */
bool scrub_page_changed(struct rebuild *rebuild, unsigned donor, uint64_t now);
bool scrub_page_spoilt(struct rebuild *rebuild, bool counted, uint64_t now);

/* The control thread, now and then: there may be pages to look at. */
void scrub_wake(struct far *far);

#endif
