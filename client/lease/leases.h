/*
 * leases: decides which slabs are asked for and given back. A state machine without I/O or clock.
 *
 * Theory of operation. Queues mark chunks (chunks.h, `attention`) that are wanted or idle. A wanted chunk becomes a
 * want: one lease request for each replica, to donors that placement.c chooses. A denied or lost request is repeated to
 * other donors. When the last donor has denied it, or after the timeout, the chunk is denied. At most LEASES_WANTS_MAX
 * wants are active. Further wanted chunks wait in a list.
 *
 * An idle chunk's slabs are given back after a while, so that a chunk that fills and empties does not flap. A wanted
 * chunk gets the slabs of an idle chunk, if there is one. A granted chunk is looked at again after a while, because its
 * writer may have gone. A chunk asked for ahead of its first write counts as idle at once. So its slabs serve any chunk
 * that needs some.
 *
 * A donor that is away is not asked for slabs, and no slab is given back to it. A want that only this donor could serve
 * waits for it until the timeout. So when the donor returns, it holds the slabs that the chunk table names (claims.h).
 * Requests that it has not answered are made anew. If it did grant such a request, nobody claims that slab, and the
 * donor takes it back.
 *
 * Replicas. With several replicas, no write waits for a missing donor if another donor is up. A wanted chunk then
 * begins with fewer slabs. A write that meets an away donor says so (chunk_hinder()). If another replica's donor is up,
 * the away donor's slot is detached. It is not written any more, and never read again. A lost donor's slots are
 * detached if another replica lives. Otherwise the chunk is lost.
 *
 * A chunk that lacks a replica gets a join. There are few joins at a time. Chunks with the fewest readable replicas
 * come first. A join asks for a slab on a donor that holds none of the chunk's, and makes it a JOINING slot. Then the
 * caller is told to fill the slot (rebuild.h), and reports the end. After a success the slot becomes FULL. After a
 * failure it is detached. When no access to the slab is under way any more (LEASES_DRAIN), the slab goes back, and a
 * new join begins. If no donor has room, a join is tried again after a pause.
 *
 * Failure domains (failure_domains.h). No two slots of a chunk are on donors that fail together, so a donor that has a
 * slot also excludes its mates. The exception is a recalled slot and the slot that replaces it. If there are fewer
 * failure domains than replicas, chunks lack replicas. Replicas may share a failure domain after a donor has come back
 * under another name. Such a chunk gets a replica in another one, if there is one, and then one of the mates' slots
 * goes.
 *
 * Recalls. A donor that needs its memory recalls slabs (REVOKE). A chunk with a recalled slab counts as lacking a
 * replica, even if it has only one. It gets a join on another donor. When enough replicas are on other donors, the
 * recalled slab's slot is detached, and the slab goes back when no access to it is under way. If the deadline comes
 * first, the slot is detached at once. The chunk goes on with its other replicas, or is lost. Such a slab is not
 * released: its donor takes it.
 *
 * Backup. If all slabs of a chunk are recalled, and no other donor has room, the chunk leaves for the backup, if there
 * is one (LEASES_LEAVE). The caller moves its pages there, and writes go there, too. When the chunk is empty, and no
 * access to its slabs is under way any more, they go back.
 *
 * Leaving donors. The user may take a donor off the list (leases_donor_leave()). The donor is asked for a slab only if
 * no other donor has room, because a write must not fail for the sake of a list. Each of its slabs counts as recalled
 * without a deadline. So the chunks move as for any recall. If no other donor has room, they stay.
 *
 * A chunk's part of the integrity arrays is made present before its first slab is asked for (integrity_begin()).
 *
 * Each event may leave actions behind. The caller takes them with leases_next() until there is none.
 *
 * Threads: the control thread's.
 */
#ifndef CLIENT_LEASES_H
#define CLIENT_LEASES_H

#include "client/lease/failure_domains.h"
#include "client/page/chunks.h"
#include "client/page/integrity.h"
#include "common/random.h"

#include <stdbool.h>
#include <stdint.h>

/* The sum of this and LEASES_WINDOW is at most the number of unsent messages that a connection queues. So a donor that
   stalls is not taken for dead. */
#define LEASES_WANTS_MAX 16
/* No slab is given back while this many requests are in flight to one donor. */
#define LEASES_WINDOW 16
#define LEASES_ACTIONS 512
/* The number of joins at a time. While one is filled, the next one's donor makes a slab ready. */
#define LEASES_JOINS_MAX 2

struct leases_config {
	unsigned donor_count;
	uint64_t slab_bytes;
	uint64_t timeout_ns; /* a chunk that is wanted for longer is denied */
	uint64_t idle_ns;    /* how long a slab is idle before it is given back */
	uint64_t pause_ns;   /* the pause between two searches for a donor with room for a missing replica */
	uint64_t seed;
	bool backup; /* there is a backup */
};

