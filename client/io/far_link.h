/*
 * far_link: a queue's connections to donors, one for each donor. Operations are staged here, and posted in batches.
 * far_queue.c makes and ends the connections, and far_answer.h handles the answers.
 *
 * Threads: the queue's.
 */
#ifndef CLIENT_FAR_LINK_H
#define CLIENT_FAR_LINK_H

#include "client/io/far_queue.h"
#include "client/io/latency.h"

/* The most operations in one batch. */
#define FAR_LINK_BATCH 16u

struct far_link {
	struct fabric_conn *conn; /* NULL for none */
	bool established;         /* the connection can be used, and the queue has not seen its end */
	uint32_t round;           /* the donor's round when `conn` was made */
	struct latency latency;   /* how fast the donor answers reads; used only with replicas */
	bool listed;              /* the donor is in queue->staged */
	bool counted;             /* the connection is part of queue->memory */
	unsigned staged;
	struct fabric_op ops[FAR_LINK_BATCH];
};

static inline bool far_link_donor_is_up(const struct far_queue *queue, unsigned donor)
{
	return atomic_load_explicit(&queue->far->donors[donor].round, memory_order_acquire) & 1;
}

static inline bool far_link_donor_is_lost(const struct far_queue *queue, unsigned donor)
{
	return atomic_load_explicit(&queue->far->donors[donor].status, memory_order_acquire);
}

/* Returns true if operations can be posted to the donor, as far as the queue knows. */
static inline bool far_link_is_usable(const struct far_queue *queue, unsigned donor)
{
	const struct far_link *link = &queue->links[donor];

	return link->established &&
	       link->round == atomic_load_explicit(&queue->far->donors[donor].round, memory_order_acquire);
}

/* If the queue connects late, and has not tried to connect in the donor's round, begins to connect. far_queue.c has
   this function. */
void far_link_need(struct far_queue *queue, unsigned donor);
/* Returns true if the queue connects late, and its connection to the donor is being made. When it is established or has
   failed, parked requests are tried again. */
static inline bool far_link_is_coming(const struct far_queue *queue, unsigned donor)
{
	const struct far_link *link = &queue->links[donor];

	return queue->connects_late && link->conn && !link->established &&
	       link->round == atomic_load_explicit(&queue->far->donors[donor].round, memory_order_acquire);
}

void far_link_flush(struct far_queue *queue, unsigned donor);
void far_links_flush(struct far_queue *queue);

/* The link must be usable. Returns true if one more operation can be staged. The call may post operations and find
   that the connection has ended. The link is then no longer usable. */
static inline bool far_link_has_room(struct far_queue *queue, unsigned donor)
{
	const struct far_link *link = &queue->links[donor];

	if (link->staged == FAR_LINK_BATCH)
		far_link_flush(queue, donor);
	return fabric_room(link->conn) > link->staged;
}

/* Stages one operation of the piece, to or from the slot. There must be room. */
void far_link_stage(struct far_queue *queue, uint16_t piece, enum fabric_op_kind kind, const struct chunk_slot *slot);

/* Notes that the request waits for a donor that is away, or whose connection is being made. The control thread
   wakes the queue when the donor is up again or lost. */
void far_link_await(struct far_queue *queue, struct far_request *request, unsigned donor);

#endif
