/* far_backup: see far_backup.h. */
#include "client/io/far_backup.h"

#include "client/backup/backup.h"
#include "client/io/far_piece.h"
#include "common/clock.h"
#include "common/events.h"
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* Log lines of one kind are at least this far apart. */
#define COMPLAIN_NS UINT64_C(1000000000)
#define CROWDED_NS UINT64_C(60000000000)

int far_backup_queue_open(struct far_queue *queue)
{
	size_t size = queue->depth * sizeof *queue->backup_ios;

	if (!queue->far->backup)
		return 0;
	queue->backup_ios = malloc(size);
	if (!queue->backup_ios)
		return -ENOMEM;
	memset(queue->backup_ios, 0, size); /* touches the memory, so that no page fault happens later */
	return 0;
}

void far_backup_queue_end(struct far_queue *queue)
{
	struct pollfd fd = {.fd = queue->wake, .events = POLLIN};
	eventfd_t value;

	while (queue->backup_asked) {
		const struct backup_io *io = atomic_exchange(&queue->backup_answers, NULL);

		for (; io; io = io->next)
			queue->backup_asked--;
		if (queue->backup_asked && poll(&fd, 1, -1) > 0)
			eventfd_read(queue->wake, &value);
	}
}

void far_backup_queue_close(struct far_queue *queue)
{
	free(queue->backup_ios);
	queue->backup_ios = NULL;
}

bool far_backup_is_left(const struct far_queue *queue, const struct far_request *request)
{
	return queue->far->backup && request->only == FAR_NONE && !request->not_on_backup;
}

/* Called by the backup's thread: gives the queue an answer. */
static void answer(struct backup_io *io)
{
	struct far_queue *queue = io->queue;
	struct far *far = queue->far;

	/* Once the queue has the answer, the queue's thread may close the queue. far_queue_close() takes this lock,
	   so it waits until the queue was woken. */
	pthread_mutex_lock(&far->lock);
	io->next = atomic_load(&queue->backup_answers);
	while (!atomic_compare_exchange_weak(&queue->backup_answers, &io->next, io))
		;
	eventfd_write(queue->wake, 1);
	pthread_mutex_unlock(&far->lock);
}

static void piece_ask(struct far_queue *queue, uint16_t index, bool write, bool kept)
{
	const struct far_piece *piece = &queue->pieces[index];
	struct backup_io *io = &queue->backup_ios[index];

	*io = (struct backup_io){.answer = answer,
				 .queue = queue,
				 .page = piece->page,
				 .count = piece->count,
				 .piece = index,
				 .write = write,
				 .kept = kept,
				 .data = piece->sealed ? piece->sealed : piece->data};
	queue->backup_asked++;
	backup_ask(queue->far->backup, io);
}

enum far_progress far_backup_read(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count, bool kept)
{
	if (!queue->idle_piece_count) {
		queue->congested = true;
		return FAR_WAITS;
	}
	if (count > BACKUP_IO_PAGES)
		count = BACKUP_IO_PAGES;
	piece_ask(queue, far_piece_start(queue, index, count, chunk, 0), false, kept);
	return FAR_GOES_ON;
}

bool far_backup_stands_in(const struct far_queue *queue, uint64_t chunk)
{
	const struct far *far = queue->far;

	/* An untouched chunk must ask for a slab first, because this request makes the chunk's part of the integrity
	   arrays present. Only a granted slab clears `crowded`. If there are no KEPT pages, the rebuild thread asks for
	   no slab, so a write must ask for one. */
	return far->backup &&
	       (chunk_is_leaving(&far->table, chunk) ||
		(atomic_load_explicit(&far->crowded, memory_order_relaxed) && far->integrity.kept &&
		 chunk_state(&far->table, chunk) == CHUNK_NONE && !chunk_is_untouched(&far->table, chunk)));
}