struct leases_donor {
	bool live;        /* the donor is known, and not lost */
	bool away;        /* out of reach for now */
	bool claiming;    /* its slabs are being claimed, so no slot on it may go */
	uint64_t free;    /* bytes, by the donor's last figures */
	uint32_t asked;   /* lease requests in flight */
	uint32_t waiting; /* requests of any kind in flight */
	uint64_t held;    /* slabs of the donor that this store holds */
};

struct leases_want {
	bool active;
	bool over; /* the chunk was granted or denied, but requests are still in flight */
	uint32_t chunk;
	uint64_t deadline;
	uint64_t tried;                      /* donors that denied it, one bit each */
	uint32_t requests[FAR_REPLICAS_MAX]; /* numbers of requests in flight, or 0 */
	bool granted[FAR_REPLICAS_MAX];
	struct chunk_slot slots[FAR_REPLICAS_MAX]; /* granted slabs; `donor` is also set for a request in flight */
};

/*
 * The plan to give a chunk another replica:
 *
 *     FREE --asked--> ASKING --granted--> FILLING --filled--> FREE
 *                       |                    +--failed--> DRAINING --drained--> FREE
 *                       +--denied, or not wanted any more--> FREE
 *
 * or to give back a surplus slot of the chunk, at once or when another slot is filled:
 *
 *     FREE, FILLING --slot detached--> DRAINING --drained--> FREE
 *
 * or to move the chunk to the backup:
 *
 *     FREE, ASKING --nobody has room--> LEAVING --left--> EMPTYING --drained--> FREE
 *                                          +--failed--> FREE
 */
enum leases_join_state { JOIN_FREE, JOIN_ASKING, JOIN_FILLING, JOIN_DRAINING, JOIN_LEAVING, JOIN_EMPTYING };
struct leases_join {
	enum leases_join_state state;
	uint32_t chunk, epoch, request;
	unsigned replica;
	uint64_t tried;         /* donors that denied it, one bit each */
	struct chunk_slot slot; /* `donor` is also set for a request in flight */
	bool cut;               /* the slot is gone, and the slab must not be released */
};

/* Lists of chunks, oldest first. A chunk is in at most one list. */
enum leases_list_kind { LEASES_UNLISTED, LEASES_WANTED, LEASES_IDLE, LEASES_FRESH, LEASES_LISTS };
struct leases_list {
	uint32_t first, last; /* index + 1, or 0 for none */
};

enum leases_action_kind {
	LEASES_ASK,     /* send LEASE with `request` to `donor` */
	LEASES_RELEASE, /* send RELEASE of `slab` to `donor` */
	LEASES_WAKE,    /* wake waiting queues: a chunk was granted, denied, lost, or lost a slot */
	LEASES_FILL,    /* fill the JOINING slot of join `request`; then call leases_filled() */
	LEASES_DRAIN,   /* call leases_drained() when no access to the slab of join `request` is under way */
	LEASES_LEAVE,   /* move the pages of join `request`'s chunk to the backup; then call leases_left() */
	LEASES_LACKING, /* replicas begin to be made anew */
	LEASES_WHOLE,   /* no chunk lacks replicas any more */
};
struct leases_action {
	enum leases_action_kind kind;
	uint32_t donor, request, chunk, epoch;
	uint64_t slab;
};

/* A slab that its donor has recalled. */
struct leases_recall {
	uint64_t slab;
	uint64_t until; /* deadline in ns, or 0 if not recalled */
	uint32_t donor;
};

struct leases {
	struct leases_config config;
	struct chunk_table *table;
	struct integrity *integrity;
	struct random_state random;
	struct leases_donor donors[FAR_DONORS_MAX];
	struct failure_domains failure_domains;
	struct leases_want wants[LEASES_WANTS_MAX];
	uint32_t request; /* the last request's number */
	struct leases_join joins[LEASES_JOINS_MAX];
	struct leases_recall *recalls;          /* one per slot of every chunk, or NULL if nothing can be recalled */
	uint64_t gone;                          /* leaving donors that were let go, one bit each */
	bool recalled;                          /* some slab may be recalled */
	uint64_t recall_due;                    /* the earliest deadline of recalled slabs */
	bool lacking;                           /* some chunk may lack a replica */
	bool mending;                           /* LEASES_LACKING was reported, and LEASES_WHOLE not yet */
	uint32_t join_next;                     /* where the search for the next chunk begins */
	uint64_t join_at;                       /* when that search may begin */
	bool join_any;                          /* take the next chunk, even if other chunks have fewer replicas */
	struct leases_list lists[LEASES_LISTS]; /* by enum leases_list_kind */
	bool wake;                              /* LEASES_WAKE is the next action */
	unsigned head, tail;
	struct leases_action actions[LEASES_ACTIONS];
};

/* @table and @integrity outlive @leases. */
void leases_init(struct leases *leases, const struct leases_config *config, struct chunk_table *table,
		 struct integrity *integrity);
bool leases_next(struct leases *leases, struct leases_action *ret_action);
/* Returns when leases_tick() must be called next, or UINT64_MAX for never. */
uint64_t leases_due(const struct leases *leases);

