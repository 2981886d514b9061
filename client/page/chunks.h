/*
 * chunks: which slab of which donor holds which part of the page array.
 *
 * Theory of operation. The array is cut into chunks of one slab each. A chunk is one atomic word (state, epoch, count)
 * and its slots: one for each replica, and one to spare. The count is the number of live pages, plus the pages of
 * writes in flight, plus one for each join or copy that holds the chunk. So nobody uses a chunk whose count is 0. The
 * epoch changes whenever all slots do. A count taken in an older epoch is void.
 *
 *     NONE --first write--> WANTED --granted--> READY --count 0, given back--> NONE
 *                             |  denied           | every replica's donor gone
 *                             +---> NONE          +---> LOSING --pages marked lost--> NONE
 *
 * While a chunk is READY, single slots may change. The count does not.
 *
 *     EMPTY --joined--> JOINING --promoted--> FULL --detached--> EMPTY
 *                          +------detached----------------------> EMPTY
 *
 * Reads use FULL slots. Writes go to FULL and JOINING slots, so a slab that is being filled (rebuild.h) misses no
 * write. A READY chunk always has a FULL slot. A chunk with fewer FULL slots than replicas is degraded. A detached slot
 * never becomes FULL again: its slab may miss writes from then on.
 *
 * A READY chunk leaves for the backup (backup.h) if its donors want its slabs back and no other donor has room. Writes
 * then go to the backup, and the rebuild thread moves the pages that donors hold. When the count is 0, the slabs go
 * back.
 *
 * Versions. A slot's state, donor and rkey are one atomic word, so one store adds or removes a slot. The version is
 * raised before and after that store. A thread that finds the same version before and after it reads the slots has seen
 * them as they were at one moment. A slot's address is stored before the slot's word and loaded after it.
 *
 * A queue publishes a piece (far_queue.h) before it looks at the version again. If the version is still the same, every
 * thread that looks at published pieces after it has changed a slot sees this piece. Both sides store before they load,
 * and both use sequential consistency.
 *
 * Threads. Any thread may call the functions above "The control thread". The control thread calls all others, and only
 * it takes a chunk out of WANTED or READY. One bit per chunk in `attention` tells it where to look.
 *
 * After a crash. The table may lie in a file (state.h) and outlive its process, which may be killed between any two
 * stores. chunk_recover() repairs these states:
 *
 * - WANTED: the chunk becomes NONE. No write waits any more, and nobody claims a slab that was granted meanwhile.
 * - READY: slots and slabs are complete, because the word is stored after them. Claims renew addresses and rkeys before
 *   use, because chunk_readdress() may have changed only one of them. A JOINING slot is detached, because nobody fills
 *   it any more. A detached slot is EMPTY before any write that it misses is complete. The live pages are counted anew,
 *   because the count may include writes in flight, or lack a commit or a drop.
 * - LOSING: some pages are marked lost. The rest is marked lost, too, and the chunk becomes NONE.
 * - NONE with live pages: a write was committed while its chunk was being lost, and had not checked the epoch again
 *   (far_answer.c). These pages are lost, too.
 * - NONE whose slab the donor still holds: the chunk changed before the release was sent, or before another chunk got
 *   the slab. The donor takes back slabs that are not claimed. Two chunks never name one slab, because a slab leaves
 *   one chunk before it enters another.
 *
 * The epoch stays if the slots stay: no thread of the ended process is left to drop a count of that epoch.
 */
#ifndef CLIENT_CHUNKS_H
#define CLIENT_CHUNKS_H

#include "client/far.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum chunk_state { CHUNK_NONE, CHUNK_WANTED, CHUNK_READY, CHUNK_LOSING };

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
	_Atomic uint32_t version; /* changes with slots, and in chunk_lose, _leave and _empty */
	_Atomic uint32_t denials; /* how often a lease for the chunk was denied */
	_Atomic int16_t denial;   /* status of the last denial */
	_Atomic bool ahead;       /* the chunk is WANTED, but no write waits for it yet */
	_Atomic bool asked_ahead; /* its successor was asked for */
	_Atomic bool hindered;    /* a write waits for a donor that is away; another donor may have a replica */
	_Atomic bool leaving;     /* writes go to the backup */
	struct {
		_Atomic uint64_t address;
		_Atomic uint64_t key; /* state, donor and rkey (chunks.c) */
	} slots[FAR_SLOTS_MAX];
	/* The control thread's own. */
	_Alignas(64) uint64_t slabs[FAR_SLOTS_MAX];
	/* The chunk's list in client/lease/leases.c, when the chunk came there, and its neighbours: index + 1, or 0 for
	   none. */
	uint8_t list;
	uint32_t previous, next;
	uint64_t since;
};

