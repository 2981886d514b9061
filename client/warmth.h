/*
 * warmth: how much each slab is used, for its donor to know: who needs memory back takes the least warm slabs first.
 *
 * Theory of operation. Queues count the pages they move, by the chunk. Every two seconds these become a rate, averaged
 * over about eight, and what has doubled or halved since it was last told is told anew, in few messages (WARM) at a
 * time; so is what lies in another slab than then. A store that moves nothing tells nothing.
 *
 * It is advice: what is lost of it, or comes late, costs nothing but a choice that might have been better. It is not
 * kept for a process that adopts the store, which tells of all its slabs anew.
 *
 * Threads: warmth_moved: any; all else the control thread.
 */
#ifndef CLIENT_WARMTH_H
#define CLIENT_WARMTH_H

#include "client/chunks.h"
#include "farpage/wire.h"

struct warmth_chunk {
	_Atomic uint32_t moved; /* pages, since the last look */
	uint32_t rate;          /* pages a second */
	uint32_t version;       /* of the chunk's slots when it was told */
	uint8_t told;           /* the bits of the rate then */
};

struct warmth {
	struct warmth_chunk *chunks;
	uint64_t count;
	uint64_t looked; /* when, of clock_now() */
	uint64_t next;   /* the next chunk to tell of; count: none is */
	uint64_t told;   /* when something was */
	struct wire_message messages[FAR_DONORS_MAX];
};

/* -ENOMEM. */
int warmth_open(struct warmth *warmth, uint64_t chunks, uint64_t now);
void warmth_close(struct warmth *warmth);
uint64_t warmth_memory(const struct warmth *warmth);

/* @pages of a chunk are read or written. */
static inline void warmth_moved(struct warmth *warmth, uint64_t chunk, uint32_t pages)
{
	atomic_fetch_add_explicit(&warmth->chunks[chunk].moved, pages, memory_order_relaxed);
}

/* Makes rates of what was counted, if it is time. */
void warmth_look(struct warmth *warmth, uint64_t now);
/*
 * What is to be told now: warmth->messages of each donor that has a bit in the result. @donors: those that can take
 * one; what lies elsewhere is left for the next look. The rest comes with later calls; none of this waits for its time:
 * the thread looks in when it is awake anyway.
 */
uint64_t warmth_tell(struct warmth *warmth, const struct chunk_table *table, uint64_t donors, uint64_t now);

#endif
