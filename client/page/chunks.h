/*
 * chunks: the table that maps each part of the page array to slabs on donors.
 *
 * Theory of operation. The page array is divided into chunks, and each chunk fills one slab. A chunk has one slot
 * for each replica, and one to spare. One atomic word holds its state, epoch and count.
 *
 *     NONE --first write--> WANTED --granted--> READY --count 0, released--> NONE
 *                             |  denied           | every replica's donor gone
 *                             +---> NONE          +---> LOSING --pages marked lost--> NONE
 *
 * A chunk begins as NONE. The first write to it (chunk_hold()) makes it WANTED, and the control thread then leases
 * a slab for each replica. chunk_publish() stores the slabs in the slots and makes the chunk READY. If all replicas
 * are lost together with their donors, the chunk is LOSING while the control thread marks its pages as lost.
 *
 * The count is the sum of live pages, pages of writes in flight, and one for each join or copy that uses the chunk.
 * So when the count is 0, nobody uses the chunk, and the control thread may release its slabs (chunk_take_idle()).
 * The epoch changes whenever all slots change together. Pages that were counted in an older epoch must not be
 * subtracted from the new count.
 *
 * While a chunk is READY, single slots may change, but the chunk's count stays the same.
 *
 *     EMPTY --joined--> JOINING --promoted--> FULL --detached--> EMPTY
 *                          +------detached----------------------> EMPTY
 *
 * A new replica begins as JOINING, while the rebuild thread copies the chunk's pages to it (rebuild.h). Reads use
 * only FULL slots, but writes go to FULL and JOINING slots, so the new replica misses no write. chunk_promote()
 * then makes the slot FULL. A READY chunk always has a FULL slot. After a slot is detached, its slab may miss
 * writes, so the slot never becomes FULL again with this slab.
 *
 * If the donors of a chunk recall all its slabs, and no other donor has memory, the chunk leaves for the backup
 * (backup.h). Writes then go to the backup, and the rebuild thread moves the other pages there. When the count is
 * 0, the slabs are released.
 *
 * Versions. Any thread may read the slots while the control thread changes one. To change a slot, the control
 * thread raises the chunk's version, stores the slot's word (state, donor and rkey), and raises the version again.
 * A reader that finds the same version before and after it has read the slots has a consistent copy. A slot's
 * address is stored before the slot's word and loaded after it.
 *
 * Before a queue sends a piece, it publishes the piece with the version, and then compares the version again. So a
 * thread that changes a slot can find the pieces that still use the old slot (far_queue.h, "Publishing").
 *
 * Threads. Any thread may call the functions above the line "The control thread". The other functions are for the
 * control thread, and only it moves a chunk out of WANTED or READY. Queues set a chunk's bit in `attention` to show
 * the control thread where to look.
 *
 * After a crash. The table may lie in a file (state.h), and another process may adopt it. The earlier process may
 * have been killed between any two stores. chunk_recover() then repairs these states:
 *
 * - WANTED: the chunk becomes NONE, because the write that waited has ended with its process. If a donor has granted
 *   a slab meanwhile, nobody claims this slab, and the donor takes it back.
 * - READY: the slots are complete, because the chunk's word is stored after the slots. The address and rkey of a slot
 *   may not belong together, if chunk_readdress() was interrupted, but the claim of the slab renews both before use.
 *   A JOINING slot is detached, because nobody fills it any more. If a slot missed a write, it was detached before
 *   that write was complete, so a FULL slot has all complete writes. The live pages are counted anew, because the old
 *   count may be wrong: it included writes in flight, and its last change may be missing.
 * - LOSING: some pages are marked lost. The others are now marked lost, too, and the chunk becomes NONE.
 * - NONE with live pages: a write was committed while its chunk was being lost. The process ended before it could
 *   compare the epoch (far_answer.c). These pages are lost, too.
 * - NONE, but a donor still has its slab: the process ended before it sent the release, or before another chunk got
 *   the slab. Nobody claims this slab, so the donor takes it back. Two chunks never name the same slab, because a
 *   slab is removed from one chunk before it is added to another.
 *
 * The epoch stays if the slots stay, because no thread of the ended process can subtract from the new count.
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
	uint64_t slab; /* the donor's name for the slab; chunk_view() does not set it */
	enum chunk_slot_state state;
};

