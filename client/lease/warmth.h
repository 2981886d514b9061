/*
 * warmth: reports to each donor how often each of its slabs is used. A donor that needs its memory takes back its
 * coldest slabs first.
 *
 * Theory of operation. Queues count the pages that they read and write in each chunk (warmth_moved()). Every two
 * seconds warmth_look() turns these counts into a rate, averaged over about eight seconds. warmth_tell() then
 * reports a chunk if its rate has doubled or halved since the last report, or if its slots have changed. The
 * reports go out in WARM messages, a few at a time. A store that reads and writes nothing sends none.
 *
 * Reports are only advice: if one is lost or late, a donor may recall a slab that is in use. A process that adopts
 * the store does not inherit the rates, and reports all its slabs anew.
 *
 * Threads. Any thread may call warmth_moved(). The control thread calls the other functions.
 */
#ifndef CLIENT_WARMTH_H
#define CLIENT_WARMTH_H

#include "client/donor_set.h"
#include "client/page/chunks.h"
#include "wire/wire.h"

struct warmth_chunk {
	_Atomic uint32_t moved; /* pages moved since warmth_look() */
	uint32_t rate;          /* pages per second */
	uint32_t version;       /* version of the chunk's slots when the rate was last reported */
	uint8_t told;           /* number of bits of the last reported rate */
};

struct warmth {
	struct warmth_chunk *chunks;
	uint64_t count;
	uint64_t looked; /* far_now() when warmth_look() last computed rates */
	uint64_t next;   /* the next chunk to report, or `count` for none */
	uint64_t told;   /* when the last messages were made */
	unsigned donors;
	struct wire_message *messages; /* one for each donor */
};

/* Allocates the counters of @chunks chunks, and the messages to @donors donors. Returns 0 or -ENOMEM. */
int warmth_open(struct warmth *warmth, uint64_t chunks, unsigned donors, uint64_t now);
void warmth_close(struct warmth *warmth);
uint64_t warmth_memory(const struct warmth *warmth);

/* Counts @pages of a chunk that were read or written. */
static inline void warmth_moved(struct warmth *warmth, uint64_t chunk, uint32_t pages)
{
	atomic_fetch_add_explicit(&warmth->chunks[chunk].moved, pages, memory_order_relaxed);
}

/* Turns the counts into rates. Does nothing if less than two seconds have passed. */
void warmth_look(struct warmth *warmth, uint64_t now);
/*
 * Writes the next messages into warmth->messages. Stores in *ret_told the donors that have a message.
 *
 * @donors are the donors that can receive a message. A chunk with a slab on any other donor is skipped
 * until after the next warmth_look(). If not all chunks fit into the messages, the next call reports the others. This
 * needs no timer, because the control thread calls the function whenever it is awake.
 */
void warmth_tell(struct warmth *warmth, const struct chunk_table *table, const struct donor_set *donors, uint64_t now,
		 struct donor_set *ret_told);

#endif
