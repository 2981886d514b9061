/*
 * disk_requests: cuts requests into runs, and collects the answers of the store. disk.h has the theory.
 *
 * A request that has bytes to start is in the list `pending`, in the order of arrival. requests_go_on() passes over
 * the list and starts as many runs of each request as it can. A request stops at a locked page, when no free run or
 * edge buffer is left, or when this poll has discarded enough pages.
 *
 * A run has one request to the store at a time. The request's cookie is the run's index. A run is at one of these
 * steps:
 *
 *   RUN_WHOLE    whole pages, from or to the front end's memory
 *   EDGE_READ    the request reads a part of the page: the part is copied from the store's answer
 *   EDGE_FETCH   the request writes a part of the page: the page is read and changed, and EDGE_STORE follows
 *   EDGE_STORE   the changed page is written
 *
 * Requests that the store does not accept at once stay in `ios` and are submitted again.
 */
#include "blockdev/disk_queue.h"
#include "common/clock.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define DISK_DONES 64u                /* most answers taken at once */
#define DISCARD_PAGES PAGE_LOCKS_SPAN /* most pages discarded in one poll */

/* The outcome of an attempt to continue a request. */
enum progress { PROGRESS_MADE, PROGRESS_LOCKED, PROGRESS_NO_ROOM, PROGRESS_ENOUGH };

/* Needs no atomic addition, because each counter has only one writer. */
static void count_up(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

/* --- Requests that are done ------------------------------------------------------------------------------ */

static void request_finish(struct disk_queue *queue, struct disk_request *request)
{
	struct disk_counters *counters = &queue->counters;

	/* op may be invalid */
	if (request->op < DISK_OPS) {
		count_up(&counters->requests[request->op], 1);
		if (request->status)
			count_up(&counters->errors[request->op], 1);
		else if (request->op != DISK_FLUSH)
			count_up(&counters->bytes[request->op], request->length);
		if (queue->times && !request->status && request->op <= DISK_WRITE)
			histogram_record(&queue->times->of[request->op], clock_now() - request->own.submitted);
	}
	STAILQ_INSERT_TAIL(&queue->done, request, own.link);
}

static void request_fail(struct disk_request *request, int status)
{
	if (!request->status)
		request->status = status;
	request->own.next = request->own.end;
}

/* --- Runs ------------------------------------------------------------------------------------------------ */

static void run_ask(struct disk_queue *queue, uint16_t index, enum store_op op, void *data, struct store_buffer *buffer)
{
	const struct disk_run *run = &queue->runs[index];

	/* `ios` has an entry for each run, and a run has one request at a time. */
	assert(queue->io_count < DISK_RUNS);
	queue->ios[queue->io_count++] = (struct store_io){
	    .op = op,
	    .count = run->count,
	    .page = run->page,
	    .data = data,
	    .buffer = buffer,
	    .cookie = index,
	};
}

static void run_end(struct disk_queue *queue, uint16_t index, int status)
{
	struct disk_run *run = &queue->runs[index];
	struct disk_request *request = run->request;

	page_locks_unlock(queue->locks, run->page, run->count, run->exclusive);
	queue->unlocked = true;
	if (run->step != RUN_WHOLE)
		queue->idle_edges[queue->idle_edge_count++] = run->edge;
	queue->idle_runs[queue->idle_run_count++] = index;
	if (status)
		request_fail(request, status);
	request->own.runs--;
	if (!request->own.runs && !request->own.listed)
		request_finish(queue, request);
}

static void edge_change(struct disk_queue *queue, const struct disk_run *run)
{
	uint8_t *bytes = queue->edges[run->edge] + run->first;

	if (run->data)
		memcpy(bytes, run->data, run->length);
	else
		memset(bytes, 0, run->length);
}

static void run_answered(struct disk_queue *queue, uint16_t index, int status)
{
	struct disk_run *run = &queue->runs[index];

	if (run->step == EDGE_FETCH && !status) {
		edge_change(queue, run);
		run->step = EDGE_STORE;
		run_ask(queue, index, STORE_WRITE, queue->edges[run->edge], queue->edge_buffer);
		return;
	}
	if (run->step == EDGE_READ && !status)
		memcpy(run->data, queue->edges[run->edge] + run->first, run->length);
	run_end(queue, index, status);
}

static void answers_take(struct disk_queue *queue)
{
	struct store_done dones[DISK_DONES];
	int count;

	/* This loop ends, because it submits nothing. */
	do {
		count = store_poll(queue->inner, dones, DISK_DONES);
		for (int i = 0; i < count; i++)
			run_answered(queue, (uint16_t)dones[i].cookie, dones[i].status);
	} while (count == (int)DISK_DONES);
}

/* --- Cutting requests ------------------------------------------------------------------------------------ */

/* Returns the Bloom filter's bits for a run: one bit for each MiB of the disk that the run touches. */
static uint64_t shade_of(uint64_t page, uint32_t count)
{
	uint64_t first = page / STORE_RUN_MAX, last = (page + count - 1) / STORE_RUN_MAX;
	const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);

	return UINT64_C(1) << (first * golden >> 58) | UINT64_C(1) << (last * golden >> 58);
}

