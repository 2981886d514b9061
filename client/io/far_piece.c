/* far_piece: publishes, begins and ends pieces, and ends requests with them. See far_queue.h. */
#include "client/backup/backup.h"
#include "client/io/far_hedge.h"
#include "client/io/far_published.h"
#include "client/io/far_sealed.h"
#include "common/clock.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Checksum errors are logged at most once in this time. */
#define COMPLAIN_NS UINT64_C(1000000000)

static bool pages_are_live(const struct integrity *integrity, uint64_t page, uint32_t count)
{
	return integrity_run(integrity, page, count) == count && integrity_kind(integrity, page) == INTEGRITY_IS_LIVE;
}

static enum far_way piece_publish(struct far_queue *queue, uint64_t page, uint32_t count, uint64_t chunk,
				  const struct chunk_view *view, bool write)
{
	_Atomic uint64_t *published = &queue->published[queue->idle_pieces[queue->idle_piece_count - 1]];
	const struct chunk_table *table = &queue->far->table;
	enum far_way way = FAR_GOES_OUT;

	/* Publishes before it looks at slots and window: see far_queue.h. */
	atomic_store(published, published_make(page, count, view ? view->version : chunk_version(table, chunk), write));
	if (view && !chunk_is_unchanged(table, chunk, view))
		way = FAR_ANEW;
	/* The pages were live before the piece was published. Since then they may have left for the backup, and the
	   slab may have been given back. */
	else if (view && !write && chunk_is_leaving(table, chunk) &&
		 !pages_are_live(&queue->far->integrity, page, count))
		way = FAR_ANEW;
	else if (write && published_overlaps(atomic_load(&queue->far->window), page, count))
		way = FAR_KEPT_OUT;
	if (way == FAR_GOES_OUT)
		atomic_fetch_add_explicit(&queue->under_way, 1, memory_order_relaxed);
	else
		atomic_store_explicit(published, PUBLISHED_NONE, memory_order_release);
	return way;
}

enum far_way far_piece_publish(struct far_queue *queue, uint64_t page, uint32_t count, uint64_t chunk,
			       const struct chunk_view *view, bool write)
{
	enum far_way way = queue->direct ? FAR_GOES_OUT : FAR_KEPT_OUT;

	/* Tries twice: a window that closes after `waiting` is set wakes the queue, and the second try sees one that
	   closed before. */
	for (unsigned i = 0; i < 2 && way == FAR_KEPT_OUT; i++) {
		way = piece_publish(queue, page, count, chunk, view, write);
		if (way == FAR_KEPT_OUT)
			atomic_store(&queue->waiting, true);
	}
	return way;
}

static void piece_withdraw(struct far_queue *queue, uint16_t index)
{
	if (queue->direct)
		return;
	atomic_fetch_sub_explicit(&queue->under_way, 1, memory_order_relaxed);
	atomic_store_explicit(&queue->published[index], PUBLISHED_NONE, memory_order_release);
}

uint16_t far_piece_start(struct far_queue *queue, uint16_t request_index, uint32_t count, uint64_t chunk,
			 uint32_t epoch)
{
	struct far_request *request = &queue->requests[request_index];
	uint16_t index = queue->idle_pieces[--queue->idle_piece_count];

	queue->pieces[index] = (struct far_piece){
	    .page = request->io.page + request->next,
	    .data = (uint8_t *)request->io.data + (size_t)request->next * STORE_PAGE,
	    .chunk = chunk,
	    .count = count,
	    .epoch = epoch,
	    .request = request_index,
	};
	request->next += count;
	request->pieces++;
	if (!queue->direct)
		warmth_moved(&queue->far->warmth, chunk, count);
	return index;
}

void far_piece_prepare(struct far_queue *queue, uint16_t index)
{
	const struct far_piece *piece = &queue->pieces[index];

	if (queue->sealed.seal) {
		far_sealed_begin(queue, index);
		return;
	}
	for (uint32_t i = 0; i < piece->count; i++)
		integrity_prepare(&queue->far->integrity, piece->page + i, piece->data + (size_t)i * STORE_PAGE);
}