struct chunk {
	_Atomic uint64_t word;
	_Atomic uint32_t version; /* changes with the slots, and in chunk_lose(), chunk_leave() and chunk_empty() */
	_Atomic uint32_t denials;
	_Atomic int16_t denial;
	_Atomic bool ahead;       /* the chunk is WANTED only by chunk_look_ahead(): no write waits for it yet */
	_Atomic bool asked_ahead; /* chunk_look_ahead() has asked for the next chunk */
	_Atomic bool hindered;    /* a write waits for a donor that is away; another donor may have a replica */
	_Atomic bool leaving;     /* the chunk is leaving for the backup: writes go there */
	struct {
		_Atomic uint64_t address;
		_Atomic uint64_t key; /* state, donor and rkey (chunks.c) */
	} slots[FAR_SLOTS_MAX];
	/* Only the control thread uses the fields below. */
	_Alignas(64) uint64_t slabs[FAR_SLOTS_MAX];
	/* The chunk's list (enum leases_list_kind), its neighbours in the list (index + 1, or 0 for none), and the
	   time when it entered the list. */
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
	_Atomic uint64_t touched; /* number of chunks that are not untouched (chunk_is_untouched()) */
	bool placed;              /* the memory belongs to the caller */
};

/* A copy of a chunk's slots, all of one version. */
struct chunk_view {
	uint32_t epoch, version;
	struct chunk_slot slots[FAR_SLOTS_MAX];
};

/* Opens a table for @pages pages in chunks of @chunk_pages pages. Returns 0, -ENOMEM, or -EINVAL if there are more
   chunks, or more pages in a chunk, than the table can count. */
int chunk_table_open(struct chunk_table *table, uint64_t pages, uint64_t chunk_pages, unsigned replicas);
void chunk_table_close(struct chunk_table *table);
/* Returns the memory of the chunks in bytes. A table in the caller's memory counts in full. */
uint64_t chunk_table_memory(const struct chunk_table *table);

/* Return the number of chunks, and the size of their attention bits in bytes. */
uint64_t chunk_table_count(uint64_t pages, uint64_t chunk_pages);
uint64_t chunk_table_attention_bytes(uint64_t count);
/* Opens a table in the caller's memory, which must outlive it: chunk_table_count() chunks and their attention bits.
   The memory is all zero, or is a table that another process has left. Returns 0, or -EINVAL like
   chunk_table_open(). */
int chunk_table_place(struct chunk_table *table, uint64_t pages, uint64_t chunk_pages, unsigned replicas,
		      struct chunk *chunks, _Atomic uint64_t *attention);

enum chunk_state chunk_state(const struct chunk_table *table, uint64_t index);
uint32_t chunk_pages_held(const struct chunk_table *table, uint64_t index);
/* Returns true if the chunk never had a slab, and was never denied one. A denial with -ENOMEM does not count. No page
   of an untouched chunk was ever written, and the chunk's part of the integrity arrays may not be present. */
bool chunk_is_untouched(const struct chunk_table *table, uint64_t index);

/* Copies the slots of a READY chunk. Returns false if the chunk is not READY. */
bool chunk_view(const struct chunk_table *table, uint64_t index, struct chunk_view *ret_view);

/*
 * Adds @pages to the count. Returns one of:
 *
 * - CHUNK_HELD: the pages are counted, in ret_view's epoch
 * - CHUNK_ASKED: nothing is counted; the chunk was NONE and is now WANTED, and the caller must wake the control
 *   thread
 * - CHUNK_WAIT: nothing is counted; the chunk was WANTED already, or is being lost
 */
enum chunk_hold { CHUNK_HELD, CHUNK_ASKED, CHUNK_WAIT };
enum chunk_hold chunk_hold(struct chunk_table *table, uint64_t index, uint32_t pages, struct chunk_view *ret_view);
/*
 * If this chunk is half full, asks for a slab for the next chunk, once (see far.h). Called after chunk_hold() for a
 * write. Returns true if the caller must wake the control thread.
 */
bool chunk_look_ahead(struct chunk_table *table, uint64_t index);
/*
 * Subtracts @pages from the count, unless the epoch has changed. Returns true if the caller must wake the control
 * thread, because the count is now 0.
 */
bool chunk_drop(struct chunk_table *table, uint64_t index, uint32_t epoch, uint32_t pages);
/* Stores the epoch of a READY chunk. Returns false if the chunk is not READY, so that nothing is counted in it. */
bool chunk_epoch(const struct chunk_table *table, uint64_t index, uint32_t *ret_epoch);
/*
 * Returns true if the chunk is still READY in @epoch. A full memory fence comes first. If the chunk is lost after
 * this call has returned true, the control thread marks the chunk's pages as lost. At that moment it sees all stores
 * that this thread made before the call.
 */
bool chunk_is_current(const struct chunk_table *table, uint64_t index, uint32_t epoch);

/* Returns true if the chunk is still READY with the slots of @view. Earlier stores of this thread are ordered
   before this check. */