bool far_backup_takes_over(const struct far_queue *queue, struct far_request *request)
{
	struct far *far = queue->far;

	if (!far->backup || (request->status != -ENOSPC && request->status != -ETIMEDOUT))
		return false;
	request->status = 0;
	atomic_store(&far->crowded, true);
	if (log_again(&far->crowded_told, clock_now(), CROWDED_NS))
		log_warning("no donor has room: pages are written to the backup %s alone, as fast as it can, until a "
			    "donor has room",
			    far->backup_path);
	return true;
}

enum far_progress far_backup_write(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count)
{
	uint16_t piece;

	if (!queue->idle_piece_count) {
		queue->congested = true;
		return FAR_WAITS;
	}
	if (count > BACKUP_IO_PAGES)
		count = BACKUP_IO_PAGES;
	if (far_piece_publish(queue, index, count, chunk, NULL, &piece) != FAR_GOES_OUT)
		return FAR_WAITS;
	if (!queue->direct)
		far_sealed_prepare(queue, piece);
	piece_ask(queue, piece, true, false);
	return FAR_GOES_ON;
}

static void complain(struct far *far, uint64_t page)
{
	if (log_again(&far->backup_complained, clock_now(), COMPLAIN_NS))
		log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_DATA_LOST),
			  "the backup %s does not have page %" PRIu64 " as it was last written: it is lost",
			  far->backup_path, page);
}

/* Returns 0 if every page has the contents of its last write. Otherwise returns the read's error, or -EBADMSG.
   Makes wrong KEPT pages lost, except on the rebuild thread's queue. */
static int read_check(struct far_queue *queue, const struct backup_io *read)
{
	struct integrity *integrity = &queue->far->integrity;
	int status = read->status;

	for (uint32_t i = 0; i < read->count && read->status == 0; i++) {
		uint64_t page = read->page + i;

		if (far_sealed_verify(queue, &queue->pieces[read->piece], i, read->data + (size_t)i * STORE_PAGE))
			continue;
		status = -EBADMSG;
		/* The rebuild thread does not exclude writes, so the page may be wrong only for the moment. */
		if (!read->kept || queue->direct || !integrity_give_up(integrity, page))
			continue;
		atomic_fetch_add(&queue->far->lost_pages, 1);
		complain(queue->far, page);
	}
	return status;
}

static void read_end(struct far_queue *queue, struct backup_io *read)
{
	struct far_request *request = &queue->requests[queue->pieces[read->piece].request];
	int status = read_check(queue, read);

	if (status == 0) {
		far_count(&queue->counters.backup_reads, queue->direct ? 0 : read->count);
	} else if (read->kept) {
		request->status = request->status ? request->status : status;
	} else {
		request->not_on_backup = true;
		request->anew = true;
	}
}

static void write_commit(struct far_queue *queue, const struct far_piece *piece)
{
	struct far *far = queue->far;
	uint32_t epoch, live;
	/* Reads the epoch before the commit, for the reason that far_forget() gives. */
	bool ready = chunk_epoch(&far->table, piece->chunk, &epoch);

	live = integrity_commit_kept(&far->integrity, piece->page, piece->count);
	if (ready)
		far_drop(far, piece->chunk, epoch, live);
	far_count(&queue->counters.backup_writes, piece->count);
	/* The rebuild thread brings KEPT pages back. */
	mailbox_wake_rebuild(&far->mailbox);
}

static void write_end(struct far_queue *queue, const struct backup_io *write)
{
	const struct far_piece *piece = &queue->pieces[write->piece];
	struct far_request *request = &queue->requests[piece->request];

	if (write->status == 0 && !queue->direct)
		write_commit(queue, piece);
	/* The chunk has slabs, so it was leaving for the backup. Because the disk has failed, the write is carried
	   out anew on donors. */
	else if (write->status < 0 && !queue->direct && chunk_state(&queue->far->table, piece->chunk) == CHUNK_READY)
		far_piece_redo(queue, piece);
	else if (write->status < 0)
		request->status = request->status ? request->status : write->status;
}

void far_backup_end(struct far_queue *queue, struct backup_io *io)
{
	queue->backup_asked--;
	if (io->write)
		write_end(queue, io);
	else
		read_end(queue, io);
	far_piece_end(queue, io->piece);
}