uint8_t *far_piece_bytes(const struct far_queue *queue, uint16_t index, unsigned donor,
			 const struct fabric_region **ret_region)
{
	const struct far_piece *piece = &queue->pieces[index];
	unsigned buffer = piece->tries[donor != piece->donor].buffer;

	if (piece->sealed) {
		*ret_region = queue->sealed.region;
		return far_sealed_data(queue, piece);
	}
	if (buffer) {
		*ret_region = queue->hedge.region;
		return far_hedge_data(queue, buffer);
	}
	*ret_region = (const struct fabric_region *)queue->requests[piece->request].io.buffer;
	return piece->data;
}

static void complain(struct far *far, unsigned donor, uint64_t page)
{
	if (log_again(&far->complained, clock_now(), COMPLAIN_NS))
		log_error("donor %s sent page %" PRIu64 " back changed: it is not used", far->donors[donor].uri, page);
}

bool far_page_verify(struct far_queue *queue, const struct far_piece *piece, uint32_t nth, const uint8_t *data)
{
	if (queue->sealed.seal)
		return far_sealed_read(queue, piece, nth, data);
	return integrity_check(&queue->far->integrity, piece->page + nth, data);
}

/* Checks that @data, sent by @donor, is what the last writes left in the piece's pages. If pages are sealed, opens them
   into the caller's buffer. Returns 0, -EBADMSG, or -EIO if a page is not live any more. */
static int read_verify(struct far_queue *queue, const struct far_piece *piece, unsigned donor, const uint8_t *data)
{
	struct far *far = queue->far;

	for (uint32_t i = 0; i < piece->count; i++) {
		uint64_t page = piece->page + i;

		if (far_page_verify(queue, piece, i, data + (size_t)i * STORE_PAGE))
			continue;
		/* The page's donor was buried while the bytes were under way. */
		if (integrity_kind(&far->integrity, page) != INTEGRITY_IS_LIVE)
			return -EIO;
		/* If the rebuild thread reads, the page may have been discarded, or be about to be written again. The
		   rebuild thread judges this. */
		if (queue->direct)
			return -EBADMSG;
		far_count(&queue->counters.checksum_errors, 1);
		complain(far, donor, page);
		return -EBADMSG;
	}
	return 0;
}

/* Drops @pages of the count that was held for the piece's pages. */
static void piece_drop(struct far *far, const struct far_piece *piece, uint32_t pages)
{
	if (pages && chunk_drop(&far->table, piece->chunk, piece->epoch, pages))
		mailbox_wake_control(&far->mailbox);
}

static int write_commit(struct far_queue *queue, const struct far_piece *piece)
{
	struct far *far = queue->far;
	uint32_t live = integrity_commit(&far->integrity, piece->page, piece->count);
	const uint8_t *sent = piece->sealed ? far_sealed_data(queue, piece) : piece->data;

	if (far->backup)
		backup_put(far->backup, piece->page, piece->count, sent);
	/*
	 * The control thread ends the epoch first, and then marks the pages lost. If it did so before the commit, it
	 * missed these pages, so they are marked here.
	 */
	if (!chunk_is_current(&far->table, piece->chunk, piece->epoch)) {
		integrity_lose(&far->integrity, piece->page, piece->count);
		/* With a backup the write is carried out anew. It goes to another slab, or to the disk until there is
		   one. */
		return far->backup ? -EAGAIN : -EIO;
	}
	/* Pages that were live before are counted already. */
	piece_drop(far, piece, live);
	return 0;
}

