/*
 * far_hedge: sends reads to the fastest replica, and reads overdue pages from another replica as well. See far_queue.h.
 *
 * Theory of operation. With replicas, each queue measures how fast each donor answers reads (latency.h).
 *
 *   steer  A read goes to the chunk's first replica that can be reached, unless another replica's mean is less than
 *          half of the first one's. One read in HEDGE_LOOK goes to another replica all the same. So a donor that was
 *          slow is used again once it has recovered.
 *   hedge  A read is overdue after HEDGE_FACTOR times the least p99 of all connected donors, but not before
 *          HEDGE_LEAST_NS. The same pages are then read from another replica, too. The first answer with right
 *          checksums wins. There are no hedges before a p99 is known. There is at most one hedge for each HEDGE_COST
 *          reads. If all donors are late, more hedges make them later.
 *
 * The slow read cannot be cancelled. In verbs, an operation ends only with its queue pair, and ending a connection is
 * an outage: the donor's round is over, and writes detach its slots. So the slow read must not write into the caller's
 * buffer. Reads that may be hedged go to the queue's own buffers, which are registered when the queue is opened. If the
 * data is right, it is copied from there. Copying a page is cheap next to its transfer over any fabric.
 *
 * A late answer must find buffer and piece unchanged, although the request ended long ago. So these rules hold until
 * both reads are answered, or their connections have ended:
 *
 *   - The piece stays published, so that none of its slots' slabs is given back.
 *   - Its chunk counts one page more. So the chunk is not given back as empty when the caller discards the pages.
 *   - The piece keeps its buffers.
 *   - The queue is not quiet (store_quiet()) and must be polled. Without a poll, a drain would wait for the queue.
 *
 * Long reads, and reads without a free buffer, are steered but not hedged.
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
/* The buffers that are kept for hedges: first reads may not use them. */
#define HEDGE_KEPT (HEDGE_BUFFERS / 2)
#define HEDGE_LOOK 64u
#define HEDGE_FACTOR 3u
#define HEDGE_LEAST_NS UINT64_C(1000000)
#define HEDGE_COST 32u
/* The number of hedges that may come at once after a long time without any. */
#define HEDGE_BURST 8u

struct chunk_view;
struct fabric_region;
struct far_queue;

/* Hedging in one queue. */
struct far_hedge {
	uint8_t *memory; /* the buffers, or NULL if reads are neither steered nor hedged */
	struct fabric_region *region;
	uint32_t idle;                  /* free buffers, one bit each */
	uint16_t pieces[HEDGE_BUFFERS]; /* the piece that uses each buffer */
	uint64_t limit;                 /* ns until a read is overdue, or 0 if not known yet */
	uint64_t due;                   /* before this time no read becomes overdue */
	unsigned reads;                 /* reads since another replica was last tried */
	unsigned looks;
	unsigned credit; /* one hedge costs HEDGE_COST */
};

/* Opens hedging. The store must have replicas. Returns 0, -ENOMEM, or an error of fabric_register(). */
int far_hedge_open(struct far_queue *queue);
/* Closes hedging, if it was opened. No read may use a buffer. */
void far_hedge_close(struct far_queue *queue);
uint64_t far_hedge_memory(const struct far_queue *queue);

/* Chooses the slot to read @count pages from. @slots has one bit for each slot that can be read, and at least two bits.
   Returns the slot's index. */
unsigned far_hedge_steer(struct far_queue *queue, const struct chunk_view *view, unsigned slots, uint32_t count);
/* Gives a buffer to a read before it is staged. @try is 0 for the piece's first read, 1 for its hedge. Returns false if
   no buffer is free. */
bool far_hedge_begin(struct far_queue *queue, uint16_t piece, unsigned try);
/* Frees the buffer of a read that @donor has answered. @good is false if its connection ended first. */
void far_hedge_end(struct far_queue *queue, uint16_t piece, unsigned donor, bool good);

/* Returns when the next read that can be hedged becomes overdue, or UINT64_MAX for none. */
uint64_t far_hedge_due(struct far_queue *queue);
/* Hedges the reads that are overdue. */
void far_hedge_look(struct far_queue *queue);

#endif
