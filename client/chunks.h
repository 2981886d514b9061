/*
 * chunks: which slab of which donor holds which part of the array.
 *
 * Theory of operation. The array is cut into chunks of one slab each. A chunk is one atomic word (state, epoch, count)
 * and slots, one for each replica and one to spare. The count is that of its pages with contents plus those with a
 * first write in flight, so a slab whose count is 0 is used by nobody. The epoch changes whenever all slots do: who
 * held a count under an older epoch holds nothing any more.
 *
 *     NONE --first write--> WANTED --granted--> READY --count 0, given back--> NONE
 *                             |  denied           | every replica's donor gone
 *                             +---> NONE          +---> LOSING --pages marked lost--> NONE
 *
 * While it is READY a single slot may come or go, and counts stay:
 *
 *     EMPTY --joined--> JOINING --promoted--> FULL --detached--> EMPTY
 *                          +------detached----------------------> EMPTY
 *
 * Reads use FULL slots. Writes go to FULL and JOINING ones, so that a slab which is being filled with what the others
 * have (rebuild.h) does not miss what is written meanwhile. A READY chunk always has a FULL slot; a chunk with fewer of
 * them than there are to be replicas is degraded. What was detached is never FULL again: its slab may miss writes from
 * then on.
 *
 * A READY chunk may be to leave for the backup (backup.h), because its donors want its slabs back and nobody else has
 * room: then writes go there, the rebuild thread moves what is on donors, and when its count is 0 its slabs go back.
 *
 * The state of a slot, its donor and its rkey are one atomic word, so that a slot comes or goes with one store. The
 * version is raised before and after it. Whoever finds the same version before and after looking has seen the slots as
 * they were at one moment; and who publishes what it is about to do (far_queue.h), then finds the version still the
 * same, is seen by everybody who looks for such things after having changed a slot: the store of one and the load of
 * the other are sequentially consistent on both sides. An address is stored before the word of its slot and loaded
 * after it.
 *
 * Threads. chunk_view, chunk_hold, chunk_drop and chunk_current: any. Everything else: the control thread, which alone
 * leaves WANTED and READY. A bit a chunk in `attention` tells it where to look.
 *
 * After a crash. The table may lie in a file (state.h) and outlive its process, which may have been killed between any
 * two stores. What chunk_recover() finds is one of these, and is made good:
 *
 *  - WANTED: nobody waits any more, and a slab granted meanwhile is claimed by nobody: NONE.
 *  - READY: the word is stored after slots and slabs, so these are whole. An address or rkey may be half changed
 *    (chunk_readdress): both are learnt anew before they are used. A slot that was JOINING goes, for nobody fills it
 * any more; one that was detached is EMPTY already: it is before any write that it misses is complete. The count may
 *    include writes that were in flight,
 *    or lack a commit or a drop that had not come to it: it is counted anew.
 *  - LOSING: some pages are marked lost: all are, then NONE.
 *  - NONE with live pages: a write was committed while its chunk was being lost, and had not looked again
 *    (far_request.c): these are lost, too.
 *  - NONE whose slab is still the donor's: it was moved before the release was sent, or the slab given to another
 *    chunk: the donor takes back what is not claimed. A slab is never named by two chunks: it is taken from one first.
 *
 * The epoch stays where slots stay; nobody holds anything under one of a process that has ended.
 */
#ifndef CLIENT_CHUNKS_H
#define CLIENT_CHUNKS_H

#include "client/far.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum chunk_state { CHUNK_NONE, CHUNK_WANTED, CHUNK_READY, CHUNK_LOSING };
const char *chunk_state_name(enum chunk_state state);

enum chunk_slot_state { SLOT_FULL, SLOT_JOINING, SLOT_EMPTY };
struct chunk_slot {
	uint64_t address;
	uint32_t rkey;
	uint32_t donor;
	uint64_t slab; /* the donor's name for it; not part of a view */
	enum chunk_slot_state state;
};