/* Notes that the donor is ready and has @free bytes. */
void leases_donor_heard(struct leases *leases, unsigned donor, uint64_t free);
/* Sets the donor's failure domain, or "" for one of its own. Called before the donor is first used, and each time
   before it is used again. Its slabs stay. */
void leases_donor_named(struct leases *leases, unsigned donor, const char *failure_domain);
/* Notes a donor of an adopted store, which has not been reached yet. It should hold @held slabs. */
void leases_donor_adopt(struct leases *leases, unsigned donor, uint64_t held);
/* leases_donor_away(): the donor cannot be reached. leases_donor_back(): it can be reached again, and holds @held
   slabs, which the chunk table names. */
void leases_donor_away(struct leases *leases, unsigned donor, uint64_t now);
void leases_donor_back(struct leases *leases, unsigned donor, uint64_t held, uint64_t free, uint64_t now);
/* The claiming of the donor's slabs begins, or has ended without the donor's return. */
void leases_donor_claiming(struct leases *leases, unsigned donor, bool claiming);
/* The donor's slabs are gone. Returns how many pages are lost with them. */
uint64_t leases_donor_lost(struct leases *leases, unsigned donor, uint64_t now);
/* leases_donor_leave(): the user has taken the donor off the list. Its slabs count as recalled when
   leases_leaving_tick() is called next, and again after every second. leases_donor_stay(): the donor is on the list
   again. leases_donor_gone(): it has no slab any more, and is let go. */
void leases_donor_leave(struct leases *leases, unsigned donor);
void leases_donor_stay(struct leases *leases, unsigned donor);
void leases_donor_gone(struct leases *leases, unsigned donor, uint64_t now);
/* Returns true if the donor has no slab of ours, and no request to it is in flight. */
bool leases_donor_is_empty(const struct leases *leases, unsigned donor);
/* Marks the slabs of leaving donors as recalled. Marks are void once a donor has come back (leases_recall_void()), and a
   request in flight may bring another slab, so this must be called from time to time. */
void leases_leaving_tick(struct leases *leases, uint64_t now);
/* Returns true if a chunk is being moved or copied. */
bool leases_is_moving(const struct leases *leases);
/* Looks at the chunks that queues have marked. */
void leases_scan(struct leases *leases, uint64_t now);
void leases_tick(struct leases *leases, uint64_t now);

/* Take the answers to requests. @slot has address, rkey and slab. A slab that nobody waits for any more is given back.
   Return false if the donor has broken the protocol: no such request is in flight, or the slab is ours already. The
   caller must then treat the donor as away. */
bool leases_granted(struct leases *leases, unsigned donor, uint32_t request, const struct chunk_slot *slot,
		    uint64_t now);
bool leases_denied(struct leases *leases, unsigned donor, uint32_t request, uint64_t now);
bool leases_released(struct leases *leases, unsigned donor);

/* leases_recalls_open() allocates the memory for recalls. The memory is touched only when a slab is recalled. Returns 0
   or -ENOMEM. */
int leases_recalls_open(struct leases *leases);
void leases_recalls_close(struct leases *leases);
/*
 * Messages of a donor about one of its slabs:
 *
 *   leases_recall  The donor recalls the slab. It may be used until @until (ns), or without limit if that is
 *                  UINT64_MAX. Returns false if no chunk has the slab.
 *   leases_keep    The donor takes its recall back.
 *   leases_taken   The donor has taken the slab. Returns how many pages are lost with it.
 */
bool leases_recall(struct leases *leases, unsigned donor, uint64_t slab, uint64_t until, uint64_t now);
void leases_keep(struct leases *leases, unsigned donor, uint64_t slab);
uint64_t leases_taken(struct leases *leases, unsigned donor, uint64_t slab, uint64_t now);
/* Forgets a recall of the slot. Called when the slot gets a slab, because a restarted donor may reuse a slab's name.
   Also called when a donor has come back and confirmed the slab, because the donor then repeats its recalls. */
void leases_recall_void(struct leases *leases, uint32_t index, unsigned replica);
/* leases_recalls_tick() detaches slots whose deadline has passed, and returns how many pages are lost with them.
   leases_recalls_due() returns when to call it next, or UINT64_MAX for never. */
uint64_t leases_recalls_tick(struct leases *leases, uint64_t now);
uint64_t leases_recalls_due(const struct leases *leases);
/* Returns true if the pages of some recalled slot must still be moved. Clears `recalled` if no slab is recalled any
   more. */
bool leases_recalling(struct leases *leases);

/* Report the end of LEASES_FILL and of LEASES_DRAIN. @good means that the slot has all pages of the chunk's FULL
   slots. */
void leases_filled(struct leases *leases, unsigned join, bool good, uint64_t now);
void leases_drained(struct leases *leases, unsigned join, uint64_t now);
/* Reports the end of LEASES_LEAVE. @good means that no page of the chunk is live. */
void leases_left(struct leases *leases, unsigned join, bool good, uint64_t now);

#endif