/* Locks pages. If they are already locked, adds them to `shade`, so that no later request for them overtakes this
   request. */
static bool pages_lock(struct disk_queue *queue, uint64_t page, uint32_t count, bool exclusive)
{
	uint64_t shade = shade_of(page, count);

	if (!(queue->shade & shade) && page_locks_try(queue->locks, queue->slot, page, count, exclusive))
		return true;
	queue->shade |= shade;
	return false;
}

static uint8_t *request_data(const struct disk_request *request)
{
	return request->data ? (uint8_t *)request->data + (request->own.next - request->offset) : NULL;
}

/* Makes a run that begins at own.next. The caller has locked the pages, and then starts the run. */
static struct disk_run *run_begin(struct disk_queue *queue, struct disk_request *request, uint32_t count)
{
	struct disk_run *run = &queue->runs[queue->idle_runs[--queue->idle_run_count]];

	*run = (struct disk_run){
	    .request = request,
	    .page = request->own.next / STORE_PAGE,
	    .count = (uint16_t)count,
	    .exclusive = request->op != DISK_READ,
	};
	request->own.runs++;
	return run;
}

static uint16_t run_index(const struct disk_queue *queue, const struct disk_run *run)
{
	return (uint16_t)(run - queue->runs);
}

static enum progress whole_go_on(struct disk_queue *queue, struct disk_request *request, uint64_t pages)
{
	uint32_t count = pages < STORE_RUN_MAX ? (uint32_t)pages : STORE_RUN_MAX;
	struct disk_run *run;

	if (!queue->idle_run_count)
		return PROGRESS_NO_ROOM;
	if (!pages_lock(queue, request->own.next / STORE_PAGE, count, request->op != DISK_READ))
		return PROGRESS_LOCKED;
	run = run_begin(queue, request, count);
	run->step = RUN_WHOLE;
	run_ask(queue, run_index(queue, run), request->op == DISK_READ ? STORE_READ : STORE_WRITE,
		request_data(request), request->buffer);
	request->own.next += (uint64_t)count * STORE_PAGE;
	return PROGRESS_MADE;
}

static enum progress edge_go_on(struct disk_queue *queue, struct disk_request *request, uint32_t first, uint32_t length)
{
	bool read = request->op == DISK_READ;
	struct disk_run *run;

	if (request->op == DISK_DISCARD) {
		request->own.next += length;
		return PROGRESS_MADE;
	}
	if (!queue->idle_run_count || !queue->idle_edge_count)
		return PROGRESS_NO_ROOM;
	if (!pages_lock(queue, request->own.next / STORE_PAGE, 1, !read))
		return PROGRESS_LOCKED;
	run = run_begin(queue, request, 1);
	run->step = read ? EDGE_READ : EDGE_FETCH;
	run->edge = queue->idle_edges[--queue->idle_edge_count];
	run->first = (uint16_t)first;
	run->length = (uint16_t)length;
	run->data = request->op == DISK_ZERO ? NULL : request_data(request);
	run_ask(queue, run_index(queue, run), STORE_READ, queue->edges[run->edge], queue->edge_buffer);
	request->own.next += length;
	return PROGRESS_MADE;
}

static enum progress discard_go_on(struct disk_queue *queue, struct disk_request *request, uint64_t pages)
{
	uint64_t page = request->own.next / STORE_PAGE;
	uint32_t count = PAGE_LOCKS_SPAN - (uint32_t)(page % PAGE_LOCKS_SPAN);

	if (!queue->allowance)
		return PROGRESS_ENOUGH;
	if (count > queue->allowance)
		count = queue->allowance;
	if (count > pages)
		count = (uint32_t)pages;
	if (!(queue->shade & shade_of(page, 1)))
		count = page_locks_span(queue->locks, queue->slot, page, count);
	else
		count = 0;
	if (!count) {
		queue->shade |= shade_of(page, 1);
		return PROGRESS_LOCKED;
	}
	store_discard(queue->disk->store, page, count);
	page_locks_span_end(queue->locks);
	queue->unlocked = true;
	queue->allowance -= count;
	request->own.next += (uint64_t)count * STORE_PAGE;
	return PROGRESS_MADE;
}

static enum progress request_go_on(struct disk_queue *queue, struct disk_request *request)
{
	enum progress progress = PROGRESS_MADE;

	while (progress == PROGRESS_MADE && request->own.next < request->own.end) {
		uint32_t first = request->own.next % STORE_PAGE, rest = STORE_PAGE - first;
		uint64_t left = request->own.end - request->own.next;

		if (first || left < STORE_PAGE)
			progress = edge_go_on(queue, request, first, left < rest ? (uint32_t)left : rest);
		else if (request->op == DISK_READ || request->op == DISK_WRITE)
			progress = whole_go_on(queue, request, left / STORE_PAGE);
		else
			progress = discard_go_on(queue, request, left / STORE_PAGE);
	}
	return progress;
}

