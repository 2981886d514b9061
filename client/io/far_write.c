#include "client/io/far_write.h"

#include "client/io/far_backup.h"
#include "client/io/far_link.h"
#include "client/io/far_piece.h"

_Static_assert((uint64_t)STORE_RUN_MAX *STORE_PAGE <= FABRIC_OP_MAX, "a run is never too long for one operation");

/* Counts the pages at the start of @data, at most @limit, until the first that is not zero. If @zero is false,
   counts until the first that is zero. */
static uint32_t write_run(const uint8_t *data, uint32_t limit, bool zero)
{
	uint32_t count = 0;

	while (count < limit && integrity_is_zero(data + (size_t)count * STORE_PAGE) == zero)
		count++;
	return count;
}

/* The donors of a chunk in which a write has been counted. */
struct write_links {
	unsigned live; /* slots whose donors are not lost, one bit each */
	int away;      /* one of these donors that cannot be reached, or -1 */
	bool others;   /* another donor with a FULL slot can be reached */
	bool room;     /* all these donors can take one more operation */
};

static struct write_links write_links(struct far_queue *queue, const struct chunk_view *view)
{
	struct write_links links = {.away = -1, .room = queue->idle_piece_count > 0};

	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		unsigned donor = view->slots[i].donor;

		if (view->slots[i].state == SLOT_EMPTY || far_link_donor_is_lost(queue, donor))
			continue;
		links.live |= 1u << i;
		far_link_need(queue, donor);
		links.room = links.room && far_link_is_usable(queue, donor) && far_link_has_room(queue, donor);
		/* Checks this after far_link_has_room(), which may find that the connection has ended. */
		if (!far_link_is_usable(queue, donor))
			links.away = (int)donor;
		else
			links.others |= view->slots[i].state == SLOT_FULL;
	}
	return links;
}

static void write_post(struct far_queue *queue, uint16_t piece, const struct chunk_view *view, unsigned slots)
{
	far_sealed_prepare(queue, piece);
	/* Does not check again that the donors are up. If a donor has gone away, its connection will end. */
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (slots >> i & 1)
			far_link_stage(queue, piece, FABRIC_WRITE, &view->slots[i]);
}

/* Returns true if the chunk was denied a slab since the request began to wait for it. The request's status is then
   the reason. */
static bool write_denied(struct far_request *request, const struct chunk *chunk, uint64_t index)
{
	int status;

	if (request->wanted != index || atomic_load(&chunk->denials) == request->denials)
		return false;
	status = atomic_load(&chunk->denial);
	request->wanted = FAR_NO_CHUNK;
	/* The slab was only asked for ahead, before a write needed it. So the write asks again. */
	if (status == -EAGAIN)
		return false;
	request->status = far_request_status(status);
	return true;
}

/* Counts the pages in their chunk. Returns FAR_WAITS if the chunk has no slab yet. If the chunk was denied one,
   also sets the request's status. */
static enum far_progress write_hold(struct far_queue *queue, struct far_request *request, uint64_t index,
				    uint32_t count, struct chunk_view *ret_view)
{
	struct chunk_table *table = &queue->far->table;
	const struct chunk *chunk = &table->chunks[index];

	/* Tries twice. If the chunk changes after `waiting` was set, the change wakes the queue. The second try finds
	   an earlier change. */
	for (unsigned i = 0; i < 2; i++) {
		if (chunk_state(table, index) != CHUNK_READY && write_denied(request, chunk, index))
			return FAR_WAITS;
		if (request->wanted != index)
			request->denials = atomic_load(&chunk->denials);
		switch (chunk_hold(table, index, count, ret_view)) {
		case CHUNK_HELD:
			request->wanted = FAR_NO_CHUNK;
			return FAR_GOES_ON;
		case CHUNK_ASKED:
			mailbox_wake_control(&queue->far->mailbox);
			break;
		case CHUNK_WAIT:
			break;
		}
		request->wanted = index;
		atomic_store(&queue->waiting, true);
	}
	return FAR_WAITS;
}

/* Sends a write whose pages were counted. Returns FAR_GOES_ON if the write was sent, or if its piece must be made
   anew. Returns FAR_WAITS if the rebuild window has some of the pages. */
static enum far_progress write_publish(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count,
				       const struct chunk_view *view, unsigned slots)
{
	uint16_t piece;
	enum far_way way = far_piece_publish(queue, index, count, chunk, view, &piece);

	if (way == FAR_GOES_OUT) {
		write_post(queue, piece, view, slots);
		return FAR_GOES_ON;
	}
	far_drop(queue->far, chunk, view->epoch, count);
	return way == FAR_ANEW ? FAR_GOES_ON : FAR_WAITS;
}

