/*
 * leases: which slabs are asked for and given back, as a state machine without I/O or clock.
 *
 * Theory of operation. Chunks that queues marked (chunks.h, `attention`) are either wanted or idle. A wanted chunk
 * becomes a want: one lease request for each replica, on donors that placement.c chooses; denied or lost requests are
 * tried on other donors, and when the last has said no the chunk is denied, as it is after the timeout. Only so many
 * wants are active at once, the others wait in a list. An idle chunk's slab is given back when it was idle for a
 * while, so that one that fills and empties does not flap; a wanted chunk gets an idle one's slab first. A
 * chunk that was granted is looked at again after a while: whoever wanted it may have gone. One asked for ahead of its
 * first write counts as idle at once, so that it serves whichever chunk needs a slab next.
 *
 * A donor that is away is neither asked nor given anything back: a want that only it could serve waits for it until the
 * timeout, and slabs wait to be given back, so that what it is found to hold when it returns (claims.h) is what the
 * chunk table says. What was asked of it and not answered is asked anew; what it granted all the same, it takes back.
 *
 * A chunk's part of the integrity arrays is made present before its first slab is asked for (integrity_begin).
 *
 * Each event may leave actions behind; the caller takes them with leases_next() until there is none.
 *
 * Threads: the control thread's.
 */
#ifndef CLIENT_LEASES_H
#define CLIENT_LEASES_H

#include "client/chunks.h"
#include "client/integrity.h"
#include "common/random.h"

#include <stdbool.h>
#include <stdint.h>

/* With LEASES_WINDOW no more than a connection takes unsent messages: a donor that stalls is not found dead by that. */
#define LEASES_WANTS_MAX 16
/* Releases wait while so many requests are in flight to one donor. */
#define LEASES_WINDOW 16
#define LEASES_ACTIONS 512

struct leases_config {
	unsigned donor_count;
	uint64_t slab_bytes;
	uint64_t timeout_ns; /* a chunk that is wanted for longer is denied */
	uint64_t idle_ns;    /* a slab is idle for so long before it is given back */
	uint64_t seed;
};

struct leases_donor {
	bool live;        /* known, and not lost */
	bool away;        /* it cannot be reached for now */
	uint64_t free;    /* bytes, as last heard */
	uint32_t asked;   /* leases asked for and not answered */
	uint32_t waiting; /* requests of any kind in flight */
	uint64_t held;    /* slabs this store holds there */
};

struct leases_want {
	bool active;
	bool over; /* the chunk has its answer; requests in flight keep the want */
	uint32_t chunk;
	uint64_t deadline;
	uint64_t tried;                      /* donors that said no, a bit each */
	uint32_t requests[FAR_REPLICAS_MAX]; /* in flight, or 0 */
	bool granted[FAR_REPLICAS_MAX];
	struct chunk_slot slots[FAR_REPLICAS_MAX]; /* slots[].donor: also of the request in flight */
};

/* Chunks, oldest first. A chunk is in one list at most. */
enum leases_list_kind { LEASES_UNLISTED, LEASES_WANTED, LEASES_IDLE, LEASES_FRESH, LEASES_LISTS };
struct leases_list {
	uint32_t first, last; /* index + 1, 0: none */
};

enum leases_action_kind {
	LEASES_ASK,     /* send LEASE with `request` to `donor` */
	LEASES_RELEASE, /* send RELEASE of `slab` to `donor` */
	LEASES_WAKE,    /* a chunk was granted, denied or lost: wake the queues that wait */
};
struct leases_action {
	enum leases_action_kind kind;
	uint32_t donor, request;
	uint64_t slab;
};

struct leases {
	struct leases_config config;
	struct chunk_table *table;
	struct integrity *integrity;
	struct random_state random;
	struct leases_donor donors[FAR_DONORS_MAX];
	struct leases_want wants[LEASES_WANTS_MAX];
	uint32_t request;                       /* the last one made */
	struct leases_list lists[LEASES_LISTS]; /* waiting to become a want; seen idle; granted lately */
	unsigned head, tail;
	struct leases_action actions[LEASES_ACTIONS];
};

/* @table and @integrity outlive it. */
void leases_init(struct leases *leases, const struct leases_config *config, struct chunk_table *table,
		 struct integrity *integrity);
bool leases_next(struct leases *leases, struct leases_action *ret_action);
/* When leases_tick() is wanted next; UINT64_MAX: never. */
uint64_t leases_due(const struct leases *leases);

/* The donor is ready, or its figures are known anew. */
void leases_donor_heard(struct leases *leases, unsigned donor, uint64_t free);
/* It holds @held slabs for us since before, and has yet to be reached. */
void leases_donor_adopt(struct leases *leases, unsigned donor, uint64_t held);
/* It cannot be reached; it can be reached again, and holds the slabs that the chunk table says. */
void leases_donor_away(struct leases *leases, unsigned donor, uint64_t now);
void leases_donor_back(struct leases *leases, unsigned donor, uint64_t held, uint64_t free, uint64_t now);
/* Its slabs are gone: returns how many pages were lost with them. */
uint64_t leases_donor_lost(struct leases *leases, unsigned donor, uint64_t now);
/* Looks at the chunks the queues have marked. */
void leases_scan(struct leases *leases, uint64_t now);
void leases_tick(struct leases *leases, uint64_t now);

/* The answers. @slot: address, rkey and slab; a grant nobody waits for any more is given back. False: nothing of the
   kind was asked, the donor has broken the protocol. */
bool leases_granted(struct leases *leases, unsigned donor, uint32_t request, const struct chunk_slot *slot,
		    uint64_t now);
bool leases_denied(struct leases *leases, unsigned donor, uint32_t request, uint64_t now);
bool leases_released(struct leases *leases, unsigned donor);

#endif