int far_answer_status(int status)
{
	return status == -ETIMEDOUT || status == -EBADMSG || status == -ENOSPC ? status : -EIO;
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

void far_request_single(struct far_request *request)
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

void far_request_settle(struct far_queue *queue, uint16_t index)
{
	struct far_request *request = &queue->requests[index];

	if (request->busy || request->pieces)
		return;
	assert(request->status || request->again || request->next == request->io.count);
	if (read_in_parts(queue, request)) {
		request_mend(queue, request);
		request->next = 0;
		far_request_single(request);
		request->again = true;
	}
	/* A write that failed is not carried out anew. */
	if (request->again && !(request->status && request->io.op == STORE_WRITE)) {
		request->again = false;
		request->status = 0;
		request->next = request->single ? request->single - 1 : 0;
		far_request_park(queue, index);
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
	far_request_settle(queue, index);
}

void far_request_park(struct far_queue *queue, uint16_t index)
{
	queue->requests[index].busy = true;
	queue->parked[queue->parked_tail++ % FAR_QUEUE_DEPTH] = index;
}

void far_request_redo(struct far_queue *queue, struct far_request *request)
{
	/* Counted before the piece is withdrawn: see scrub.c. */
	if (!request->redone)
		atomic_fetch_add(&queue->redone, 1);
	request->redone = true;
	request->again = true;
}

static void write_cut_off(struct far_queue *queue, const struct far_piece *piece)
{
	piece_drop(queue->far, piece, piece->count);
	far_request_redo(queue, &queue->requests[piece->request]);
}

/* Every replica has answered. Returns the status of the piece. */
static int piece_complete(struct far_queue *queue, struct far_piece *piece)
{
	bool write = queue->requests[piece->request].io.op == STORE_WRITE;
	int status;

	if (queue->requests[piece->request].only)
		return piece->again ? -EIO : write ? 0 : read_verify(queue, piece, piece->donor, piece->data);
	if (piece->again) {
		if (write)
			write_cut_off(queue, piece);
		return 0;
	}
	status = write ? write_commit(queue, piece) : read_verify(queue, piece, piece->donor, piece->data);
	if (status != -EAGAIN)
		return status;
	write_cut_off(queue, piece);
	piece->again = true;
	return 0;
}

void far_piece_end(struct far_queue *queue, uint16_t index)
{
	const struct far_piece *piece = &queue->pieces[index];

	queue->late -= piece->late;
	far_sealed_end(queue, index);
	piece_drop(queue->far, piece, piece->held);
	piece_withdraw(queue, index);
	queue->idle_pieces[queue->idle_piece_count++] = index;
}

/* Returns true if a read that failed on one donor may be carried out elsewhere. */
static bool read_has_choice(const struct far_queue *queue, const struct far_request *request)
{
	return (queue->far->table.replicas > 1 || queue->far->backup) && !request->only;
}

/* Notes that @donor has failed the read with @status. */
static void read_failed(struct far_queue *queue, struct far_request *request, unsigned donor, int status)
{
	if (!read_has_choice(queue, request))
		return;
	request->failed |= UINT64_C(1) << donor;
	request->corrupt |= status == -EBADMSG;
	if (!request->failure)
		request->failure = far_answer_status(status);
}

/*
 * Takes the answer to a read into a buffer of the queue. Returns true if the piece is complete, with its status in
 * *ret_status. If another answer is still to come then, the piece is late.
 */
static bool read_answered(struct far_queue *queue, uint16_t index, unsigned donor, bool good, int *ret_status)
{
	struct far_piece *piece = &queue->pieces[index];
	unsigned try = donor != piece->donor;
	const uint8_t *data = far_hedge_data(queue, piece->tries[try].buffer);
	int status = 0;

	if (!piece->late && good) {
		status = read_verify(queue, piece, donor, data);
		if (!status && !queue->sealed.seal)
			memcpy(piece->data, data, (size_t)piece->count * STORE_PAGE);
	}
	far_hedge_end(queue, index, try, good);
	if (piece->late) {
		if (!piece->left)
			far_piece_end(queue, index);
		return false;
	}
	if (status)
		read_failed(queue, &queue->requests[piece->request], donor, status);
	if (piece->left && (!good || status))
		return false; /* the other replica decides */
	piece->again = !good;
	piece->late = piece->left;
	queue->late += piece->late;
	if (good && !status && try)
		far_count(&queue->counters.hedges_won, 1);
	*ret_status = status;
	return true;
}

void far_piece_answered(struct far_queue *queue, uint16_t index, unsigned donor, bool good)
{
	struct far_piece *piece = &queue->pieces[index];
	uint16_t request_index = piece->request;
	struct far_request *request = &queue->requests[request_index];
	int status;

	assert(piece->left >> donor & 1 && (request->pieces || piece->late));
	piece->left &= ~(UINT64_C(1) << donor);
	if (piece->tries[0].buffer || piece->tries[1].buffer) {
		if (!read_answered(queue, index, donor, good, &status))
			return;
	} else {
		piece->again |= !good;
		if (piece->left)
			return;
		status = piece_complete(queue, piece);
		if (status && request->io.op == STORE_READ)
			read_failed(queue, request, donor, status);
	}
	request->again |= piece->again && !request->only;
	if (status && !request->status)
		request->status = far_answer_status(status);
	if (status && request->io.op == STORE_READ && read_has_choice(queue, request))
		request->again = true;
	if (!piece->late)
		far_piece_end(queue, index);
	far_request_ended(queue, request_index);
}