/* Notes why the write waits: a donor of its chunk cannot be reached. */
static void write_await(struct far_queue *queue, struct far_request *request, uint64_t chunk,
			const struct write_links *links)
{
	bool up = far_link_donor_is_up(queue, (unsigned)links->away);

	/* The donor is up, so its connection is being made. The queue is woken when the connection is established or
	   has failed. */
	if (links->others && up)
		return;
	/* Another replica's donor can be reached, so the control thread will detach this slot and wake the queue.
	   `waiting` is set first, so that this wake-up is not lost. */
	if (links->others) {
		atomic_store(&queue->waiting, true);
		chunk_hinder(&queue->far->table, chunk);
		mailbox_wake_control(&queue->far->mailbox);
		return;
	}
	far_link_await(queue, request, (unsigned)links->away);
}

/* Writes to the one donor that the rebuild thread has named, or to the backup. */
static enum far_progress write_only(struct far_queue *queue, uint16_t index, uint64_t chunk)
{
	struct far_request *request = &queue->requests[index];
	unsigned donor = request->only;
	struct chunk_view view;
	uint16_t piece;

	if (donor == FAR_ON_BACKUP)
		return far_backup_write(queue, index, chunk, request->io.count);
	request->status = -ESTALE;
	/* If the epoch has changed, the caller's count is void, so the slab may belong to another chunk by now. */
	if (!chunk_view(&queue->far->table, chunk, &view) || view.epoch != request->epoch)
		return FAR_GOES_ON;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		if (view.slots[i].state == SLOT_EMPTY || view.slots[i].donor != donor)
			continue;
		request->status = -EIO;
		far_link_need(queue, donor);
		if (far_link_is_coming(queue, donor)) {
			request->status = 0;
			return FAR_WAITS;
		}
		if (!far_link_is_usable(queue, donor) || !queue->idle_piece_count || !far_link_has_room(queue, donor))
			return FAR_GOES_ON;
		request->status = 0;
		piece = far_piece_start(queue, index, request->io.count, chunk, view.epoch);
		far_link_stage(queue, piece, FABRIC_WRITE, &view.slots[i]);
		return FAR_GOES_ON;
	}
	return FAR_GOES_ON;
}

/* Sends @count pages of one chunk. No page is all zero. */
static enum far_progress write_send(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count)
{
	struct far *far = queue->far;
	struct far_request *request = &queue->requests[index];
	struct write_links links;
	struct chunk_view view;

	count = far_sealed_room(queue, count);
	if (!count) {
		queue->congested = true;
		return FAR_WAITS;
	}
	if (far_backup_stands_in(queue, chunk)) {
		request->wanted = FAR_NO_CHUNK;
		return far_backup_write(queue, index, chunk, count);
	}
	if (write_hold(queue, request, chunk, count, &view) == FAR_WAITS) {
		if (far_backup_takes_over(queue, request))
			return far_backup_write(queue, index, chunk, count);
		return request->status ? FAR_GOES_ON : FAR_WAITS;
	}
	links = write_links(queue, &view);
	if (links.live && links.away < 0 && links.room) {
		if (chunk_look_ahead(&far->table, chunk))
			mailbox_wake_control(&far->mailbox);
		return write_publish(queue, index, chunk, count, &view, links.live);
	}
	far_drop(far, chunk, view.epoch, count);
	if (links.live && links.away >= 0) {
		write_await(queue, request, chunk, &links);
	} else if (links.live) {
		queue->congested = true;
	} else {
		/* All donors of the chunk are lost. When the control thread has marked the chunk's pages as lost,
		   the chunk can get a new slab, and the queue is woken. */
		atomic_store(&queue->waiting, true);
		queue->look |= !chunk_is_current(&far->table, chunk, view.epoch);
	}
	return FAR_WAITS;
}

enum far_progress far_write_next(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t limit)
{
	struct far *far = queue->far;
	struct far_request *request = &queue->requests[index];
	uint64_t page = request->io.page + request->next;
	const uint8_t *data = (const uint8_t *)request->io.data + (size_t)request->next * STORE_PAGE;
	uint32_t zeroes;

	if (request->only != FAR_NONE)
		return write_only(queue, index, chunk);
	zeroes = write_run(data, limit, true);
	if (!zeroes)
		return write_send(queue, index, chunk, 1 + write_run(data + STORE_PAGE, limit - 1, false));
	far_forget(far, page, zeroes);
	request->next += zeroes;
	return FAR_GOES_ON;
}
