/*
 * leases: decides which slabs the client asks for and releases. A state machine without I/O or clock.
 *
 * Theory of operation. Queues mark chunks that need a slab or have become empty (chunks.h, `attention`).
 * leases_scan() puts marked chunks into lists. leases_tick() and the answers of donors move the chunks on. Each event
 * may add actions: requests to donors, and jobs for the rebuild thread. The caller takes actions with leases_next()
 * until there are none.
 *
 * A slab for a new chunk. leases_wants_start() turns a WANTED chunk into a want: one lease request for each
 * replica, to donors that placement.c chooses. If a donor denies a request, another donor is asked. When all
 * replicas are granted, the chunk becomes READY. When the last donor has denied, or after the timeout, the chunk is
 * denied: writes that wait for it fail, or go to the backup. At most LEASES_WANTS_MAX wants are active, and other
 * WANTED chunks wait in a list. Before the first request, the chunk's part of the integrity arrays is made present
 * (integrity_begin()).
 *
 * An empty chunk. Its slabs are released only after idle_ns, because a program may fill and empty the same chunk
 * again and again. A want that needs slabs in this time gets the slabs of the idle chunk at once. A chunk that was
 * just granted is looked at again after idle_ns, because its writer may have gone meanwhile. A chunk that was asked
 * for ahead of its first write counts as idle at once, so any want may take its slabs.
 *
 * A donor that is away. The client asks no away donor for slabs, and releases none of its slabs. So when the donor
 * returns, it still holds the slabs that the chunk table names (claims.h). A want that only this donor could serve
 * waits for it until the timeout. Requests that the donor has not answered are repeated later. If the donor has
 * granted a slab for such a request, nobody claims the slab, so the donor takes it back.
 *
 * Replicas. With several replicas, no write waits for an away or lost donor if another donor is up. So a new chunk
 * may begin with fewer slabs than replicas. If a write meets a slot whose donor is away, the queue marks the chunk
 * (chunk_hinder()). If another replica's donor is up, the away donor's slot is detached: it is not written any more,
 * and never read again. When a donor is lost, its slots are detached. A chunk that has no other replica is lost.
 *
 * Joins. A chunk that lacks a replica gets a join. At most LEASES_JOINS_MAX joins run at a time, and chunks with
 * the fewest readable replicas are first. A join asks a donor that has no slab of the chunk. It puts the granted
 * slab into a JOINING slot, and the caller fills this slot (LEASES_FILL, rebuild.h). If that succeeds, the slot
 * becomes FULL. If it fails, the slot is detached. The slab is then released when no operation uses it any more
 * (LEASES_DRAIN), and a new join begins. If no donor has a free slab, the join is tried again after pause_ns.
 *
 * Failure domains (failure_domains.h). No two slots of a chunk are on mates, so a donor that has a slot also
 * excludes its mates. Only a recalled slot may have a mate: the slot that replaces it. If there are fewer failure
 * domains than replicas, chunks lack replicas. If a donor returns with another failure domain, two replicas may be
 * on mates. Such a chunk gets a join in another failure domain, if possible, and then one of the mates' slots is
 * detached.
 *
 * Recalls. A donor that needs its memory recalls slabs (REVOKE). A chunk with a recalled slab counts as lacking a
 * replica, so it gets a join on another donor. When enough replicas are on other donors, the recalled slot is
 * detached, and the slab is released when no operation uses it. If the deadline comes first, the slot is detached at
 * once, and the donor takes the slab, so the slab is not released. The chunk continues with its other replicas, or is
 * lost if it has none.
 *
 * Backup. If the store has a backup, a chunk leaves for it (LEASES_LEAVE) when all its slabs are recalled and no
 * other donor has a free slab. The caller moves the chunk's pages there, and new writes go there, too. When the chunk
 * is empty and no operation uses its slabs, the slabs are released.
 *
 * Leaving donors. When the user removes a donor from the list (leases_donor_leave()), each of its slabs counts as
 * recalled without a deadline. So its chunks move to other donors as for any recall, and stay if no other donor has
 * a free slab. A want still asks a leaving donor if no other donor has a free slab, so that removing a donor makes
 * no write fail.
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_LEASES_H
#define CLIENT_LEASES_H

#include "client/lease/failure_domains.h"
#include "client/page/chunks.h"
#include "client/page/integrity.h"
#include "common/random.h"

#include <stdbool.h>
#include <stdint.h>

/* The most wants at a time. Together with LEASES_WINDOW this must not exceed the number of unsent messages that a
   connection queues. A connection whose queue is full counts as broken, although its donor may only be slow. */
#define LEASES_WANTS_MAX 16
/* No slab is released while this many requests to one donor are in flight. */
#define LEASES_WINDOW 16
#define LEASES_ACTIONS 512
/* The most joins at a time. With two joins, a donor makes the next slab ready while another slab is filled. */
#define LEASES_JOINS_MAX 2

struct leases_config {
	unsigned donor_count;
	uint64_t slab_bytes;
	uint64_t timeout_ns; /* a want that is not complete within this time ends: its chunk is denied */
	uint64_t idle_ns;    /* an empty chunk keeps its slabs for this long */
	uint64_t pause_ns;   /* the pause before donors are asked again for a missing replica */
	uint64_t seed;
	bool backup; /* the store has a backup */
};

