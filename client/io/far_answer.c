#include "client/io/far_answer.h"

#include "client/backup/backup.h"
#include "client/io/far_backup.h"
#include "client/io/far_piece.h"
#include "client/io/far_request.h"
#include "common/clock.h"
#include "common/log.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Checksum errors are logged at most once in this time. */
#define COMPLAIN_NS UINT64_C(1000000000)

static void complain(struct far *far, unsigned donor, uint64_t page)
{
	if (log_again(&far->complained, clock_now(), COMPLAIN_NS))
		log_error("donor %s sent page %" PRIu64 " back changed: it is not used", far->donors[donor].uri, page);
}

/* Checks that @data, sent by @donor, has the contents of the last writes of the piece's pages. If pages are sealed,
   opens them into the caller's buffer. Returns 0, -EBADMSG, or -EIO if a page is not live any more. */
static int read_verify(struct far_queue *queue, const struct far_piece *piece, unsigned donor, const uint8_t *data)
{
	struct far *far = queue->far;

	for (uint32_t i = 0; i < piece->count; i++) {
		uint64_t page = piece->page + i;

		if (far_sealed_verify(queue, piece, i, data + (size_t)i * STORE_PAGE))
			continue;
		/* The page was lost with its donor after the read was sent. */
		if (integrity_kind(&far->integrity, page) != INTEGRITY_IS_LIVE)
			return -EIO;
		/* The rebuild thread does not exclude discards and writes, so the page may have changed legally. Its
		   chores decide if the change is an error. */
		if (queue->direct)
			return -EBADMSG;
		far_count(&queue->counters.checksum_errors, 1);
		complain(far, donor, page);
		return -EBADMSG;
	}
	return 0;
}

static int write_commit(struct far_queue *queue, const struct far_piece *piece)
{
	struct far *far = queue->far;
	uint32_t live = integrity_commit(&far->integrity, piece->page, piece->count);
	const uint8_t *sent = piece->sealed ? piece->sealed : piece->data;

	if (far->backup)
		backup_put(far->backup, piece->page, piece->count, sent);
	/*
	 * The control thread first ends the epoch, and then marks the chunk's pages as lost. If it did both before
	 * the commit above, these pages are not marked now. So they are marked here.
	 */
	if (!chunk_is_current(&far->table, piece->chunk, piece->epoch)) {
		integrity_lose(&far->integrity, piece->page, piece->count);
		/* With a backup, the write is carried out anew: to another slab, or to the disk if no donor has a
		   free slab. */
		return far->backup ? -EAGAIN : -EIO;
	}
	/* Pages that were live before were counted already, so their second count is dropped. */
	far_piece_drop(queue, piece, live);
	return 0;
}

/* Returns true if a read that failed on one donor may be tried on another, or on the backup. */
static bool read_has_choice(const struct far_queue *queue, const struct far_request *request)
{
	return (queue->far->table.replicas > 1 || queue->far->backup) && request->only == FAR_NONE;
}

/* Calls read_verify(). If the read has failed and may be tried elsewhere, notes that @donor has failed it. */
static int read_check(struct far_queue *queue, const struct far_piece *piece, unsigned donor, const uint8_t *data)
{
	struct far_request *request = &queue->requests[piece->request];
	int status = read_verify(queue, piece, donor, data);

	if (!status || !read_has_choice(queue, request))
		return status;
	few_donors_add(&request->failed, donor);
	request->wrong_bytes |= status == -EBADMSG;
	if (!request->failure)
		request->failure = far_request_status(status);
	return status;
}

static int write_complete(struct far_queue *queue, const struct far_piece *piece)
{
	int status = piece->cut_off ? -EAGAIN : write_commit(queue, piece);

	if (status == -EAGAIN) {
		far_piece_drop(queue, piece, piece->count);
		far_piece_redo(queue, piece);
	}
	return status;
}

/* Called when every donor has answered. Returns the status of the piece, or -EAGAIN if its request must be carried
   out anew. */
static int piece_complete(struct far_queue *queue, const struct far_piece *piece)
{
	const struct far_request *request = &queue->requests[piece->request];
	bool only = request->only != FAR_NONE;

	if (only && piece->cut_off)
		return -EIO;
	if (request->io.op == STORE_WRITE)
		return only ? 0 : write_complete(queue, piece);
	return piece->cut_off ? -EAGAIN : read_check(queue, piece, piece->donor, piece->data);
}

/*
 * Handles the answer to a read into a buffer of the queue. Returns true if the answer decides the piece, and stores
 * the piece's status (see piece_complete()). If the piece's other read is not answered yet, the piece becomes LATE.
 */
static bool read_answered(struct far_queue *queue, uint16_t index, unsigned donor, bool good, int *ret_status)
{
	const struct far_piece *piece = &queue->pieces[index];
	bool hedge = donor != piece->donor;
	const uint8_t *data = piece->tries[hedge].buffer;
	int status = good ? 0 : -EAGAIN;

	assert(data);
	if (piece->state == PIECE_LATE) {
		far_hedge_end(queue, index, donor, good);
		far_piece_end(queue, index);
		return false;
	}
	if (good)
		status = read_check(queue, piece, donor, data);
	if (!status && !queue->sealed.seal)
		memcpy(piece->data, data, (size_t)piece->count * STORE_PAGE);
	far_hedge_end(queue, index, donor, good);
	if (piece->left.count && status)
		return false; /* the other replica's answer decides */
	if (piece->left.count)
		far_piece_move(queue, index, PIECE_LATE);
	if (!status && hedge)
		far_count(&queue->counters.hedges_won, 1);
	*ret_status = status;
	return true;
}

void far_answer_take(struct far_queue *queue, uint16_t index, unsigned donor, bool good)
{
	struct far_piece *piece = &queue->pieces[index];
	uint16_t request_index = piece->request;
	struct far_request *request = &queue->requests[request_index];
	int status;

	assert(piece->state != PIECE_FREE && few_donors_has(&piece->left, donor));
	few_donors_remove(&piece->left, donor);
	if (piece->tries[0].buffer || piece->tries[1].buffer) {
		if (!read_answered(queue, index, donor, good, &status))
			return;
	} else {
		piece->cut_off |= !good;
		if (piece->left.count)
			return;
		status = piece_complete(queue, piece);
	}
	if (status == -EAGAIN) {
		request->anew = true;
	} else if (status) {
		request->status = request->status ? request->status : far_request_status(status);
		request->anew |= request->io.op == STORE_READ && read_has_choice(queue, request);
	}
	if (piece->state != PIECE_LATE)
		far_piece_end(queue, index);
	far_request_ended(queue, request_index);
}

void far_answer_collect(struct far_queue *queue)
{
	struct backup_io *io = atomic_exchange(&queue->backup_answers, NULL);

	while (io) {
		struct backup_io *next = io->next;
		uint16_t request = queue->pieces[io->piece].request;

		far_backup_end(queue, io);
		far_request_ended(queue, request);
		io = next;
	}
	queue->look |= queue->congested;
}
