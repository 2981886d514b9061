#include "client/io/far_piece.h"

#include "client/io/far_published.h"
#include "client/io/far_request.h"

#include <assert.h>

#define TO(state) (1u << PIECE_##state)

static const uint8_t piece_moves[PIECE_STATES] = {
    [PIECE_FREE] = TO(UNDER_WAY),
    [PIECE_UNDER_WAY] = TO(OVERDUE) | TO(FREE),
    [PIECE_OVERDUE] = TO(HEDGED) | TO(FREE),
    [PIECE_HEDGED] = TO(LATE) | TO(FREE),
    [PIECE_LATE] = TO(FREE),
};

void far_piece_move(struct far_queue *queue, uint16_t index, enum far_piece_state to)
{
	struct far_piece *piece = &queue->pieces[index];

	assert(piece_moves[piece->state] & 1u << to);
	queue->late += to == PIECE_LATE;
	queue->late -= piece->state == PIECE_LATE;
	piece->state = to;
	if (to == PIECE_FREE)
		queue->idle_pieces[queue->idle_piece_count++] = index;
}

/* --- Publishing ------------------------------------------------------------------------------------------------ */

static bool pages_are_live(const struct integrity *integrity, uint64_t page, uint32_t count)
{
	return integrity_run(integrity, page, count) == count && integrity_kind(integrity, page) == INTEGRITY_IS_LIVE;
}

uint16_t far_piece_start(struct far_queue *queue, uint16_t request_index, uint32_t count, uint64_t chunk,
			 uint32_t epoch)
{
	struct far_request *request = &queue->requests[request_index];
	uint16_t index;

	assert(queue->idle_piece_count);
	index = queue->idle_pieces[--queue->idle_piece_count];
	queue->pieces[index] = (struct far_piece){
	    .state = queue->pieces[index].state,
	    .page = request->io.page + request->next,
	    .data = (uint8_t *)request->io.data + (size_t)request->next * STORE_PAGE,
	    .chunk = chunk,
	    .count = count,
	    .epoch = epoch,
	    .request = request_index,
	};
	far_piece_move(queue, index, PIECE_UNDER_WAY);
	request->next += count;
	request->pieces++;
	if (!queue->direct)
		warmth_moved(&queue->far->warmth, chunk, count);
	return index;
}

/* Publishes the next piece, which far_piece_start() will make. */
static enum far_way piece_publish(struct far_queue *queue, const struct far_request *request, uint32_t count,
				  uint64_t chunk, const struct chunk_view *view)
{
	_Atomic uint64_t *published = &queue->published[queue->idle_pieces[queue->idle_piece_count - 1]];
	const struct chunk_table *table = &queue->far->table;
	const bool write = request->io.op == STORE_WRITE;
	uint64_t page = request->io.page + request->next;
	enum far_way way = FAR_GOES_OUT;

	/* Publishes before it looks at the slots and the rebuild window: see far_queue.h. */
	atomic_store(published, published_make(page, count, view ? view->version : chunk_version(table, chunk), write));
	if (view && !chunk_is_unchanged(table, chunk, view))
		way = FAR_ANEW;
	/* The pages were live before the piece was published. If the pages have left for the backup since then, their
	   slab may have been released. */
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

enum far_way far_piece_publish(struct far_queue *queue, uint16_t request, uint32_t count, uint64_t chunk,
			       const struct chunk_view *view, uint16_t *ret_piece)
{
	enum far_way way = queue->direct ? FAR_GOES_OUT : FAR_KEPT_OUT;

	assert(queue->idle_piece_count);
	/* Tries twice. If the window is closed after `waiting` was set, the queue is woken. The second try finds a
	   window that was closed earlier. */
	for (unsigned i = 0; i < 2 && way == FAR_KEPT_OUT; i++) {
		way = piece_publish(queue, &queue->requests[request], count, chunk, view);
		if (way == FAR_KEPT_OUT)
			atomic_store(&queue->waiting, true);
	}
	if (way == FAR_GOES_OUT)
		*ret_piece = far_piece_start(queue, request, count, chunk, view ? view->epoch : 0);
	return way;
}

/* --- The end --------------------------------------------------------------------------------------------------- */

void far_piece_drop(struct far_queue *queue, const struct far_piece *piece, uint32_t pages)
{
	far_drop(queue->far, piece->chunk, piece->epoch, pages);
}

void far_piece_redo(struct far_queue *queue, const struct far_piece *piece)
{
	struct far_request *request = &queue->requests[piece->request];

	/* Counts the write before the piece is withdrawn, so that a repair in a window sees the count: see
	   repair.c. */
	assert(piece->state != PIECE_FREE);
	if (!request->counted_anew)
		atomic_fetch_add(&queue->redone, 1);
	request->counted_anew = true;
	request->anew = true;
}

static void piece_withdraw(struct far_queue *queue, uint16_t index)
{
	if (atomic_load_explicit(&queue->published[index], memory_order_relaxed) == PUBLISHED_NONE)
		return;
	atomic_fetch_sub_explicit(&queue->under_way, 1, memory_order_relaxed);
	atomic_store_explicit(&queue->published[index], PUBLISHED_NONE, memory_order_release);
}

void far_piece_end(struct far_queue *queue, uint16_t index)
{
	const struct far_piece *piece = &queue->pieces[index];

	assert(!piece->left.count);
	if (piece->sealed)
		far_sealed_end(queue, index);
	if (piece->state == PIECE_HEDGED || piece->state == PIECE_LATE)
		far_piece_drop(queue, piece, 1);
	piece_withdraw(queue, index);
	far_piece_move(queue, index, PIECE_FREE);
}
