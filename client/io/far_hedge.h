/*
 * far_hedge: sends reads to the fastest replica, and sends overdue reads to a second replica as well. See
 * far_queue.h.
 *
 * Theory of operation. Each queue of a store with replicas measures how fast each donor answers reads (latency.h).
 *
 *   steer  far_hedge_steer() chooses the donor of a read. Usually this is the first donor of the chunk that can be
 *          reached. If another donor's mean latency is less than half of the first donor's, the fastest donor is
 *          chosen. One read in HEDGE_LOOK goes to a donor that was not chosen, to notice when a slow donor has
 *          recovered.
 *   hedge  A read is overdue after HEDGE_FACTOR times the lowest p99 of all connected donors, but never before
 *          HEDGE_LEAST_NS. far_hedge_look() then reads the same pages from another replica, too. The first answer
 *          with right checksums wins. At most one read in HEDGE_COST is hedged, because more load would make donors
 *          even slower if all of them are late. An overdue read that cannot be hedged now, for example because no other
 *          donor can be reached, is tried again after the same time.
 *
 * The slow read cannot be cancelled. In verbs, an operation ends only with its queue pair, and ending the
 * connection would take the donor out of use. So the slow read may still write to its buffer after the request is
 * complete, and this buffer must not be the caller's. Reads that may be hedged therefore use the queue's own
 * buffers, which are registered when the queue is opened. The data is then copied, which is cheap compared with its
 * transfer over any fabric.
 *
 * The late answer needs its buffer and piece, although the request has ended. So until both reads are answered, or
 * their connections have ended:
 *
 * - The piece stays published, so that no slab of its slots is released.
 * - Its chunk's count is one higher, so that the chunk keeps its slabs if the caller discards the pages.
 * - The piece keeps its buffers.
 * - The queue is not quiet (store_quiet()), because it must be polled to see the late answer. Otherwise a drain
 *   might wait for this answer without end.
 *
 * Long reads, and reads that find no free buffer, are steered but not hedged.
 *
 * Threads: the queue's. No allocation after far_hedge_open().
 */
#ifndef CLIENT_FAR_HEDGE_H
#define CLIENT_FAR_HEDGE_H

#include <stdbool.h>
#include <stdint.h>

#define HEDGE_BUFFERS 16u
/* The longest read that is hedged, in pages. */
#define HEDGE_PAGES 8u
/* The number of buffers that only second reads may use. */
#define HEDGE_KEPT (HEDGE_BUFFERS / 2)
#define HEDGE_LOOK 64u
#define HEDGE_FACTOR 3u
#define HEDGE_LEAST_NS UINT64_C(1000000)
#define HEDGE_COST 32u
/* The number of hedges that may follow each other at once, after a long time without any. */
#define HEDGE_BURST 8u

struct chunk_view;
struct fabric_region;
struct far_queue;

struct far_hedge {
	uint8_t *memory; /* the buffers, or NULL if this queue neither steers nor hedges */
	struct fabric_region *region;
	uint32_t idle;                  /* free buffers, one bit each */
	uint16_t pieces[HEDGE_BUFFERS]; /* the piece that uses each buffer */
	uint64_t limit;                 /* ns after which a read is overdue, or 0 if not known yet */
	uint64_t due;                   /* no read becomes overdue, or is tried again, before this time */
	uint64_t looked_at;             /* when overdue reads were last tried */
	unsigned reads;                 /* reads since another replica was last tried */
	unsigned looks;
	unsigned credit; /* grows by 1 with each read; a hedge costs HEDGE_COST */
};

/* Opens steering and hedging. The store must have replicas. Returns 0, -ENOMEM, or an error of
   fabric_register(). */
int far_hedge_open(struct far_queue *queue);
/* Frees the buffers, if there are any. No read may use one. */
void far_hedge_close(struct far_queue *queue);
uint64_t far_hedge_memory(const struct far_queue *queue);

/* Chooses the slot from which to read @count pages. @slots has one bit for each slot that can be read, and at least
   two bits are set. Returns the slot's index. */
unsigned far_hedge_steer(struct far_queue *queue, const struct chunk_view *view, unsigned slots, uint32_t count);
/* Gives a buffer to a read, before the read is staged. @try is 0 for the piece's first read, 1 for its hedge.
   Returns false if no buffer is free. */
bool far_hedge_begin(struct far_queue *queue, uint16_t piece, unsigned try);
/* Frees the buffer of a read that @donor has answered. @good is false if the connection ended before the answer. */
void far_hedge_end(struct far_queue *queue, uint16_t piece, unsigned donor, bool good);

/* Returns when to call far_hedge_look() next, or UINT64_MAX if no read waits. */
uint64_t far_hedge_due(struct far_queue *queue);
/* Hedges the reads that are overdue. */
void far_hedge_look(struct far_queue *queue);

#endif