struct chunk_table {
	struct chunk *chunks;
	uint64_t count;
	uint64_t pages; /* pages of one chunk */
	unsigned replicas;
	_Atomic uint64_t *attention;
	bool placed; /* the caller owns the memory */
};

/* A consistent copy of a chunk's slots. */
struct chunk_view {
	uint32_t epoch, version;
	struct chunk_slot slots[FAR_SLOTS_MAX];
};

/* Opens a table for @pages pages in chunks of @chunk_pages. Returns 0, -ENOMEM, or -EINVAL if there are more chunks, or
   more pages in a chunk, than the table can count. */
int chunk_table_open(struct chunk_table *table, uint64_t pages, uint64_t chunk_pages, unsigned replicas);
void chunk_table_close(struct chunk_table *table);
/* Returns the bytes of memory that the chunks take. The first @touched chunks have been used. A table in the caller's
   memory counts in full. */
uint64_t chunk_table_memory(const struct chunk_table *table, uint64_t touched);

/* Return the number of chunks, and the bytes of their attention bits. */
uint64_t chunk_table_count(uint64_t pages, uint64_t chunk_pages);
uint64_t chunk_table_attention_bytes(uint64_t count);
/* Opens a table in the caller's memory, which outlives it. The caller gives chunk_table_count() chunks and their
   attention bits. Both are all zero, or as another process left them. Returns 0, or -EINVAL like chunk_table_open(). */
int chunk_table_place(struct chunk_table *table, uint64_t pages, uint64_t chunk_pages, unsigned replicas,
		      struct chunk *chunks, _Atomic uint64_t *attention);

enum chunk_state chunk_state(const struct chunk_table *table, uint64_t index);
uint32_t chunk_pages_held(const struct chunk_table *table, uint64_t index);
/* Returns true if the chunk never had a slab, and every denial was -ENOMEM. Then none of its pages was ever written,
   and its part of the integrity arrays may not be present. */
bool chunk_is_untouched(const struct chunk_table *table, uint64_t index);

/* Copies the slots of a READY chunk. Returns false if the chunk is not READY. */
bool chunk_view(const struct chunk_table *table, uint64_t index, struct chunk_view *ret_view);

/*
 * Adds @pages to the count. Returns one of:
 *
 * - CHUNK_HELD: the pages are counted in ret_view's epoch
 * - CHUNK_ASKED: nothing is counted; the chunk is now WANTED, and the caller must kick the control thread
 * - CHUNK_WAIT: nothing is counted; the chunk is WANTED already, or being lost
 */
enum chunk_hold { CHUNK_HELD, CHUNK_ASKED, CHUNK_WAIT };
enum chunk_hold chunk_hold(struct chunk_table *table, uint64_t index, uint32_t pages, struct chunk_view *ret_view);
/*
 * Asks for a slab for the next chunk, once, if this chunk is half full. The caller has just held this chunk for a
 * write. Memory is mostly filled upwards, and a donor takes a while to make a slab ready. Returns true if the caller
 * must kick the control thread.
 */
bool chunk_look_ahead(struct chunk_table *table, uint64_t index);
/*
 * Takes @pages off the count, unless the epoch has changed. Returns true if the count is 0 now. The caller must then
 * kick the control thread.
 */
bool chunk_drop(struct chunk_table *table, uint64_t index, uint32_t epoch, uint32_t pages);
/* Stores the epoch of a READY chunk. Returns false if the chunk is not READY: then nothing is counted in it. */
bool chunk_epoch(const struct chunk_table *table, uint64_t index, uint32_t *ret_epoch);
/*
 * Returns true if the chunk is still READY in @epoch. A full fence comes first. So if this returns true, the control
 * thread sees this thread's earlier stores when it marks the pages of a lost chunk.
 */
bool chunk_is_current(const struct chunk_table *table, uint64_t index, uint32_t epoch);

/* Returns true if the chunk is still READY with the slots of @view. Earlier stores of this thread come before this
   look. */
bool chunk_is_unchanged(const struct chunk_table *table, uint64_t index, const struct chunk_view *view);
/* Adds @pages to the count of a READY chunk, like chunk_hold(). If the chunk is not READY, asks for no slab and returns
   false. */
