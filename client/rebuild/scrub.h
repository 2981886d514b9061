/*
 * scrub: slowly reads pages that nobody else reads. So pages that rot on a donor are found while another replica still
 * has them intact.
 *
 * Theory of operation. A pass goes from the first page of the array to the last. Each run of live pages of one chunk is
 * read from the donor of each FULL slot, and is checked like any fetched page. The chunk is held meanwhile, so that its
 * slab is not given back.
 *
 * Writers are not kept out. A page that changes during the read may look corrupt, which only costs a second look. That
 * second look is a repair (repair.h), which counts, logs and rewrites the page if it is still wrong. Donors that cannot
 * be reached, and slots that are still being filled, are left for a later pass.
 *
 * The rate is far_config.scrub_rate, and a quarter of it while other queues have requests in flight. The scrub reads
 * SCRUB_BURST pages, then pauses. A pass over a small store takes as long as one over SCRUB_LEAST bytes, so that a
 * small store is not read all the time. While no donor has a slab of this store the scrub sleeps (`dormant`), until
 * scrub_wake() sees one.
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
	struct repair *repair; /* takes a second look at pages */
	_Atomic bool dormant;
	/* The rest belongs to the rebuild thread. */
	uint64_t page, end; /* the pages that the pass is at */
	unsigned slot;      /* the slot of their chunk to read next */
	bool wrong;         /* some of these pages did not match */
	uint64_t burst;     /* pages read since the last pause */
	uint64_t begun;     /* when the pass began, or 0 if none has begun */
	uint64_t due;       /* when the next read may begin */
};

extern const struct chore_kind scrub_kind;
/* Ends the scrub's sleep if a slab is leased. The control thread calls this now and then. */
void scrub_wake(struct scrub *scrub, struct far *far);

#endif
