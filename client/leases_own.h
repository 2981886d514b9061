/*
 * leases_own: what leases.c (actions, lists, idle chunks, events), leases_wants.c (chunks that get their slabs) and
 * leases_joins.c (chunks that get another replica) share. Only they include it.
 */
#ifndef CLIENT_LEASES_OWN_H
#define CLIENT_LEASES_OWN_H

#include "client/leases.h"

/* The most actions one event may leave behind: all wants go on, and a few chunks are seen to. Whoever makes more in a
   loop asks leases_has_room() first. */
#define LEASES_STEP (LEASES_WANTS_MAX * FAR_REPLICAS_MAX + FAR_SLOTS_MAX * 4)

/* --- leases.c --- */

void leases_act(struct leases *leases, struct leases_action action);
bool leases_has_room(const struct leases *leases);
/* A slab goes back to its donor, if that is there. */
void leases_release(struct leases *leases, const struct chunk_slot *slot);
void leases_release_slots(struct leases *leases, const struct chunk_slot slots[]);
void leases_list_put(struct leases *leases, enum leases_list_kind kind, uint32_t index, uint64_t now);
void leases_list_remove(struct leases *leases, uint32_t index);
/* The oldest; false: the list is empty. */
bool leases_list_first(const struct leases *leases, enum leases_list_kind kind, uint32_t *ret_index);
/* Puts a chunk, which is in no list, where it belongs. */
void leases_sort(struct leases *leases, uint32_t index, uint64_t now);
/* Takes an idle chunk off its list. Returns whether it still is idle: then its slots are the caller's. */
bool leases_take_idle(struct leases *leases, uint32_t index, uint64_t now, struct chunk_slot ret_slots[]);
/* A donor that can be asked: not in @tried (a bit each), nor a mate of any in @used, and thought to have room or (@all)
   whatever is thought. */
int leases_choose(struct leases *leases, uint64_t tried, uint64_t used, bool all);
/* Whether no two of @slots, which are not EMPTY, are on mates. */
bool leases_slots_apart(const struct leases *leases, const struct chunk_slot slots[]);
/* A new request of one donor. */
uint32_t leases_ask(struct leases *leases, unsigned donor);
/* Some donor cannot be reached for now; or cannot, be it for good, or all are in fewer domains than there are to be
   replicas. */
bool leases_donors_away(const struct leases *leases);
bool leases_donors_missing(const struct leases *leases);

/* A chunk without a slot left: returns how many pages are lost with it. */
uint64_t leases_chunk_lose(struct leases *leases, uint32_t index, uint64_t now);

/* --- leases_recalls.c --- */

/* Whether the slab is the store's: of a chunk, granted to one that waits for more, or yet to be given back. */
bool leases_holds(const struct leases *leases, unsigned donor, uint64_t slab);

/* How many of the chunk's FULL slots are on slabs that their donors want back; whether any of @slots, which it has or
   had, is. */
unsigned leases_recalled_slots(const struct leases *leases, uint32_t index);
bool leases_slots_recalled(const struct leases *leases, uint32_t index, const struct chunk_slot slots[]);
/*
 * Whether one of the READY chunk's FULL slots may go at once, and which: one that is wanted back, sooner one on a mate
 * of another's donor, if there is such a mate or as many others are FULL as there are to be replicas. If none is wanted
 * back (any more) and more are FULL than are to be, one of those: what was to go when its replacement was FULL could
 * not, or this process was killed just then.
 */
bool leases_spare(const struct leases *leases, uint32_t index, unsigned *ret_replica);
/* The donors (a bit each) whose mates may not have another slot of the chunk: those of its slots, @but one, that are
   to stay; and *ret_going: of those that are to go. */
uint64_t leases_used(const struct leases *leases, uint32_t index, unsigned but, uint64_t *ret_going);

/* --- leases_wants.c --- */

/* The want and replica that a request was made for, or NULL. */
struct leases_want *want_find(struct leases *leases, unsigned donor, uint32_t request, unsigned *ret_replica);
/* Its request was answered. */
void want_granted(struct leases *leases, struct leases_want *want, unsigned replica, const struct chunk_slot *slot,
		  uint64_t now);
void want_denied(struct leases *leases, struct leases_want *want, unsigned replica, uint64_t now);
void want_deny(struct leases *leases, struct leases_want *want, int status);
void wants_start(struct leases *leases, uint64_t now);
/* Of a slab that was granted to a want and no chunk has yet; @taken: it need not be given back. False: none has it. */
bool wants_recall(struct leases *leases, unsigned donor, uint64_t slab, bool taken, uint64_t now);
/* What the wants have there, asked for or granted, is void. */
void wants_drop(struct leases *leases, unsigned donor);
/* Who can be asked has changed: wants that lack a replica go on. */
void wants_resume(struct leases *leases, uint64_t now);

/* --- leases_joins.c --- */

struct leases_join *join_find(struct leases *leases, unsigned donor, uint32_t request);
void join_granted(struct leases *leases, struct leases_join *join, const struct chunk_slot *slot, uint64_t now);
void join_denied(struct leases *leases, struct leases_join *join, uint64_t now);
/* Whether the slab is about to be given back, when nothing is under way to it. */
bool joins_drain(const struct leases *leases, unsigned donor, uint64_t slab);
/* A JOINING slot is not there any more, nor its slab the chunk's. */
void joins_cut(struct leases *leases, uint32_t index, unsigned replica);
/* The donor is away, or lost: whatever joins have there is void. */
void joins_drop(struct leases *leases, unsigned donor, uint64_t now);
/* Chunks that lack a replica get one asked for, if it is time. */
void joins_start(struct leases *leases, uint64_t now);
/* When that is; UINT64_MAX: never. */
uint64_t joins_due(const struct leases *leases);
/* What a write waits for at an away donor's slot waits no more, if another replica's donor is up. */
void leases_detach_away(struct leases *leases, uint32_t index);

#endif
