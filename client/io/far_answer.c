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

/* Checks that @data, sent by @donor, is what the last writes left in the piece's pages. If pages are sealed, opens them
   into the caller's buffer. Returns 0, -EBADMSG, or -EIO if a page is not live any more. */
static int read_verify(struct far_queue *queue, const struct far_piece *piece, unsigned donor, const uint8_t *data)
{
	struct far *far = queue->far;

	for (uint32_t i = 0; i < piece->count; i++) {
		uint64_t page = piece->page + i;

		if (far_sealed_verify(queue, piece, i, data + (size_t)i * STORE_PAGE))
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

static int write_commit(struct far_queue *queue, const struct far_piece *piece)
{
	struct far *far = queue->far;
	uint32_t live = integrity_commit(&far->integrity, piece->page, piece->count);
	const uint8_t *sent = piece->sealed ? piece->sealed : piece->data;

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
	far_piece_drop(queue, piece, live);
	return 0;
}

static void write_cut_off(struct far_queue *queue, const struct far_piece *piece)
{
	far_piece_drop(queue, piece, piece->count);
	far_piece_redo(queue, piece);
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
		request->failure = far_request_status(status);
}

/*
 * Takes the answer to a read into a buffer of the queue. Returns true if the piece is complete, with its status in
 * *ret_status. If another answer is still to come then, the piece is late.
 */
static bool read_answered(struct far_queue *queue, uint16_t index, unsigned donor, bool good, int *ret_status)
{
	struct far_piece *piece = &queue->pieces[index];
	unsigned try = donor != piece->donor;
	const uint8_t *data = piece->tries[try].buffer;
	int status = 0;

	if (!piece->late && good) {
		status = read_verify(queue, piece, donor, data);
		if (!status && !queue->sealed.seal)
			memcpy(piece->data, data, (size_t)piece->count * STORE_PAGE);
	}
	far_hedge_end(queue, index, donor, good);
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

void far_answer_take(struct far_queue *queue, uint16_t index, unsigned donor, bool good)
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
		request->status = far_request_status(status);
	if (status && request->io.op == STORE_READ && read_has_choice(queue, request))
		request->again = true;
	if (!piece->late)
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
