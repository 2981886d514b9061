/* internal: functions that the files leases*.c share. Only these files include this header. leases.c has actions,
   lists, idle chunks and events. leases_wants.c leases slabs for wanted chunks. leases_joins.c adds and replaces
   replicas. leases_recalls.c handles recalls. */
#ifndef CLIENT_LEASE_INTERNAL_H
#define CLIENT_LEASE_INTERNAL_H

#include "client/lease/leases.h"

/* The most actions that one event may add: the actions of all wants and of a few chunks. A loop that may add more
   must call leases_has_room() before each step. */
#define LEASES_STEP (LEASES_WANTS_MAX * FAR_REPLICAS_MAX + FAR_SLOTS_MAX * 4)

/* --- leases.c --- */

void leases_act(struct leases *leases, struct leases_action action);
bool leases_has_room(const struct leases *leases);
/* Releases a slab of a donor that is not lost. If the donor is away, nothing is sent: the slab is not claimed when
   the donor returns, so the donor takes it back. */
void leases_release(struct leases *leases, const struct chunk_slot *slot);
void leases_release_slots(struct leases *leases, const struct chunk_slot slots[]);
void leases_list_put(struct leases *leases, enum leases_list_kind kind, uint32_t index, uint64_t now);
void leases_list_remove(struct leases *leases, uint32_t index);
/* Stores the oldest chunk of the list. Returns false if the list is empty. */
bool leases_list_first(const struct leases *leases, enum leases_list_kind kind, uint32_t *ret_index);
/* Puts a chunk that is in no list into the list for its state, if there is one. */
void leases_sort(struct leases *leases, uint32_t index, uint64_t now);
/* Removes an idle chunk from its list. Returns true if the chunk is still idle. The caller then owns its slabs. */
bool leases_take_idle(struct leases *leases, uint32_t index, uint64_t now, struct chunk_slot ret_slots[]);
/* Returns a donor to ask for a slab, or -ENOSPC. Excludes the donors in @tried, and the donors in @used with their
   mates. Unless @all is true, also excludes donors without a free slab in their last figures. */
int leases_choose(struct leases *leases, const struct donor_set *tried, const struct few_donors *used, bool all);
/* Like leases_choose() with @all, but chooses only among leaving donors. Used for a chunk if no other donor has a
   free slab. */
int leases_choose_leaving(struct leases *leases, const struct donor_set *tried, const struct few_donors *used);
/* Returns true if @donor is one of @donors, or a mate of one. */
bool leases_has_mate_in(const struct leases *leases, unsigned donor, const struct few_donors *donors);
/* Returns true if no two of @slots are on mates. EMPTY slots do not count. */
bool leases_slots_apart(const struct leases *leases, const struct chunk_slot slots[]);
/* Requests a slab of the donor. Returns the request's number. */
uint32_t leases_ask(struct leases *leases, unsigned donor);
/* leases_donors_away() returns true if some donor is away. leases_donors_missing() returns true if some donor is
   away or lost, or if there are fewer failure domains than replicas. */
bool leases_donors_away(const struct leases *leases);
bool leases_donors_missing(const struct leases *leases);

/* Marks the pages of a chunk as lost, because the chunk has no replica left. Returns how many pages are lost. */
uint64_t leases_chunk_lose(struct leases *leases, uint32_t index, uint64_t now);

/* --- leases_recalls.c --- */

/* Returns true if the store has the slab: in a chunk, granted to a want that is not complete yet, or waiting to be
   released. */
bool leases_holds(const struct leases *leases, unsigned donor, uint64_t slab);

/* leases_recalled_slots() returns how many of the chunk's FULL slots are recalled. leases_slots_recalled() returns
   true if any of @slots is recalled. @slots are the chunk's slots, or were taken from the chunk. */
unsigned leases_recalled_slots(const struct leases *leases, uint32_t index);
bool leases_slots_recalled(const struct leases *leases, uint32_t index, const struct chunk_slot slots[]);
/*
 * Returns true if one FULL slot of the READY chunk may be detached at once, and stores which. Prefers a recalled
 * slot, and among equals a slot whose donor has a mate in another FULL slot. A recalled slot with such a mate may
 * be detached in any case. Any other slot may be detached only if there are more FULL slots than replicas.
 *
 * The slot need not be recalled. For example, the slot's recall was withdrawn when the replacement was already FULL,
 * or the store was adopted just after the replacement had become FULL.
 */
bool leases_spare(const struct leases *leases, uint32_t index, unsigned *ret_replica);
/* Returns the donors of the chunk's slots, except slot @but and recalled slots. No other slot of the chunk may be on
   these donors or their mates. Adds the donors of recalled slots to *going, unless @going is NULL. */
struct few_donors leases_used(const struct leases *leases, uint32_t index, unsigned but, struct donor_set *going);

/* --- leases_wants.c --- */

/* Returns the want that made the request, and stores the replica for which it made the request. Returns NULL if there
   is none. */
struct leases_want *leases_want_find(struct leases *leases, unsigned donor, uint32_t request, unsigned *ret_replica);
void leases_want_granted(struct leases *leases, struct leases_want *want, unsigned replica,
			 const struct chunk_slot *slot, uint64_t now);
void leases_want_denied(struct leases *leases, struct leases_want *want, unsigned replica, uint64_t now);
void leases_want_deny(struct leases *leases, struct leases_want *want, int status);
void leases_wants_start(struct leases *leases, uint64_t now);
/* Asks donors again for wants that wait for a donor that is away. */
void leases_wants_retry(struct leases *leases, uint64_t now);
/* If a want was granted this slab, which the donor now recalls, takes the slab from the want. Releases the slab,
   unless @taken says that the donor has taken it already. Returns false if no want has the slab. */
bool leases_wants_recall(struct leases *leases, unsigned donor, uint64_t slab, bool taken, uint64_t now);
/* Makes all wants forget their requests to the donor, and the slabs that the donor has granted. */
void leases_wants_drop(struct leases *leases, unsigned donor);
/* Asks again for the slabs that wants still need, because other donors can be asked now. */
void leases_wants_resume(struct leases *leases, uint64_t now);

/* --- leases_joins.c --- */

struct leases_join *leases_join_find(struct leases *leases, unsigned donor, uint32_t request);
void leases_join_granted(struct leases *leases, struct leases_join *join, const struct chunk_slot *slot, uint64_t now);
void leases_join_denied(struct leases *leases, struct leases_join *join, uint64_t now);
/* Returns true if a join will release the slab as soon as no operation uses it. */
bool leases_joins_drain(const struct leases *leases, unsigned donor, uint64_t slab);
/* Returns true if a join has requested or has a slab of the donor. */
bool leases_joins_use(const struct leases *leases, unsigned donor);
/* If a join fills this slot, notes that slot and slab are gone. */
void leases_joins_cut(struct leases *leases, uint32_t index, unsigned replica);
/* Drops the requests and slots that joins have at the donor, which is away or lost. */
void leases_joins_drop(struct leases *leases, unsigned donor, uint64_t now);
void leases_joins_start(struct leases *leases, uint64_t now);
/* Returns when leases_joins_start() must be called next, or UINT64_MAX for never. */
uint64_t leases_joins_due(const struct leases *leases);
/* If a write waits for a slot whose donor is away, and another replica's donor is up, detaches that slot. Wakes the
   queues that wait. */
void leases_detach_away(struct leases *leases, uint32_t index);

#endif