bool chunk_is_unchanged(const struct chunk_table *table, uint64_t index, const struct chunk_view *view);
/* Adds @pages to the count of a READY chunk, like chunk_hold(). Returns false if the chunk is not READY, but does not
   ask for a slab. */
bool chunk_hold_ready(struct chunk_table *table, uint64_t index, uint32_t pages, struct chunk_view *ret_view);
/* Notes that a write waits for a donor that is away. The caller must wake the control thread. If another replica's
   donor is up, that thread detaches the away donor's slot and wakes the waiting queues. */
void chunk_hinder(struct chunk_table *table, uint64_t index);
bool chunk_is_leaving(const struct chunk_table *table, uint64_t index);
/* Returns how many replicas a READY chunk lacks, or 0 for any other chunk. */
unsigned chunk_replicas_missing(const struct chunk_table *table, uint64_t index);
/* Returns true if a READY chunk has more FULL slots than replicas. */
bool chunk_has_spare(const struct chunk_table *table, uint64_t index);
uint32_t chunk_version(const struct chunk_table *table, uint64_t index);

/* --- The control thread ------------------------------------------------------------------------------------- */

void chunk_attention_set(struct chunk_table *table, uint64_t index);
void chunk_attention_clear(struct chunk_table *table, uint64_t index);
/* Moves a WANTED chunk to READY with these slots, one for each replica. At least one is not EMPTY. */
void chunk_publish(struct chunk_table *table, uint64_t index, const struct chunk_slot slots[]);
/* Moves a WANTED chunk to NONE, because a slab was denied with @status. -ENOMEM means that the chunk's part of the
   integrity arrays could not be allocated. After any other status this part exists, and the chunk is no longer
   untouched. */
void chunk_deny(struct chunk_table *table, uint64_t index, int status);
/* Moves a READY chunk whose count is 0 to NONE. Returns true if the chunk was moved. The caller then owns the slabs
   of its slots. */
bool chunk_take_idle(struct chunk_table *table, uint64_t index, struct chunk_slot ret_slots[]);
/* Moves a READY chunk to LOSING. Everything counted so far is void. */
void chunk_lose(struct chunk_table *table, uint64_t index);
void chunk_lost(struct chunk_table *table, uint64_t index);
/*
 * Stores the address and rkey that a slot's slab has after its donor has come back. The epoch stays, because the
 * slab is the same. Nobody uses the slot at this time, because all old connections to the donor have ended.
 */
void chunk_readdress(struct chunk_table *table, uint64_t index, unsigned replica, uint64_t address, uint32_t rkey);
/* Change a slot of a READY chunk. chunk_join(): EMPTY -> JOINING, with the slab of @slot. chunk_promote(): JOINING
   -> FULL. chunk_detach(): JOINING or FULL -> EMPTY; another slot must be FULL. */
void chunk_join(struct chunk_table *table, uint64_t index, unsigned replica, const struct chunk_slot *slot);
void chunk_promote(struct chunk_table *table, uint64_t index, unsigned replica);
void chunk_detach(struct chunk_table *table, uint64_t index, unsigned replica);
/* chunk_leave() marks a READY chunk as leaving for the backup. chunk_stay() removes the mark. chunk_empty() is
   called when all pages have left. chunk_leave() and chunk_empty() raise the version, so that pieces published
   before the call can be told from later ones. */
void chunk_leave(struct chunk_table *table, uint64_t index);
void chunk_stay(struct chunk_table *table, uint64_t index);
void chunk_empty(struct chunk_table *table, uint64_t index);
/* Clears the mark of chunk_hinder(). Returns true if the chunk was marked. */
bool chunk_hindered(struct chunk_table *table, uint64_t index);
/* Copies the FAR_SLOTS_MAX slots of a READY chunk, with their slabs. */
void chunk_slots(const struct chunk_table *table, uint64_t index, struct chunk_slot ret_slots[]);

/* --- After a process has ended, and before there are other threads -------------------------------------------- */

/*
 * Returns 0 if a process can have left the chunk in this state, or -EINVAL if:
 *
 * - a READY or LOSING chunk has no epoch
 * - a slot has an invalid state, or names a donor that does not exist (there are @donors)
 * - two slots name one donor
 * - a READY chunk has no FULL slot
 */
int chunk_check(const struct chunk_table *table, uint64_t index, unsigned donors);
/* Repairs a chunk that an ended process has left half changed, see "After a crash". @live is the number of live
   pages of a READY chunk. In any other state the caller has marked live pages as lost, and @live is ignored. */
void chunk_recover(struct chunk_table *table, uint64_t index, uint32_t live);

#endif
