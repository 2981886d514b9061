/*
 * scrub: slowly reads pages that nobody else reads. So pages that rot on a donor are found while another replica still
 * has them intact.
 *
 * Theory of operation. This is a part of rebuild.h. The rebuild thread does it with its own queue, in phase IDLE, when
 * it has no job and no repair. A pass goes from the first page of the array to the last. Each run of live pages of one
 * chunk is read from the donor of each FULL slot, and is checked like any fetched page. The chunk is held meanwhile, so
 * that its slab is not given back.
 *
 * Writers are not kept out. A page that changes during the read may look corrupt, which only costs a second look. That
 * second look is a repair (rebuild.h): page by page, in a window that keeps writers out. A page is then counted and
 * logged if it is still wrong, live, and not about to be written again. It is written there again from another replica.
 * If no replica has it intact, this is logged as well. Donors that cannot be reached, and slots that are still being
 * filled, are left for a later pass.
 *
 * The rate is far_config.scrub_rate, and a quarter of it while other queues have requests in flight. SCRUB_BURST pages
 * are read, then there is a pause. A pass takes at least as long as one over SCRUB_LEAST bytes would, so that a small
 * store is not read all the time. While no chunk has a slab the scrub sleeps (`dormant`), until scrub_wake() sees a
 * leased slab.
 *
 * Threads. The rebuild thread. scrub_wake: the control thread. Nothing is allocated.
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
	/* The rest belongs to the rebuild thread. */
	uint64_t page; /* where the pass is */
	uint32_t run;  /* live pages from there on, or 0 if they are not yet known */
	unsigned slot; /* of their chunk, to be read next */
	unsigned donor;
	uint32_t epoch;       /* in which the chunk is held */
	bool seen;            /* this pass has met a chunk that has a slab */
	uint64_t burst;       /* pages read since the last pause */
	uint64_t begun;       /* when the pass began, or 0 if none has begun */
	uint64_t due;         /* when the next read may begin */
	uint64_t quiet_until; /* until then, a mismatch may be a write that an earlier process left unfinished */
	_Atomic uint64_t told_changed; /* when that was last logged */
	_Atomic uint64_t told_spoilt;
	uint64_t spoilt[SCRUB_SPOILT]; /* page << 16 | generation of spoilt pages that were logged, or 0 for none */
	unsigned spoilt_next;
};

/* Must be called before the functions below. */
void scrub_open(struct scrub *scrub, const struct far *far, uint64_t now);
/* Submits the next read if it is due. Must be called when the thread has nothing else to do. Returns when to call it
   again. */
uint64_t scrub_idle(struct rebuild *rebuild, uint64_t now);
/* Handles the answer to the read. If it does not match, a repair becomes the thread's next task. */
uint64_t scrub_read_done(struct rebuild *rebuild, uint64_t now);

/*
 * Reports that rebuild->page is corrupt on @donor, while no writer is in its window. Counts and logs this, and returns
 * true.
 *
 * Does nothing and returns false if a write of the page may have been cut off and is still to be repeated. This
 * includes the last writes of the earlier process, for 10 s and twice timeout_ms after an adoption.
 *
 * A page that was logged as spoilt is not counted or logged again until it is written. Only the last SCRUB_SPOILT such
 * pages are remembered. Each kind of line is logged at most once a second.
 */
bool scrub_page_changed(struct rebuild *rebuild, unsigned donor, uint64_t now);
/* Likewise reports that no replica that can be reached has the page intact: it is spoilt. @counted means that the page
   has been counted already. */
bool scrub_page_spoilt(struct rebuild *rebuild, bool counted, uint64_t now);

/* Ends the scrub's sleep if a slab is leased. Called now and then by the control thread. */
void scrub_wake(struct far *far);

#endif