struct chunk {
	_Atomic uint64_t word;
	_Atomic uint32_t version; /* of the slots */
	_Atomic uint32_t denials; /* how often a lease for it was denied */
	_Atomic int16_t denial;   /* the last one's status */
	_Atomic bool ahead;       /* WANTED before anyone writes to it */
	_Atomic bool asked_ahead; /* it has had its successor asked for */
	_Atomic bool hindered;    /* a write waits for a donor that is away, though another has a replica */
	_Atomic bool leaving;     /* it is to be empty: writes go to the backup */
	struct {
		_Atomic uint64_t address;
		_Atomic uint64_t key; /* state << 56 | donor << 32 | rkey */
	} slots[FAR_SLOTS_MAX];
	/* The control thread's own. */
	_Alignas(64) uint64_t slabs[FAR_SLOTS_MAX];
	/* In a list of client/leases.c: which, since when, and its neighbours there (index + 1, 0: none). */
	uint8_t list;
	uint32_t previous, next;
	uint64_t since;
};

struct chunk_table {
	struct chunk *chunks;
	uint64_t count;
	uint64_t pages; /* of one chunk */
	unsigned replicas;
	_Atomic uint64_t *attention;
	bool placed; /* the memory is somebody else's */
};

/* A consistent copy of a chunk's slots. */
struct chunk_view {
	uint32_t epoch, version;
	struct chunk_slot slots[FAR_SLOTS_MAX];
};

/* For @pages pages in chunks of @chunk_pages. -ENOMEM, -EINVAL (more chunks than an index can name). */
int chunk_table_open(struct chunk_table *table, uint64_t pages, uint64_t chunk_pages, unsigned replicas);
void chunk_table_close(struct chunk_table *table);

/* How many chunks that makes, and the bytes of their attention. */
uint64_t chunk_table_count(uint64_t pages, uint64_t chunk_pages);
uint64_t chunk_table_attention_bytes(uint64_t count);
/* The same in the caller's memory, which outlives the table: chunk_table_count() chunks and their attention, all zero
   or as another process has left them. -EINVAL. */
int chunk_table_place(struct chunk_table *table, uint64_t pages, uint64_t chunk_pages, unsigned replicas,
		      struct chunk *chunks, _Atomic uint64_t *attention);

enum chunk_state chunk_state(const struct chunk_table *table, uint64_t index);
uint32_t chunk_pages_held(const struct chunk_table *table, uint64_t index);
/* Whether the chunk was never wanted: none of its pages was ever written. */
bool chunk_is_untouched(const struct chunk_table *table, uint64_t index);

/* False when the chunk has no slab. */
bool chunk_view(const struct chunk_table *table, uint64_t index, struct chunk_view *ret_view);

/*
 * CHUNK_HELD: @pages more are counted under *ret_view's epoch. Else nothing is: CHUNK_ASKED: the chunk is WANTED from
 * now on and the control thread must be told; CHUNK_WAIT: it is wanted already, or being lost.
 */
enum chunk_hold { CHUNK_HELD, CHUNK_ASKED, CHUNK_WAIT };
enum chunk_hold chunk_hold(struct chunk_table *table, uint64_t index, uint32_t pages, struct chunk_view *ret_view);
/*
 * To be called by a writer that holds the chunk: when it is half full, its successor is asked for, once, because memory
 * is mostly filled upwards and a slab takes its donor a while. Returns whether the control thread must be told.
 */
bool chunk_look_ahead(struct chunk_table *table, uint64_t index);
/*
 * @pages fewer, unless the epoch has changed. Returns whether the control thread must be told: the count is 0.
 */
bool chunk_drop(struct chunk_table *table, uint64_t index, uint32_t epoch, uint32_t pages);
/* The epoch now; false when the chunk is not READY: nothing is counted. */
bool chunk_epoch(const struct chunk_table *table, uint64_t index, uint32_t *ret_epoch);
/*
 * Whether the chunk is still READY in @epoch, after everything this thread has stored (a full fence): a store before
 * is seen by the control thread when it marks the pages of a lost chunk, or else this says false.
 */
bool chunk_is_current(const struct chunk_table *table, uint64_t index, uint32_t epoch);

