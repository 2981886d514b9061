/*
 * scrub: slowly reads all pages, also those that nobody uses. So a page that goes bad on one donor is found while
 * another replica still has it intact.
 *
 * Theory of operation. A pass goes through the array from the first page to the last. It reads each run of live
 * pages of one chunk from the donor of each FULL slot, and checks them like any fetched page. Meanwhile it raises
 * the chunk's count, so that the slabs are not released. Donors that cannot be reached, and slots that are still
 * being filled, are left for a later pass.
 *
 * Writes are not kept out, so a page that is written during the read may look changed. The scrub therefore only
 * asks for a repair (repair.h). The repair reads the page again in a window, and counts, logs and rewrites it if it
 * is still wrong.
 *
 * Pace. The rate is far_config.scrub_rate, and a quarter of it while other queues have requests in flight. The scrub
 * reads SCRUB_BURST pages, then pauses. A pass takes at least as long as a pass over SCRUB_LEAST bytes, so that a
 * small store is not read all the time. While no donor has a slab of this store, the scrub sleeps (`dormant`) until
 * scrub_wake() finds a slab.
 *
 * Threads. The rebuild thread. The control thread calls scrub_wake(). Nothing is allocated.
 */
#ifndef CLIENT_SCRUB_H
#define CLIENT_SCRUB_H

#include "client/rebuild/copier.h"

#define SCRUB_BURST 64u /* pages */
#define SCRUB_LEAST (UINT64_C(1) << 30)

struct scrub {
	struct chore chore;
	struct repair *repair;
	_Atomic bool dormant;
	/* Only the rebuild thread uses the fields below. */
	uint64_t page, end; /* the pages that the pass has reached */
	unsigned slot;      /* the slot of their chunk to read next */
	bool wrong;         /* a donor returned wrong bytes for some of these pages */
	uint64_t burst;     /* pages read since the last pause */
	uint64_t begun;     /* when the pass began, or 0 if it has not begun */
	uint64_t due;
};

extern const struct chore_kind scrub_kind;
/* Ends the scrub's sleep if the store has a slab. The control thread calls this whenever it is awake. */
void scrub_wake(struct scrub *scrub, struct far *far);

#endif
