#include "client/io/far_read.h"

#include "client/io/far_backup.h"
#include "client/io/far_link.h"
#include "client/io/far_piece.h"

#include <string.h>

/* Returns the best slot from which to read @count pages: its donor can be reached and has not failed this request.
   If there is none, returns a slot whose donor is away, or -1. Stores the chunk's slots in *ret_view. */
static int read_replica(struct far_queue *queue, const struct far_request *request, uint64_t chunk, uint32_t count,
			struct chunk_view *ret_view)
{
	unsigned usable = 0;
	int away = -1;

	if (!chunk_view(&queue->far->table, chunk, ret_view))
		return -1;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		unsigned donor = ret_view->slots[i].donor;

		if (ret_view->slots[i].state != SLOT_FULL ||
		    (request->only != FAR_NONE && (request->only != donor || request->epoch != ret_view->epoch)))
			continue;
		if (far_request_has_failed_on(request, donor) || far_link_donor_is_lost(queue, donor))
			continue;
		far_link_need(queue, donor);
		if (far_link_is_usable(queue, donor))
			usable |= 1u << i;
		else
			away = (int)i;
	}
	if (usable & (usable - 1))
		return (int)far_hedge_steer(queue, ret_view, usable, count);
	return usable ? __builtin_ctz(usable) : away;
}

static enum far_progress read_fetch(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count)
{
	struct far_request *request = &queue->requests[index];
	struct chunk_view view;
	int replica = read_replica(queue, request, chunk, count, &view);
	unsigned donor;
	uint16_t piece;

	if (replica < 0) {
		if (far_backup_is_left(queue, request))
			return far_backup_read(queue, index, chunk, count, false);
		request->status = request->failure ? request->failure : -EIO;
		return FAR_GOES_ON;
	}
	donor = view.slots[replica].donor;
	if (!far_link_is_usable(queue, donor)) {
		/* The donor may be away for seconds, and the backup can answer now. */
		if (!far_link_donor_is_up(queue, donor) && far_backup_is_left(queue, request))
			return far_backup_read(queue, index, chunk, count, false);
		if (queue->direct && far_link_is_coming(queue, donor))
			return FAR_WAITS;
		if (!queue->direct) {
			far_link_await(queue, request, donor);
			return FAR_WAITS;
		}
		request->status = -EIO;
		return FAR_GOES_ON;
	}
	if (!queue->idle_piece_count || !far_link_has_room(queue, donor)) {
		queue->congested = true;
		return FAR_WAITS;
	}
	if (far_piece_publish(queue, index, count, chunk, &view, &piece) != FAR_GOES_OUT)
		return FAR_GOES_ON; /* the slots have changed: the caller tries again with the new ones */
	queue->pieces[piece].donor = (uint16_t)donor;
	if (queue->hedge.memory)
		far_hedge_begin(queue, piece, 0);
	far_link_stage(queue, piece, FABRIC_READ, &view.slots[replica]);
	return FAR_GOES_ON;
}

enum far_progress far_read_next(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t limit)
{
	struct far_request *request = &queue->requests[index];
	uint64_t page = request->io.page + request->next;
	bool untouched = chunk_is_untouched(&queue->far->table, chunk);
	uint32_t count;

	/* Does not load the generations of an untouched chunk, because they may not be present yet
	   (integrity_begin()). */
	count = untouched ? limit : integrity_run(&queue->far->integrity, page, limit);
	switch (untouched ? INTEGRITY_IS_ZERO : integrity_kind(&queue->far->integrity, page)) {
	case INTEGRITY_IS_ZERO:
		memset((uint8_t *)request->io.data + (size_t)request->next * STORE_PAGE, 0, (size_t)count * STORE_PAGE);
		far_count(&queue->counters.zero_reads, count);
		request->next += count;
		return FAR_GOES_ON;
	case INTEGRITY_IS_LIVE:
		return read_fetch(queue, index, chunk, count);
	case INTEGRITY_IS_KEPT:
		if (queue->far->backup)
			return far_backup_read(queue, index, chunk, count, true);
		break;
	case INTEGRITY_IS_LOST:
		break;
	}
	request->status = -EIO;
	return FAR_GOES_ON;
}