/* Whether the chunk is still READY with the slots of @view, after everything this thread has stored. */
bool chunk_is_unchanged(const struct chunk_table *table, uint64_t index, const struct chunk_view *view);
/* As chunk_hold(), but nobody asks for a slab: false when there is none. */
bool chunk_hold_ready(struct chunk_table *table, uint64_t index, uint32_t pages, struct chunk_view *ret_view);
/* A write of the chunk waits for a donor that is away, while another replica's is up: the control thread, which must be
   told, detaches the slot if it is so, and wakes who waits. */
void chunk_hinder(struct chunk_table *table, uint64_t index);
/* Whether it is to leave for the backup. */
bool chunk_is_leaving(const struct chunk_table *table, uint64_t index);
/* How many replicas a READY chunk lacks; 0 of any other. */
unsigned chunk_replicas_missing(const struct chunk_table *table, uint64_t index);
/* Whether more of a READY chunk's slots are FULL than there are to be replicas: one is still to go. */
bool chunk_has_spare(const struct chunk_table *table, uint64_t index);
/* The version of its slots now. */
uint32_t chunk_version(const struct chunk_table *table, uint64_t index);

/* --- The control thread's ----------------------------------------------------------------------------------- */

void chunk_attention_set(struct chunk_table *table, uint64_t index);
void chunk_attention_clear(struct chunk_table *table, uint64_t index);
/* WANTED -> READY with these slots, one for each replica, not all EMPTY. */
void chunk_publish(struct chunk_table *table, uint64_t index, const struct chunk_slot slots[]);
/* WANTED -> NONE; @status: why. Unless that is -ENOMEM its part of the integrity arrays is there: it is not untouched
   any more. */
void chunk_deny(struct chunk_table *table, uint64_t index, int status);
/* READY with count 0 -> NONE: true, and its slots, FAR_SLOTS_MAX, are the caller's. */
bool chunk_take_idle(struct chunk_table *table, uint64_t index, struct chunk_slot ret_slots[]);
/* READY -> LOSING; all counts are void. */
void chunk_lose(struct chunk_table *table, uint64_t index);
/* LOSING -> NONE. */
void chunk_lost(struct chunk_table *table, uint64_t index);
/*
 * A READY chunk's slot has another address or rkey from now on: its donor has come back. The epoch stays, for the slab
 * is the same; nobody uses the slot meanwhile, because the donor's connections are those of before, which are dead.
 */
void chunk_readdress(struct chunk_table *table, uint64_t index, unsigned replica, uint64_t address, uint32_t rkey);
/* A READY chunk's slots: EMPTY -> JOINING with @slot's slab; JOINING -> FULL; FULL, unless it is the last, or JOINING
   -> EMPTY. */
void chunk_join(struct chunk_table *table, uint64_t index, unsigned replica, const struct chunk_slot *slot);
void chunk_promote(struct chunk_table *table, uint64_t index, unsigned replica);
void chunk_detach(struct chunk_table *table, uint64_t index, unsigned replica);
/* A READY chunk is to leave for the backup, from its next version on; or not any more. Nothing of it may be on its
   slabs from its next version on. */
void chunk_leave(struct chunk_table *table, uint64_t index);
void chunk_stay(struct chunk_table *table, uint64_t index);
void chunk_empty(struct chunk_table *table, uint64_t index);
/* Takes back what chunk_hinder() said: whether it was said since. */
bool chunk_hindered(struct chunk_table *table, uint64_t index);
/* The FAR_SLOTS_MAX slots of a READY chunk, with their slabs. */
void chunk_slots(const struct chunk_table *table, uint64_t index, struct chunk_slot ret_slots[]);

/* --- After a process has ended: before there are other threads ------------------------------------------------ */

/* Whether the chunk can have been left so: -EINVAL: its word has a state without an epoch, a slot has a state or names
   a donor that there is not (of @donors), or one twice, or none is FULL. */
int chunk_check(const struct chunk_table *table, uint64_t index, unsigned donors);
/* Makes good what was under way. @live: its live pages, if it is READY; else what was live is marked lost by now. */
void chunk_recover(struct chunk_table *table, uint64_t index, uint32_t live);

#endif
