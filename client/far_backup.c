/* far_backup: see far_backup.h. */
#include "client/far_backup.h"

#include "client/backup.h"
#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* What is wrong is logged once in so long. */
#define COMPLAIN_NS UINT64_C(1000000000)

int far_backup_queue_open(struct far_queue *queue)
{
	size_t size = FAR_QUEUE_DEPTH * sizeof *queue->backup_reads;

	if (!queue->far->backup)
		return 0;
	queue->backup_reads = malloc(size);
	if (!queue->backup_reads)
		return -ENOMEM;
	memset(queue->backup_reads, 0, size); /* it is there: no fault later */
	return 0;
}

void far_backup_queue_end(struct far_queue *queue)
{
	struct pollfd fd = {.fd = queue->wake, .events = POLLIN};
	eventfd_t value;

	while (queue->backup_asked) {
		struct backup_read *read = atomic_exchange(&queue->backup_answers, NULL);

		for (; read; read = read->next)
			queue->backup_asked--;
		if (queue->backup_asked && poll(&fd, 1, -1) > 0)
			eventfd_read(queue->wake, &value);
	}
}

void far_backup_queue_close(struct far_queue *queue)
{
	free(queue->backup_reads);
	queue->backup_reads = NULL;
}

bool far_backup_is_left(const struct far_queue *queue, const struct far_request *request)
{
	return queue->far->backup && !request->only && !request->unsaved;
}

enum far_progress far_backup_read(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count, bool kept)
{
	struct backup_read *read;
	uint16_t piece;

	if (!queue->idle_piece_count) {
		queue->congested = true;
		return FAR_WAITS;
	}
	if (count > BACKUP_READ_PAGES)
		count = BACKUP_READ_PAGES;
	piece = far_piece_start(queue, index, count, chunk, 0);
	read = &queue->backup_reads[piece];
	*read = (struct backup_read){.queue = queue,
				     .page = queue->pieces[piece].page,
				     .count = count,
				     .piece = piece,
				     .kept = kept,
				     .data = queue->pieces[piece].data};
	queue->backup_asked++;
	backup_read(queue->far->backup, read);
	return FAR_GOES_ON;
}

void far_backup_answer(struct far *far, struct backup_read *read, int status)
{
	struct far_queue *queue = read->queue;

	read->status = status;
	/* The queue may be closed as soon as it has the answer; not while it is woken. */
	pthread_mutex_lock(&far->lock);
	read->next = atomic_load(&queue->backup_answers);
	while (!atomic_compare_exchange_weak(&queue->backup_answers, &read->next, read))
		;
	eventfd_write(queue->wake, 1);
	pthread_mutex_unlock(&far->lock);
}

static void complain(struct far *far, uint64_t page)
{
	if (log_again(&far->backup_complained, clock_now(), COMPLAIN_NS))
		log_error("the backup %s does not have page %" PRIu64 " as it was last written: it is lost",
			  far->backup_path, page);
}

/* Whether what was read is what is to be. */
static int read_check(struct far_queue *queue, const struct backup_read *read)
{
	struct integrity *integrity = &queue->far->integrity;
	int status = read->status;

	for (uint32_t i = 0; i < read->count && read->status == 0; i++) {
		uint64_t page = read->page + i;

		if (far_page_verify(queue, &queue->pieces[read->piece], i, read->data + (size_t)i * STORE_PAGE))
			continue;
		status = -EBADMSG;
		/* To the rebuild thread it may be a page that is to be written again. */
		if (!read->kept || queue->direct || !integrity_give_up(integrity, page))
			continue;
		atomic_fetch_add(&queue->far->lost_pages, 1);
		complain(queue->far, page);
	}
	return status;
}

static void read_end(struct far_queue *queue, struct backup_read *read)
{
	uint16_t index = queue->pieces[read->piece].request;
	struct far_request *request = &queue->requests[index];
	int status = read_check(queue, read);

	queue->idle_pieces[queue->idle_piece_count++] = read->piece;
	if (status == 0) {
		far_count(&queue->counters.backup_reads, queue->direct ? 0 : read->count);
	} else if (read->kept) {
		request->status = request->status ? request->status : status;
	} else {
		request->unsaved = true;
		request->again = true;
	}
	request->pieces--;
	if (request->busy && (request->status || request->again))
		queue->look = true; /* it is parked and need not go on */
	far_request_settle(queue, index);
}

void far_backup_collect(struct far_queue *queue)
{
	struct backup_read *read = atomic_exchange(&queue->backup_answers, NULL);

	while (read) {
		struct backup_read *next = read->next;

		queue->backup_asked--;
		read_end(queue, read);
		read = next;
	}
	queue->look |= queue->congested;
}
