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
 * Replicas. With several, nobody waits for a donor that is missing while another one is there. A chunk that is wanted
 * then begins with the slabs that can be had. A write that meets an away donor says so (chunk_hinder); if another
 * replica is on a donor that is up, the away one's slot is detached: what it has is not written any more, and is never
 * read again. A lost donor's slots are detached wherever another replica lives; where none does, the chunk is lost.
 * Chunks that lack a replica get a join, a few at a time, those that have but one first: a slab on a donor that holds
 * none of theirs, as a JOINING slot; then the caller is told to fill it (rebuild.h), and says whether that went well.
 * If so it becomes FULL. If not it is detached, and goes back when the caller has seen that nothing is under way to it
 * any more (LEASES_DRAIN); then it begins anew. While no donor has room that is tried again after a pause.
 *
 * Failure domains (domains.h). What was said of donors goes for their mates as well: no two slots of a chunk are on
 * donors that fail together, but for one that is to go and the one that takes its place. Where there are fewer domains
 * than replicas, chunks lack some.
 *
 * Recalls. A donor that needs its memory wants slabs back (REVOKE). A chunk with such a slab counts as lacking a
 * replica, also when it has only one: it gets a join on another donor, and when that is filled, and as many replicas as
 * there are to be are on others, the slot of the slab is detached, and the slab goes back when nothing is under way to
 * it. When the deadline comes first the slot is left: its chunk goes on with its other replicas, or is lost. The slab
 * then needs no release, its donor takes it.
 *
 * Where there is a backup a chunk whose slabs are all recalled, and for which no other donor has room, leaves for that
 * (LEASES_LEAVE): the caller moves its pages there while writes go there, too; when it is empty, and nothing is under
 * way to its slabs any more, they go back.
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
#include "client/domains.h"
#include "client/integrity.h"
#include "common/random.h"

#include <stdbool.h>
#include <stdint.h>

/* With LEASES_WINDOW no more than a connection takes unsent messages: a donor that stalls is not found dead by that. */
#define LEASES_WANTS_MAX 16
/* Releases wait while so many requests are in flight to one donor. */
#define LEASES_WINDOW 16
#define LEASES_ACTIONS 512
/* Replicas made anew at a time: while one is filled, the next one's donor makes a slab ready. */
#define LEASES_JOINS_MAX 2

struct leases_config {
	unsigned donor_count;
	uint64_t slab_bytes;
	uint64_t timeout_ns; /* a chunk that is wanted for longer is denied */
	uint64_t idle_ns;    /* a slab is idle for so long before it is given back */
	uint64_t pause_ns;   /* between two looks for a donor with room for a replica that is lacking */
	uint64_t seed;
	bool backup; /* there is one */
};

