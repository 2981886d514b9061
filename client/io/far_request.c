#include "client/io/far_request.h"

#include "client/io/far_link.h"
#include "client/io/far_read.h"
#include "client/io/far_write.h"

#include <assert.h>

#define TO(state) (1u << REQUEST_##state)

static const uint8_t request_moves[REQUEST_STATES] = {
    [REQUEST_FREE] = TO(UNDER_WAY),
    [REQUEST_UNDER_WAY] = TO(PARKED) | TO(FREE),
    [REQUEST_PARKED] = TO(UNDER_WAY),
};

/* Moves the request, and adds it to the ring or stack for its new state. */
static void request_move(struct far_queue *queue, uint16_t index, enum far_request_state to)
{
	struct far_request *request = &queue->requests[index];

	assert(request_moves[request->state] & 1u << to);
	request->state = to;
	if (to == REQUEST_PARKED)
		queue->parked[queue->parked_tail++ % queue->depth] = index;
	else if (to == REQUEST_FREE)
		queue->idle_requests[queue->idle_request_count++] = index;
}

/* --- The end of a request --------------------------------------------------------------------------------------- */

/* Ends the request, and puts its completion into the ring. */
static void request_finish(struct far_queue *queue, uint16_t index)
{
	const struct far_request *request = &queue->requests[index];

	if (request->counted_anew)
		atomic_fetch_sub(&queue->redone, 1);
	queue->dones[queue->tail++ % queue->depth] =
	    (struct store_done){.cookie = request->io.cookie, .status = request->status};
	request_move(queue, index, REQUEST_FREE);
}

/* If donors have returned wrong bytes, asks the rebuild thread to repair the request's pages on these donors. */
static void request_mend(const struct far_queue *queue, const struct far_request *request)
{
	if (request->wrong_bytes && !queue->direct)
		mailbox_put_repair(&queue->far->mailbox, request->io.page, request->io.count, &request->failed);
}

/* Begins the next page of a request that is read page by page. Each page may be read from any donor. No piece of
   the request may be in flight. */
static void request_single(struct far_request *request)
{
	assert(!request->pieces);
	if (request->single == request->next)
		return;
	request->single = request->next;
	request->failed.count = 0;
	request->wrong_bytes = request->not_on_backup = false;
}

/* Returns true if the request failed because no donor has all of its pages intact, so that they must be read one by
   one. Requests of the rebuild thread are left out, because the copier itself reads their pages one by one. */
static bool read_in_parts(const struct far_queue *queue, const struct far_request *request)
{
	return request->status && !request->anew && request->failed.count && request->io.op == STORE_READ &&
	       request->io.count > 1 && request->single == FAR_NONE && request->only == FAR_NONE && !queue->direct;
}

/* Ends the request, or parks it to be carried out anew. None of its pieces may be in flight. */
static void request_settle(struct far_queue *queue, uint16_t index)
{
	struct far_request *request = &queue->requests[index];

	assert(!request->pieces);
	assert(request->status || request->anew || request->next == request->io.count);
	if (read_in_parts(queue, request)) {
		request_mend(queue, request);
		request->next = 0;
		request_single(request);
		request->anew = true;
	}
	/* A write with an error status ends with this status. */
	if (request->anew && !(request->status && request->io.op == STORE_WRITE)) {
		request->anew = false;
		request->status = 0;
		request->next = request->single == FAR_NONE ? 0 : request->single;
		request_move(queue, index, REQUEST_PARKED);
		queue->look = true;
		return;
	}
	if (!request->status)
		request_mend(queue, request);
	request_finish(queue, index);
}

void far_request_ended(struct far_queue *queue, uint16_t index)
{
	struct far_request *request = &queue->requests[index];

	assert(request->pieces);
	request->pieces--;
	if (request->state == REQUEST_PARKED) {
		/* Lets the next poll look at the request: it can end, begin anew, or read its next single page. */
		if (request->status || request->anew || request->single != FAR_NONE)
			queue->look = true;
	} else if (!request->pieces) {
		request_settle(queue, index);
	}
}

/* --- Carrying out ---------------------------------------------------------------------------------------------- */

/* Carries out the request as far as possible. Returns FAR_WAITS if the request must be parked. */
static enum far_progress request_issue(struct far_queue *queue, uint16_t index)
{
	struct far_request *request = &queue->requests[index];
	uint64_t chunk_pages = queue->far->table.pages;
	enum far_progress progress = FAR_GOES_ON;

	while (progress == FAR_GOES_ON && !request->status && !request->anew && request->next < request->io.count) {
		uint64_t page = request->io.page + request->next;
		uint64_t rest = chunk_pages - page % chunk_pages;
		uint32_t limit = request->io.count - request->next;

		if (limit > rest)
			limit = (uint32_t)rest;
		if (request->single != FAR_NONE) {
			if (request->pieces)
				return FAR_WAITS;
			request_single(request);
			limit = 1;
		}
		progress = request->io.op == STORE_READ ? far_read_next(queue, index, page / chunk_pages, limit)
							: far_write_next(queue, index, page / chunk_pages, limit);
	}
	return progress;
}

static void request_go_on(struct far_queue *queue, uint16_t index)
{
	request_move(queue, index, REQUEST_UNDER_WAY);
	if (request_issue(queue, index) == FAR_WAITS)
		request_move(queue, index, REQUEST_PARKED);
	else if (!queue->requests[index].pieces)
		request_settle(queue, index);
}

void far_request_submit(struct far_queue *queue, const struct store_io *io, uint32_t only, uint32_t epoch)
{
	uint16_t index;

	assert(queue->idle_request_count);
	index = queue->idle_requests[--queue->idle_request_count];
	queue->requests[index] = (struct far_request){.io = *io,
						      .state = queue->requests[index].state,
						      .single = FAR_NONE,
						      .wanted = FAR_NO_CHUNK,
						      .only = only,
						      .epoch = epoch};
	request_go_on(queue, index);
}

void far_request_look(struct far_queue *queue)
{
	unsigned count = queue->parked_tail - queue->parked_head;

	queue->look = false;
	queue->congested = false;
	while (count--)
		request_go_on(queue, queue->parked[queue->parked_head++ % queue->depth]);
	far_links_flush(queue);
}
