/* leases_own: functions that the files leases*.c share. Only these files include this header. leases.c has actions,
   lists, idle chunks and events. leases_wants.c gives chunks their slabs. leases_joins.c gives chunks another replica.
   leases_recalls.c has recalls. */
#ifndef CLIENT_LEASES_OWN_H
#define CLIENT_LEASES_OWN_H

#include "client/lease/leases.h"

/* The most actions that one event may leave behind: those of all wants, and of a few chunks. A loop that makes more
   actions must ask leases_has_room() first. */
#define LEASES_STEP (LEASES_WANTS_MAX * FAR_REPLICAS_MAX + FAR_SLOTS_MAX * 4)

/* --- leases.c --- */

void leases_act(struct leases *leases, struct leases_action action);
bool leases_has_room(const struct leases *leases);
/* Gives a slab back to its donor, unless the donor is lost. A donor that is away takes it back when it returns. */
void leases_release(struct leases *leases, const struct chunk_slot *slot);
void leases_release_slots(struct leases *leases, const struct chunk_slot slots[]);
void leases_list_put(struct leases *leases, enum leases_list_kind kind, uint32_t index, uint64_t now);
void leases_list_remove(struct leases *leases, uint32_t index);
/* Stores the oldest chunk of the list. Returns false if the list is empty. */
bool leases_list_first(const struct leases *leases, enum leases_list_kind kind, uint32_t *ret_index);
/* Puts a chunk that is in no list into the list in which it belongs. */
void leases_sort(struct leases *leases, uint32_t index, uint64_t now);
/* Takes an idle chunk off its list. Returns true if the chunk is still idle. Its slabs then belong to the caller. */
bool leases_take_idle(struct leases *leases, uint32_t index, uint64_t now, struct chunk_slot ret_slots[]);
/* Returns a donor that can be asked, or -ENOSPC. Leaves out the donors in @tried and the mates of donors in @used (one
   bit each). Unless @all is true, also leaves out donors whose last figures show no room. */
int leases_choose(struct leases *leases, uint64_t tried, uint64_t used, bool all);
/* Does the same among leaving donors, for a chunk that no other donor has room for. */
int leases_choose_leaving(struct leases *leases, uint64_t tried, uint64_t used);
/* Returns true if no two of @slots are on donors that fail together. EMPTY slots do not count. */
bool leases_slots_apart(const struct leases *leases, const struct chunk_slot slots[]);
/* Makes a lease request to the donor. Returns the request's number. */
uint32_t leases_ask(struct leases *leases, unsigned donor);
/* leases_donors_away() returns true if some donor is out of reach for now. leases_donors_missing() returns true if some
   donor is out of reach or lost, or if there are fewer failure domains than replicas. */
bool leases_donors_away(const struct leases *leases);
bool leases_donors_missing(const struct leases *leases);

/* Loses a chunk that has no slot left. Returns how many pages are lost with it. */
uint64_t leases_chunk_lose(struct leases *leases, uint32_t index, uint64_t now);

/* --- leases_recalls.c --- */

/* Returns true if the store has the slab: in a chunk, granted to a want that waits for others, or about to be given
   back. */
bool leases_holds(const struct leases *leases, unsigned donor, uint64_t slab);

/* leases_recalled_slots() returns how many of the chunk's FULL slots are recalled. leases_slots_recalled() returns true
   if any of @slots is recalled. These are slots of the chunk, now or earlier. */
unsigned leases_recalled_slots(const struct leases *leases, uint32_t index);
bool leases_slots_recalled(const struct leases *leases, uint32_t index, const struct chunk_slot slots[]);
/*
 * Returns true if one of the READY chunk's FULL slots may go at once, and stores which. Prefers a recalled slot, then
 * one whose donor is a mate of another FULL slot's donor. A slot that fits both conditions may always go. Any other
 * slot may go only if more slots are FULL than there are replicas. Such a surplus slot may be one that is not recalled.
 * Perhaps it could not go when its replacement became FULL, or this process was killed just then.
 */
bool leases_spare(const struct leases *leases, uint32_t index, unsigned *ret_replica);
/* Returns the donors of the chunk's slots that stay, one bit each, except slot @but. Their mates may not have another
   slot of the chunk. Stores the donors of recalled slots in *ret_going. */
uint64_t leases_used(const struct leases *leases, uint32_t index, unsigned but, uint64_t *ret_going);

/* --- leases_wants.c --- */

/* Returns the want that made the request, and stores the replica. Returns NULL if there is none. */
struct leases_want *leases_want_find(struct leases *leases, unsigned donor, uint32_t request, unsigned *ret_replica);
/* Take the answer to a want's request. */
void leases_want_granted(struct leases *leases, struct leases_want *want, unsigned replica,
			 const struct chunk_slot *slot, uint64_t now);
void leases_want_denied(struct leases *leases, struct leases_want *want, unsigned replica, uint64_t now);
void leases_want_deny(struct leases *leases, struct leases_want *want, int status);
void leases_wants_start(struct leases *leases, uint64_t now);
/* Takes a recalled slab from the want that it was granted to. If @taken is true, the donor has the slab already, so it
   is not given back. Returns false if no want has the slab. */
bool leases_wants_recall(struct leases *leases, unsigned donor, uint64_t slab, bool taken, uint64_t now);
/* Drops all requests and grants that wants have at the donor. */
void leases_wants_drop(struct leases *leases, unsigned donor);
/* Lets wants that lack a replica go on, because other donors can be asked now. */
void leases_wants_resume(struct leases *leases, uint64_t now);

/* --- leases_joins.c --- */

struct leases_join *leases_join_find(struct leases *leases, unsigned donor, uint32_t request);
void leases_join_granted(struct leases *leases, struct leases_join *join, const struct chunk_slot *slot, uint64_t now);
void leases_join_denied(struct leases *leases, struct leases_join *join, uint64_t now);
/* Returns true if the slab will be given back as soon as nothing is under way to it. */
bool leases_joins_drain(const struct leases *leases, unsigned donor, uint64_t slab);
/* Returns true if a join asks the donor for a slab, or has a slab there. */
bool leases_joins_use(const struct leases *leases, unsigned donor);
/* Tells the join of a JOINING slot that the slot and its slab are gone. */
void leases_joins_cut(struct leases *leases, uint32_t index, unsigned replica);
/* Drops the requests and slots that joins have at the donor, which is away or lost. */
void leases_joins_drop(struct leases *leases, unsigned donor, uint64_t now);
/* Begins joins for chunks that lack replicas, if it is time. */
void leases_joins_start(struct leases *leases, uint64_t now);
/* Returns when leases_joins_start() must be called next, or UINT64_MAX for never. */
uint64_t leases_joins_due(const struct leases *leases);
/* If a write waits for an away donor's slot of the chunk, and another replica's donor is up, detaches that slot. Wakes
   the queues that wait. */
void leases_detach_away(struct leases *leases, uint32_t index);

#endif
