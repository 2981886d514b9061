/*
 * warmth: tells each donor how much its slabs are used. A donor that needs memory back takes its coldest slabs first.
 *
 * Theory of operation. Queues count the pages they move, for each chunk. Every two seconds these counts become a rate,
 * averaged over about eight seconds. A chunk is reported if its rate has doubled or halved since its last report, or if
 * its slots have changed. Reports go out in WARM messages, a few at a time. A store that moves no pages sends none.
 *
 * Reports are only advice. If a report is lost or late, a donor may make a worse choice. A process that adopts the
 * store does not inherit them, and reports all its slabs anew.
 *
 * Threads. Any thread may call warmth_moved(). The control thread calls the other functions.
 */
#ifndef CLIENT_WARMTH_H
#define CLIENT_WARMTH_H

#include "client/page/chunks.h"
#include "wire/wire.h"

struct warmth_chunk {
	_Atomic uint32_t moved; /* pages moved since warmth_look() */
	uint32_t rate;          /* pages per second */
	uint32_t version;       /* the version of the chunk's slots when the rate was last reported */
	uint8_t told;           /* the number of bits of the last reported rate */
};

struct warmth {
	struct warmth_chunk *chunks;
	uint64_t count;
	uint64_t looked; /* far_now() when warmth_look() last computed rates */
	uint64_t next;   /* next chunk to report, or `count` for none */
	uint64_t told;   /* when the last messages were made */
	struct wire_message messages[FAR_DONORS_MAX];
};

/* Allocates the counters of @chunks chunks. Returns 0 or -ENOMEM. */
int warmth_open(struct warmth *warmth, uint64_t chunks, uint64_t now);
void warmth_close(struct warmth *warmth);
/* Returns the bytes allocated. */
uint64_t warmth_memory(const struct warmth *warmth);

/* Counts @pages of a chunk as read or written. */
static inline void warmth_moved(struct warmth *warmth, uint64_t chunk, uint32_t pages)
{
	atomic_fetch_add_explicit(&warmth->chunks[chunk].moved, pages, memory_order_relaxed);
}

/* Turns the counts into rates, unless this was done less than two seconds ago. */
void warmth_look(struct warmth *warmth, uint64_t now);
/*
 * Prepares the next messages in warmth->messages. Returns one bit for each donor that has a message.
 *
 * @donors has one bit for each donor that can take a message. A chunk with a slab on any other donor is reported after
 * the next warmth_look(). Further chunks are reported by later calls. No timer is needed for them: the control thread
 * calls this whenever it is awake.
 */
uint64_t warmth_tell(struct warmth *warmth, const struct chunk_table *table, uint64_t donors, uint64_t now);

#endif