struct leases_donor {
	bool live; /* the donor is known and not lost */
	bool away;
	bool claiming;    /* the donor's slabs are being claimed, so its slots must not be detached */
	uint64_t free;    /* bytes, according to the donor's last figures */
	uint32_t asked;   /* lease requests in flight */
	uint32_t waiting; /* requests of any kind in flight */
	uint64_t held;    /* slabs of the donor that this store leases */
};

struct leases_want {
	bool active;
	bool over; /* the chunk was granted or denied, but requests are still in flight */
	uint32_t chunk;
	uint64_t deadline;
	uint64_t retry_at;                   /* when to ask the donors again that have denied a slab; 0: not due */
	struct donor_set tried;              /* donors that have denied a slab */
	uint32_t requests[FAR_REPLICAS_MAX]; /* the numbers of requests in flight, or 0 */
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
 * or to release the slab of a surplus slot, at once or when another slot is filled:
 *
 *     FREE, FILLING --slot detached--> DRAINING --drained--> FREE
 *
 * or to move the chunk to the backup:
 *
 *     FREE, ASKING --no donor has a free slab--> LEAVING --left--> EMPTYING --drained--> FREE
 *                                                   +--failed--> FREE
 */
enum leases_join_state { JOIN_FREE, JOIN_ASKING, JOIN_FILLING, JOIN_DRAINING, JOIN_LEAVING, JOIN_EMPTYING };
struct leases_join {
	enum leases_join_state state;
	uint32_t chunk, epoch, request;
	unsigned replica;
	struct donor_set tried; /* donors that have denied a slab */
	struct chunk_slot slot; /* `donor` is also set for a request in flight */
	bool cut;               /* the slot is detached already, and the slab must not be released */
};

/* Lists of chunks, oldest first. A chunk is in at most one list: wanted, idle (empty), or fresh (just granted). */
enum leases_list_kind { LEASES_UNLISTED, LEASES_WANTED, LEASES_IDLE, LEASES_FRESH, LEASES_LISTS };
struct leases_list {
	uint32_t first, last; /* index + 1, or 0 for none */
};

enum leases_action_kind {
	LEASES_ASK,     /* send LEASE with `request` to `donor` */
	LEASES_RELEASE, /* send RELEASE of `slab` to `donor` */
	LEASES_WAKE,    /* wake waiting queues: a chunk was granted, denied or lost, or one of its slots was detached */
	LEASES_FILL,    /* fill the JOINING slot of join `request`; then call leases_filled() */
	LEASES_DRAIN,   /* when no operation uses the slab of join `request`, call leases_drained() */
	LEASES_LEAVE,   /* move the pages of join `request`'s chunk to the backup; then call leases_left() */
	LEASES_LACKING, /* tell the user that missing replicas are being rebuilt */
	LEASES_WHOLE,   /* tell the user that no chunk lacks a replica any more */
};
struct leases_action {
	enum leases_action_kind kind;
	uint32_t donor, request, chunk, epoch;
	uint64_t slab;
};

struct leases_recall {
	uint64_t slab;
	uint64_t until; /* the deadline in ns, or 0 if the slab is not recalled */
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
	uint32_t request;
	struct leases_join joins[LEASES_JOINS_MAX];
	struct leases_recall *recalls; /* one per slot of every chunk, or NULL if nothing can be recalled */
	struct donor_set gone;         /* removed donors whose last slab is gone */
	bool recalled;                 /* some slab may be recalled */
	uint64_t recall_due;
	bool lacking;                           /* some chunk may lack a replica, or have a surplus one */
	bool mending;                           /* LEASES_LACKING was reported, and LEASES_WHOLE not yet */
	uint32_t join_next;                     /* the chunk at which the search for the next join begins */
	uint64_t join_at;                       /* when the next search may begin */
	bool join_any;                          /* take the first chunk found, even if others have fewer replicas */
	struct leases_list lists[LEASES_LISTS]; /* by enum leases_list_kind; LEASES_UNLISTED is not used */
	bool wake;                              /* LEASES_WAKE follows the other actions */
	unsigned head, tail;
	struct leases_action actions[LEASES_ACTIONS];
};

/* *@leases is all zero. Its arrays are not written here, so that places without a donor need no memory. @table and
   @integrity must outlive @leases. */
void leases_init(struct leases *leases, const struct leases_config *config, struct chunk_table *table,
		 struct integrity *integrity);
bool leases_next(struct leases *leases, struct leases_action *ret_action);
/* Returns when leases_tick() must be called next, or UINT64_MAX for never. */
uint64_t leases_due(const struct leases *leases);

/* The donor is ready and has @free bytes. */
void leases_donor_heard(struct leases *leases, unsigned donor, uint64_t free);
/* Stores the donor's failure domain, or "" for none. Called before the donor is first used, and each time before it
   is used again. Does not change its slots. */
void leases_donor_named(struct leases *leases, unsigned donor, const char *failure_domain);
/* Notes a donor of an adopted store, which was not reached yet and should hold @held slabs. */
void leases_donor_adopt(struct leases *leases, unsigned donor, uint64_t held);
/* Returns true if the donor has the only copy of a page, which would be lost with it. Looks at all chunks. */
bool leases_donor_has_only(const struct leases *leases, unsigned donor);
/* Returns true if the donor, which is away, has the last copy of a page: no donor that is in reach has another. Then it
   detaches the donor's slots of all other chunks, so that these get another replica. Looks at all chunks. */
bool leases_donor_has_last(struct leases *leases, unsigned donor);
/* leases_donor_away(): the donor cannot be reached. leases_donor_back(): the donor is up again, and holds the @held
   slabs that the chunk table names. */
void leases_donor_away(struct leases *leases, unsigned donor, uint64_t now);
void leases_donor_back(struct leases *leases, unsigned donor, uint64_t held, uint64_t free, uint64_t now);
/* @claiming is true when the client begins to claim the donor's slabs. @claiming is false if the claiming ends before
   the donor is up. */
void leases_donor_claiming(struct leases *leases, unsigned donor, bool claiming);
/* The donor's slabs are gone. Returns how many pages are lost. */
uint64_t leases_donor_lost(struct leases *leases, unsigned donor, uint64_t now);
/* leases_donor_leave(): the user has removed the donor from the list. Its slabs count as recalled at the next
   leases_leaving_tick(). leases_donor_stay(): the donor is on the list again. leases_donor_gone(): the donor has no
   slab of ours any more, and its session was ended. */
void leases_donor_leave(struct leases *leases, unsigned donor);
void leases_donor_stay(struct leases *leases, unsigned donor);
void leases_donor_gone(struct leases *leases, unsigned donor, uint64_t now);
/* Returns true if the donor has no slab of ours, and no request to it is in flight. */
bool leases_donor_is_empty(const struct leases *leases, unsigned donor);
/* Marks the slabs of leaving donors as recalled. Must be called every second or so, because more slabs may need the
   mark. A request in flight may bring a new slab, and a donor's marks are cleared when it comes back
   (leases_recall_void()). */
void leases_leaving_tick(struct leases *leases, uint64_t now);
/* Returns true if some join is active: a chunk's pages are being copied or moved. */
bool leases_is_moving(const struct leases *leases);
/* Handles the chunks that queues have marked. */
void leases_scan(struct leases *leases, uint64_t now);
void leases_tick(struct leases *leases, uint64_t now);

/* Handle the answers to requests. @slot has address, rkey and slab. If nobody waits for the slab any more, it is
   released. Return false if the donor has broken the protocol: no such request is in flight, or the slab is ours
   already. The caller must then treat the donor as away. */
bool leases_granted(struct leases *leases, unsigned donor, uint32_t request, const struct chunk_slot *slot,
		    uint64_t now);
bool leases_denied(struct leases *leases, unsigned donor, uint32_t request, uint64_t now);
bool leases_released(struct leases *leases, unsigned donor);

/* leases_recalls_open() allocates the memory for recalls. The memory is touched only when a slab is recalled. Returns
   0 or -ENOMEM. */
int leases_recalls_open(struct leases *leases);
void leases_recalls_close(struct leases *leases);
/*
 * Messages of a donor about one of its slabs:
 *
 *   leases_recall  The donor recalls the slab. The client may use it until @until (ns). UINT64_MAX means no limit.
 *                  Returns false if no chunk has the slab.
 *   leases_keep    The donor withdraws its recall.
 *   leases_taken   The donor has taken the slab. Returns how many pages are lost.
 */
bool leases_recall(struct leases *leases, unsigned donor, uint64_t slab, uint64_t until, uint64_t now);
void leases_keep(struct leases *leases, unsigned donor, uint64_t slab);
uint64_t leases_taken(struct leases *leases, unsigned donor, uint64_t slab, uint64_t now);
/* Clears a recall of the slot. Called when the slot gets a new slab, because a restarted donor may give this slab the
   name of an old slab. Also called when a donor has come back and confirmed the slab, because the donor then sends
   its recalls again. */
void leases_recall_void(struct leases *leases, uint32_t index, unsigned replica);
/* leases_recalls_tick() detaches slots whose deadline has passed, and returns how many pages are lost.
   leases_recalls_due() returns when to call it next, or UINT64_MAX for never. */
uint64_t leases_recalls_tick(struct leases *leases, uint64_t now);
uint64_t leases_recalls_due(const struct leases *leases);
/* Returns true if the pages of some recalled FULL slot must still be moved. Clears `recalled` if no slab is
   recalled. */
bool leases_recalling(struct leases *leases);

/* Report the end of LEASES_FILL and of LEASES_DRAIN. @good means that the slot has all pages of the chunk's FULL
   slots. */
void leases_filled(struct leases *leases, unsigned join, bool good, uint64_t now);
void leases_drained(struct leases *leases, unsigned join, uint64_t now);
/* Reports the end of LEASES_LEAVE. @good means that the chunk has no live page any more. */
void leases_left(struct leases *leases, unsigned join, bool good, uint64_t now);

#endif
