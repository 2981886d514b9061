/*
 * far_hedge: reads go to the fastest replica, and what is overdue is read from another one as well. See far_queue.h.
 *
 * Theory of operation. With replicas, each queue notes for each donor how long it takes to answer reads (latency.h).
 *
 *   steer  A read goes to the chunk's first replica that can be reached, unless another one's mean is less than half of
 *          that one's. One read in HEDGE_LOOK goes to another replica all the same, so that one that was slow, and is
 *          not any more, is used again.
 *   hedge  A read that is not answered within HEDGE_FACTOR times the lesser p99 of the two donors, and within
 *          HEDGE_LEAST_NS, is read from another replica, too. The first right answer (by its checksums) is the read's.
 *          There are no hedges before a p99 is known, and at most one for HEDGE_COST reads: where everything is late,
 *          asking twice makes it later.
 *
 * The slow one cannot be called back: verbs ends an operation only with its queue pair, and the connection's end is an
 * outage (the donor's round is over, writes detach its slots). So the caller's buffer must not be what it is read into.
 * Reads that may be hedged go to the queue's own buffers, registered when it is opened, and are copied from there when
 * they are found right; a page's copy is cheap next to its way over any fabric. A late answer finds the buffer, and the
 * piece, as it left them: the piece stays published (no slot's slab is given back under it), its chunk counts one page
 * more (nor is it given back as empty, when the caller discards what it has read), and it keeps its buffer until
 * everything asked for has been answered, or its connection has ended, though its request was done long ago. Until then
 * the queue is not quiet (store_quiet()) and has to be polled, or a drain would wait for it.
 *
 * Long reads, and those for which no buffer is free, are steered but not hedged.
 *
 * Threads: the queue's. No allocation after far_hedge_open().
 */
#ifndef CLIENT_FAR_HEDGE_H
#define CLIENT_FAR_HEDGE_H

#include "client/far_request.h"

/* Longest read that is hedged, in pages. */
#define HEDGE_PAGES 8u
/* Of the buffers as many are kept for the hedges as may be overdue at once. */
#define HEDGE_KEPT (HEDGE_BUFFERS / 2)
#define HEDGE_LOOK 64u
#define HEDGE_FACTOR 3u
#define HEDGE_LEAST_NS UINT64_C(1000000)
#define HEDGE_COST 32u
/* Hedges that may come at once when there were none for long. */
#define HEDGE_BURST 8u

/* The store has replicas: -ENOMEM, or what fabric_register says. */
int far_hedge_open(struct far_queue *queue);
/* Connections have ended. Takes one that was not opened. */
void far_hedge_close(struct far_queue *queue);
uint64_t far_hedge_memory(const struct far_queue *queue);

/* The slot to read @count pages from, of those in @slots (a bit each, not 0), the first of which is usual. */
unsigned far_hedge_steer(struct far_queue *queue, const struct chunk_view *view, unsigned slots, uint32_t count);
/* A read is about to be staged for @donor, as the piece's first try (0) or as its hedge (1): gives it a buffer, if
   there is one for it. */
bool far_hedge_begin(struct far_queue *queue, uint16_t index, unsigned try, unsigned donor);
uint8_t *far_hedge_data(const struct far_queue *queue, unsigned buffer);
/* It has been answered, well or not: the buffer is free. */
void far_hedge_end(struct far_queue *queue, uint16_t index, unsigned try, bool good);

/* When the first read becomes overdue that can be hedged; UINT64_MAX: none. */
uint64_t far_hedge_due(struct far_queue *queue);
/* Hedges what is overdue. */
void far_hedge_look(struct far_queue *queue);

#endif
