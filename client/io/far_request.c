#include "client/io/far_request.h"

#include "client/io/far_link.h"
#include "client/io/far_read.h"
#include "client/io/far_write.h"

#include <assert.h>

/* --- The end of a request --------------------------------------------------------------------------------------- */

/* Puts the request in the list of those that wait. */
static void request_park(struct far_queue *queue, uint16_t index)
{
	queue->requests[index].busy = true;
	queue->parked[queue->parked_tail++ % FAR_QUEUE_DEPTH] = index;
}

/* Ends the request. Its completion waits to be polled. */
static void request_finish(struct far_queue *queue, uint16_t index)
{
	const struct far_request *request = &queue->requests[index];

	if (request->redone)
		atomic_fetch_sub(&queue->redone, 1);
	queue->dones[queue->tail++ % FAR_QUEUE_DEPTH] =
	    (struct store_done){.cookie = request->io.cookie, .status = request->status};
	queue->idle_requests[queue->idle_request_count++] = index;
}

/* If one donor sent pages back changed, and another one sent them right, has them repaired on the first. */
static void request_mend(const struct far_queue *queue, const struct far_request *request)
{
	if (request->corrupt && !queue->direct)
		mailbox_put_repair(&queue->far->mailbox, request->io.page, request->io.count, request->failed);
}

/* Begins the next page of a request that is read page by page: every donor may be asked for it. Nothing of the request
   may be under way. */
static void request_single(struct far_request *request)
{
	if (request->single == request->next + 1)
		return;
	request->single = request->next + 1;
	request->failed = 0;
	request->corrupt = request->unsaved = false;
}

/* Returns true if no donor has all of the request's pages right, so that each page must be asked for separately. The
   rebuild thread does that by itself. */
static bool read_in_parts(const struct far_queue *queue, const struct far_request *request)
{
	return request->status && !request->again && request->failed && request->io.op == STORE_READ &&
	       request->io.count > 1 && !request->single && !request->only && !queue->direct;
}

/* Ends the request, or parks it to be carried out anew, if nothing of it is under way. */
static void request_settle(struct far_queue *queue, uint16_t index)
{
	struct far_request *request = &queue->requests[index];

	if (request->busy || request->pieces)
		return;
	assert(request->status || request->again || request->next == request->io.count);
	if (read_in_parts(queue, request)) {
		request_mend(queue, request);
		request->next = 0;
		request_single(request);
		request->again = true;
	}
	/* A write that failed is not carried out anew. */
	if (request->again && !(request->status && request->io.op == STORE_WRITE)) {
		request->again = false;
		request->status = 0;
		request->next = request->single ? request->single - 1 : 0;
		request_park(queue, index);
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

	request->pieces--;
	/* The request is parked. It can end or begin anew now, or its next single page can be read. */
	if (request->busy && (request->status || request->again || request->single))
		queue->look = true;
	request_settle(queue, index);
}

/* --- The way of a request ---------------------------------------------------------------------------------------- */

/* Carries the request on as far as possible. Returns FAR_WAITS if it must be called again. */
static enum far_progress request_issue(struct far_queue *queue, uint16_t index)
{
	struct far_request *request = &queue->requests[index];
	uint64_t chunk_pages = queue->far->table.pages;
	enum far_progress progress = FAR_GOES_ON;

	while (progress == FAR_GOES_ON && !request->status && !request->again && request->next < request->io.count) {
		uint64_t page = request->io.page + request->next;
		uint64_t rest = chunk_pages - page % chunk_pages;
		uint32_t limit = request->io.count - request->next;

		if (limit > rest)
			limit = (uint32_t)rest;
		if (request->single) {
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
	queue->requests[index].busy = true;
	if (request_issue(queue, index) == FAR_WAITS) {
		request_park(queue, index);
		return;
	}
	queue->requests[index].busy = false;
	request_settle(queue, index);
}

void far_request_submit(struct far_queue *queue, const struct store_io *io, unsigned only, uint32_t epoch)
{
	uint16_t index;

	assert(queue->idle_request_count);
	index = queue->idle_requests[--queue->idle_request_count];
	queue->requests[index] = (struct far_request){.io = *io, .only = only, .epoch = epoch};
	request_go_on(queue, index);
}

void far_request_look(struct far_queue *queue)
{
	unsigned count = queue->parked_tail - queue->parked_head;

	queue->look = false;
	queue->congested = false;
	while (count--)
		request_go_on(queue, queue->parked[queue->parked_head++ % FAR_QUEUE_DEPTH]);
	far_links_flush(queue);
}