struct leases_donor {
	bool live;        /* known, and not lost */
	bool away;        /* it cannot be reached for now */
	bool claiming;    /* and its slabs are being claimed: none of their slots may go */
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

/*
 * A chunk that is to have one more replica.
 *
 *     FREE --asked--> ASKING --granted--> FILLING --filled--> FREE
 *                       |                    +--in vain--> DRAINING --drained--> FREE
 *                       +--denied, or not wanted any more--> FREE
 *
 * or that leaves for the backup:
 *
 *     FREE, ASKING --nobody has room--> LEAVING --left--> EMPTYING --drained--> FREE
 *                                          +--in vain--> FREE
 */
enum leases_join_state { JOIN_FREE, JOIN_ASKING, JOIN_FILLING, JOIN_DRAINING, JOIN_LEAVING, JOIN_EMPTYING };
struct leases_join {
	enum leases_join_state state;
	uint32_t chunk, epoch, request;
	unsigned replica;
	uint64_t tried;         /* donors that said no, a bit each */
	struct chunk_slot slot; /* slot.donor: also of the request in flight */
	bool cut;               /* its donor went away: the slot is not there any more, nor the slab ours */
};

/* Chunks, oldest first. A chunk is in one list at most. */
enum leases_list_kind { LEASES_UNLISTED, LEASES_WANTED, LEASES_IDLE, LEASES_FRESH, LEASES_LISTS };
struct leases_list {
	uint32_t first, last; /* index + 1, 0: none */
};

enum leases_action_kind {
	LEASES_ASK,     /* send LEASE with `request` to `donor` */
	LEASES_RELEASE, /* send RELEASE of `slab` to `donor` */
	LEASES_WAKE,    /* a chunk was granted, denied, lost, or lost a slot: wake the queues that wait */
	LEASES_FILL,    /* copy into the JOINING slot of join `request`; leases_filled() when it is over */
	LEASES_DRAIN,   /* leases_drained() when nothing is under way to the slot that join `request` had */
	LEASES_LEAVE,   /* move the pages of join `request`'s chunk to the backup; leases_left() when it is over */
	LEASES_LACKING, /* replicas begin to be made anew, and: */
	LEASES_WHOLE,   /* no chunk lacks any */
};
struct leases_action {
	enum leases_action_kind kind;
	uint32_t donor, request, chunk, epoch;
	uint64_t slab;
};

/* A slab that its donor wants back. */
struct leases_recall {
	uint64_t slab;
	uint64_t until; /* it may be used, ns; 0: it is not wanted back */
	uint32_t donor;
};

struct leases {
	struct leases_config config;
	struct chunk_table *table;
	struct integrity *integrity;
	struct random_state random;
	struct leases_donor donors[FAR_DONORS_MAX];
	struct domains domains;
	struct leases_want wants[LEASES_WANTS_MAX];
	uint32_t request; /* the last one made */
	struct leases_join joins[LEASES_JOINS_MAX];
	struct leases_recall *recalls;          /* of each chunk's slots; NULL: nothing can be recalled */
	bool recalled;                          /* some slab may be recalled */
	uint64_t recall_due;                    /* the first deadline of those */
	bool lacking;                           /* some chunk may lack a replica */
	bool mending;                           /* LEASES_LACKING was told */
	uint32_t join_next;                     /* where the next chunk is looked for */
	uint64_t join_at;                       /* and when */
	bool join_any;                          /* be it the most endangered or not */
	struct leases_list lists[LEASES_LISTS]; /* waiting to become a want; seen idle; granted lately */
	bool wake;                              /* LEASES_WAKE is to come */
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
/* Which failure domain it is in ("": one of its own): before it is first of use, and before it is again. What it holds
   stays. */
void leases_donor_named(struct leases *leases, unsigned donor, const char *domain);
/* It holds @held slabs for us since before, and has yet to be reached. */
void leases_donor_adopt(struct leases *leases, unsigned donor, uint64_t held);
/* It cannot be reached; it can be reached again, and holds the slabs that the chunk table says. */
void leases_donor_away(struct leases *leases, unsigned donor, uint64_t now);
void leases_donor_back(struct leases *leases, unsigned donor, uint64_t held, uint64_t free, uint64_t now);
/* Its slabs are being claimed, or that has ended without its being back. */
void leases_donor_claiming(struct leases *leases, unsigned donor, bool claiming);
/* Its slabs are gone: returns how many pages were lost with them. */
uint64_t leases_donor_lost(struct leases *leases, unsigned donor, uint64_t now);
/* Looks at the chunks the queues have marked. */
void leases_scan(struct leases *leases, uint64_t now);
void leases_tick(struct leases *leases, uint64_t now);

/* The answers. @slot: address, rkey and slab; a grant nobody waits for any more is given back. False: nothing of the
   kind was asked, or the slab is ours already: the donor has broken the protocol, and is away from now on. */
bool leases_granted(struct leases *leases, unsigned donor, uint32_t request, const struct chunk_slot *slot,
		    uint64_t now);
bool leases_denied(struct leases *leases, unsigned donor, uint32_t request, uint64_t now);
bool leases_released(struct leases *leases, unsigned donor);

/* Before anything is recalled: takes memory for it, which is touched only then. -ENOMEM. */
int leases_recalls_open(struct leases *leases);
void leases_recalls_close(struct leases *leases);
/*
 * The donor wants a slab back: it may be used until @until (ns, UINT64_MAX: for as long as it takes). False: no chunk
 * has it (any more). It does not want it back any more. It has taken it: returns how many pages were lost with it.
 */
bool leases_recall(struct leases *leases, unsigned donor, uint64_t slab, uint64_t until, uint64_t now);
void leases_keep(struct leases *leases, unsigned donor, uint64_t slab);
uint64_t leases_taken(struct leases *leases, unsigned donor, uint64_t slab, uint64_t now);
/* The slot is to get a slab, whose name may be one that it had before its donor was started again; or the donor, having
   been away, has confirmed the slab it has. What it wants back from now on it says. */
void leases_recall_void(struct leases *leases, uint32_t index, unsigned replica);
/* Leaves what is past its deadline: returns how many pages were lost with it; and when that is wanted next. */
uint64_t leases_recalls_tick(struct leases *leases, uint64_t now);
uint64_t leases_recalls_due(const struct leases *leases);
/* Whether something is yet to be moved for a donor that wants it back. When nothing is wanted back any more that is
   noted. */
bool leases_recalling(struct leases *leases);

/* LEASES_FILL is over: the slot has (@good) all that the chunk's others have. LEASES_DRAIN is over. */
void leases_filled(struct leases *leases, unsigned join, bool good, uint64_t now);
void leases_drained(struct leases *leases, unsigned join, uint64_t now);
/* LEASES_LEAVE is over: nothing is live in the chunk (@good). */
void leases_left(struct leases *leases, unsigned join, bool good, uint64_t now);

#endif
