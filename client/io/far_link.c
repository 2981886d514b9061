#include "client/io/far_link.h"

#include "client/io/far_piece.h"
#include "client/io/far_request.h"

#include <assert.h>

/* --- Posting ---------------------------------------------------------------------------------------------------- */

void far_link_flush(struct far_queue *queue, unsigned donor)
{
	struct far_link *link = &queue->links[donor];
	unsigned staged = link->staged;
	int posted;

	link->staged = 0;
	if (!staged)
		return;
	posted = fabric_post(link->conn, link->ops, staged);
	/* There was room, so only a connection that has ended refuses operations. An event will report its end, and
	   the operations are then carried out anew. */
	if (posted != (int)staged)
		link->established = false;
}

void far_links_flush(struct far_queue *queue)
{
	for (unsigned i = 0; i < queue->staged_count; i++) {
		queue->links[queue->staged[i]].listed = false;
		far_link_flush(queue, queue->staged[i]);
	}
	queue->staged_count = 0;
}

/* Returns the piece's memory for @donor: a write is sent from this memory, and a read's answer goes to it. The memory
   is the caller's, or a buffer of the queue. Stores the memory's region. */
static uint8_t *stage_bytes(const struct far_queue *queue, const struct far_piece *piece, unsigned donor,
			    const struct fabric_region **ret_region)
{
	uint8_t *buffer = piece->tries[donor != piece->donor].buffer;

	if (piece->sealed) {
		*ret_region = queue->sealed.region;
		return piece->sealed;
	}
	if (buffer) {
		*ret_region = queue->hedge.region;
		return buffer;
	}
	*ret_region = (const struct fabric_region *)queue->requests[piece->request].io.buffer;
	return piece->data;
}

void far_link_stage(struct far_queue *queue, uint16_t index, enum fabric_op_kind kind, const struct chunk_slot *slot)
{
	const struct far_piece *piece = &queue->pieces[index];
	struct far_link *link = &queue->links[slot->donor];
	uint64_t offset = piece->page % queue->far->table.pages * STORE_PAGE;
	const struct fabric_region *region;
	uint8_t *bytes = stage_bytes(queue, piece, slot->donor, &region);

	assert(link->staged < FAR_LINK_BATCH);
	if (!link->listed)
		queue->staged[queue->staged_count++] = (uint16_t)slot->donor;
	link->listed = true;
	few_donors_add(&queue->pieces[index].left, slot->donor);
	link->ops[link->staged++] = (struct fabric_op){
	    .kind = kind,
	    .length = piece->count * STORE_PAGE,
	    .local = bytes,
	    .region = region,
	    .remote = {.address = slot->address + offset, .rkey = slot->rkey},
	    .cookie = index,
	};
}

/* --- Waiting ---------------------------------------------------------------------------------------------------- */

/* Returns since when the request has waited for @donor. Earlier waits for the same donor count, but waits for other
   donors do not. The request remembers its FAR_REPLICAS_MAX longest waits. If this process was paused, far_now()
   may be earlier than the beginning of a wait. */
static uint64_t wait_since(const struct far_queue *queue, struct far_request *request, unsigned donor)
{
	struct far_wait *wait = NULL, *least = &request->waits[0];
	uint64_t now;

	for (unsigned i = 0; i < FAR_REPLICAS_MAX; i++) {
		struct far_wait *other = &request->waits[i];

		if ((other->since || other->waited) && other->donor == donor)
			wait = other;
	}
	if (wait && wait->since)
		return wait->since;
	now = far_now(queue->far);
	for (unsigned i = 0; i < FAR_REPLICAS_MAX; i++) {
		struct far_wait *other = &request->waits[i];

		if (other->since)
			*other = (struct far_wait){.donor = other->donor,
						   .waited = now > other->since ? now - other->since : 0};
		if (other->waited < least->waited)
			least = other;
	}
	if (!wait) {
		wait = least;
		*wait = (struct far_wait){.donor = donor};
	}
	wait->since = now - wait->waited;
	return wait->since;
}

void far_link_await(struct far_queue *queue, struct far_request *request, unsigned donor)
{
	mailbox_put_wait(&queue->far->mailbox, donor, wait_since(queue, request, donor));
}