static void request_waits(struct disk_queue *queue, struct disk_request *request)
{
	queue->waiters++;
	if (request->own.waited)
		return;
	request->own.waited = true;
	count_up(&queue->counters.waited, 1);
}

static void requests_go_on(struct disk_queue *queue)
{
	struct disk_request_list list = STAILQ_HEAD_INITIALIZER(list), last = STAILQ_HEAD_INITIALIZER(last);
	struct disk_request *request;

	queue->shade = 0;
	queue->waiters = 0;
	queue->more = false;
	queue->fresh = false;
	STAILQ_CONCAT(&list, &queue->pending);
	while ((request = STAILQ_FIRST(&list))) {
		uint64_t next = request->own.next;
		enum progress progress = request_go_on(queue, request);

		STAILQ_REMOVE_HEAD(&list, own.link);
		if (progress == PROGRESS_MADE) {
			request->own.listed = false;
			if (!request->own.runs)
				request_finish(queue, request);
			continue;
		}
		if (progress == PROGRESS_LOCKED)
			request_waits(queue, request);
		queue->more |= progress == PROGRESS_ENOUGH;
		/* A discard that got some pages goes to the end, so that discards take turns. */
		if (progress == PROGRESS_ENOUGH && request->own.next != next)
			STAILQ_INSERT_TAIL(&last, request, own.link);
		else
			STAILQ_INSERT_TAIL(&queue->pending, request, own.link);
	}
	STAILQ_CONCAT(&queue->pending, &last);
}

/* --- The queue's thread ---------------------------------------------------------------------------------- */

static bool request_is_valid(const struct disk *disk, const struct disk_request *request)
{
	return request->op < DISK_FLUSH && request->length && request->offset % DISK_SECTOR == 0 &&
	       request->length % DISK_SECTOR == 0 && request->offset <= disk->bytes &&
	       request->length <= disk->bytes - request->offset;
}

void disk_submit(struct disk_queue *queue, struct disk_request *request)
{
	assert(queue->busy < queue->depth);
	queue->busy++;
	request->status = 0;
	memset(&request->own, 0, sizeof request->own);
	if (request->op == DISK_FLUSH || !request_is_valid(queue->disk, request)) {
		request->status = request->op == DISK_FLUSH ? 0 : -EINVAL;
		request_finish(queue, request);
		return;
	}
	if (queue->times)
		request->own.submitted = clock_now();
	request->own.next = request->offset;
	request->own.end = request->offset + request->length;
	request->own.listed = true;
	STAILQ_INSERT_TAIL(&queue->pending, request, own.link);
	queue->fresh = true;
}

static void others_wake(struct disk_queue *queue)
{
	if (!queue->unlocked)
		return;
	queue->unlocked = false;
	page_locks_wake(queue->locks, queue->slot);
}

unsigned disk_poll(struct disk_queue *queue, struct disk_request *ret_done[], unsigned max)
{
	struct disk_request *request;
	unsigned count = 0;

	page_locks_disarm(queue->locks, queue->slot);
	queue->allowance = DISCARD_PAGES;
	if (!STAILQ_EMPTY(&queue->pending))
		requests_go_on(queue);
	store_submit_staged(queue->inner, queue->ios, &queue->io_count);
	answers_take(queue);
	/* Answers may have freed runs or unlocked pages that waiting requests need. */
	if (queue->unlocked && !STAILQ_EMPTY(&queue->pending))
		requests_go_on(queue);
	store_submit_staged(queue->inner, queue->ios, &queue->io_count);
	others_wake(queue);
	while (count < max && (request = STAILQ_FIRST(&queue->done))) {
		STAILQ_REMOVE_HEAD(&queue->done, own.link);
		ret_done[count++] = request;
	}
	queue->busy -= count;
	return count;
}

unsigned disk_queue_busy(const struct disk_queue *queue)
{
	return queue->busy;
}

void disk_queue_fds(const struct disk_queue *queue, int ret_fds[2])
{
	ret_fds[0] = store_queue_fd(queue->inner);
	ret_fds[1] = page_locks_fd(queue->locks, queue->slot);
}

int disk_arm(struct disk_queue *queue)
{
	unsigned io_count = queue->io_count;

	if (queue->waiters && !queue->fresh && !queue->more) {
		page_locks_arm(queue->locks, queue->slot);
		queue->allowance = DISCARD_PAGES;
		requests_go_on(queue);
		others_wake(queue);
	}
	if (queue->fresh || queue->more || queue->io_count > io_count || !STAILQ_EMPTY(&queue->done))
		return 1;
	return store_arm(queue->inner);
}