bool chunk_hold_ready(struct chunk_table *table, uint64_t index, uint32_t pages, struct chunk_view *ret_view);
/* Notes that a write waits for a donor that is away. The caller must kick the control thread. If another replica's
   donor is up, the control thread detaches the away donor's slot and wakes the queues that wait. */
void chunk_hinder(struct chunk_table *table, uint64_t index);
/* Returns true if the chunk is to leave for the backup. */
bool chunk_is_leaving(const struct chunk_table *table, uint64_t index);
/* Returns how many replicas a READY chunk lacks, or 0 for any other chunk. */
unsigned chunk_replicas_missing(const struct chunk_table *table, uint64_t index);
/* Returns true if a READY chunk has more FULL slots than replicas. */
bool chunk_has_spare(const struct chunk_table *table, uint64_t index);
/* Returns the current version of the chunk's slots. */
uint32_t chunk_version(const struct chunk_table *table, uint64_t index);

/* --- The control thread ------------------------------------------------------------------------------------- */

void chunk_attention_set(struct chunk_table *table, uint64_t index);
void chunk_attention_clear(struct chunk_table *table, uint64_t index);
/* Moves a WANTED chunk to READY with these slots: one for each replica, not all EMPTY. */
void chunk_publish(struct chunk_table *table, uint64_t index, const struct chunk_slot slots[]);
/* Moves a WANTED chunk to NONE for the reason @status. If @status is not -ENOMEM, the chunk's part of the integrity
   arrays is present, and the chunk no longer counts as untouched. */
void chunk_deny(struct chunk_table *table, uint64_t index, int status);
/* Moves a READY chunk with count 0 to NONE. Returns true if the chunk was moved. Its slots' slabs then belong to the
   caller. */
bool chunk_take_idle(struct chunk_table *table, uint64_t index, struct chunk_slot ret_slots[]);
/* Moves a READY chunk to LOSING. All counts are void. */
void chunk_lose(struct chunk_table *table, uint64_t index);
/* Moves a LOSING chunk to NONE. */
void chunk_lost(struct chunk_table *table, uint64_t index);
/*
 * Gives a slot of a READY chunk another address and rkey, because its donor has come back. The epoch stays, because the
 * slab is the same. Nobody uses the slot meanwhile, because all old connections to the donor have ended.
 */
void chunk_readdress(struct chunk_table *table, uint64_t index, unsigned replica, uint64_t address, uint32_t rkey);
/* Change a slot of a READY chunk. chunk_join(): EMPTY -> JOINING with the slab of @slot. chunk_promote(): JOINING ->
   FULL. chunk_detach(): JOINING or FULL -> EMPTY. Another slot must be FULL. */
void chunk_join(struct chunk_table *table, uint64_t index, unsigned replica, const struct chunk_slot *slot);
void chunk_promote(struct chunk_table *table, uint64_t index, unsigned replica);
void chunk_detach(struct chunk_table *table, uint64_t index, unsigned replica);
/* chunk_leave() marks a READY chunk as leaving for the backup. chunk_stay() takes the mark back. chunk_empty() notes
   that all pages have left. chunk_leave() and chunk_empty() raise the version, so that earlier pieces can be told from
   later ones. */
void chunk_leave(struct chunk_table *table, uint64_t index);
void chunk_stay(struct chunk_table *table, uint64_t index);
void chunk_empty(struct chunk_table *table, uint64_t index);
/* Clears the mark of chunk_hinder(). Returns true if it was set. */
bool chunk_hindered(struct chunk_table *table, uint64_t index);
/* Copies the FAR_SLOTS_MAX slots of a READY chunk, with their slabs. */
void chunk_slots(const struct chunk_table *table, uint64_t index, struct chunk_slot ret_slots[]);

/* --- After a process has ended, and before there are other threads -------------------------------------------- */

/*
 * Returns 0 if a process can have left the chunk like this, else -EINVAL. It cannot if:
 *
 * - the word has a state without an epoch
 * - a slot has an invalid state, or names a donor that does not exist (there are @donors)
 * - two slots name one donor
 * - no slot is FULL
 */
int chunk_check(const struct chunk_table *table, uint64_t index, unsigned donors);
/* Repairs a chunk that an ended process left half changed. If the chunk is READY, @live is the number of its live pages.
   In any other state @live is ignored, because the caller has marked the live pages lost. */
void chunk_recover(struct chunk_table *table, uint64_t index, uint32_t live);

#endif
