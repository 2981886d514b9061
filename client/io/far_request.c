#include "client/io/far_request.h"

#include "client/io/far_backup.h"
#include "client/io/far_hedge.h"
#include "client/io/far_published.h"
#include "client/io/far_sealed.h"
#include "common/clock.h"

#include <errno.h>
#include <string.h>

_Static_assert((uint64_t)STORE_RUN_MAX *STORE_PAGE <= FABRIC_OP_MAX, "a run is never too long for one operation");

/* --- Connections ---------------------------------------------------------------------------------------------- */

static bool link_is_usable(const struct far_queue *queue, unsigned donor)
{
	const struct far_link *link = &queue->links[donor];

	return link->established &&
	       link->round == atomic_load_explicit(&queue->far->donors[donor].round, memory_order_acquire);
}

static bool donor_is_up(const struct far_queue *queue, unsigned donor)
{
	return atomic_load_explicit(&queue->far->donors[donor].round, memory_order_acquire) & 1;
}

static bool donor_is_lost(const struct far_queue *queue, unsigned donor)
{
	return atomic_load_explicit(&queue->far->donors[donor].status, memory_order_acquire);
}

void far_link_drop(struct far_queue *queue, unsigned donor)
{
	struct far_link *link = &queue->links[donor];

	fabric_disconnect(link->conn);
	link->conn = NULL;
	link->established = false;
	link->staged = 0;
	queue->staged &= ~(UINT64_C(1) << donor);
	for (unsigned i = 0; i < FAR_QUEUE_DEPTH; i++)
		if (queue->pieces[i].left >> donor & 1)
			far_piece_answered(queue, (uint16_t)i, donor, false);
	queue->look = true;
}

/* Returns since when the request waits for @donor, as if it had not waited for other donors in between. A request waits
   for one donor at a time. The FAR_REPLICAS_MAX longest waits are kept. far_now() may have gone back since the wait
   began, by a pause. */
static uint64_t wait_since(const struct far_queue *queue, struct far_request *request, unsigned donor)
{
	struct far_wait *wait = NULL, *least = &request->waits[0];
	uint64_t now;

	for (unsigned i = 0; i < FAR_REPLICAS_MAX; i++) {
		struct far_wait *other = &request->waits[i];

		if ((other->since || other->waited) && other->donor == donor)
			wait = other;
	}
	if (wait && wait->since)
		return wait->since;
	now = far_now(queue->far);
	for (unsigned i = 0; i < FAR_REPLICAS_MAX; i++) {
		struct far_wait *other = &request->waits[i];

		if (other->since)
			*other = (struct far_wait){.donor = other->donor,
						   .waited = now > other->since ? now - other->since : 0};
		if (other->waited < least->waited)
			least = other;
	}
	if (!wait) {
		wait = least;
		*wait = (struct far_wait){.donor = donor};
	}
	wait->since = now - wait->waited;
	return wait->since;
}

/* Waits for a donor that is away, or whose connection is being made. The control thread tells when it is back or
   lost. */
static enum far_progress link_await(struct far_queue *queue, struct far_request *request, unsigned donor)
{
	mailbox_put_wait(&queue->far->mailbox, donor, wait_since(queue, request, donor));
	return FAR_WAITS;
}

static void link_flush(struct far_queue *queue, unsigned donor)
{
	struct far_link *link = &queue->links[donor];
	unsigned staged = link->staged;
	int posted;

	link->staged = 0;
	queue->staged &= ~(UINT64_C(1) << donor);
	if (!staged)
		return;
	posted = fabric_post(link->conn, link->ops, staged);
	/* There was room, so the connection has ended. An event will say why, and everything is carried out anew. */
	if (posted != (int)staged)
		link->established = false;
}

static bool link_has_room(struct far_queue *queue, unsigned donor)
{
	struct far_link *link = &queue->links[donor];

	if (link->staged == FAR_LINK_BATCH)
		link_flush(queue, donor);
	return fabric_room(link->conn) > link->staged;
}

void far_links_flush(struct far_queue *queue)
{
	while (queue->staged)
		link_flush(queue, (unsigned)__builtin_ctzll(queue->staged));
}

static void link_stage(struct far_queue *queue, uint16_t index, enum fabric_op_kind kind, const struct chunk_slot *slot)
{
	const struct far_piece *piece = &queue->pieces[index];
	struct far_link *link = &queue->links[slot->donor];
	uint64_t offset = piece->page % queue->far->table.pages * STORE_PAGE;
	const struct fabric_region *region;
	uint8_t *bytes = far_piece_bytes(queue, index, slot->donor, &region);

	queue->staged |= UINT64_C(1) << slot->donor;
	queue->pieces[index].left |= UINT64_C(1) << slot->donor;
	link->ops[link->staged++] = (struct fabric_op){
	    .kind = kind,
	    .length = piece->count * STORE_PAGE,
	    .local = bytes,
	    .region = region,
	    .remote = {.address = slot->address + offset, .rkey = slot->rkey},
	    .cookie = index,
	};
}

/* --- Reads ---------------------------------------------------------------------------------------------------- */

/* Returns the best slot to read @count pages from, among donors that can be reached and have not failed this request.
   If there is none, returns a slot whose donor may be reached again, or -1. */
static int read_replica(struct far_queue *queue, const struct far_request *request, const struct chunk_view *view,
			uint32_t count)
{
	unsigned usable = 0;
	int away = -1;

	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		unsigned donor = view->slots[i].donor;

		if (view->slots[i].state != SLOT_FULL ||
		    (request->only && (request->only != donor + 1 || request->epoch != view->epoch)))
			continue;
		if (request->failed >> donor & 1 || donor_is_lost(queue, donor))
			continue;
		if (link_is_usable(queue, donor))
			usable |= 1u << i;
		else
			away = (int)i;
	}
	return usable ? (int)far_hedge_steer(queue, view, usable, count) : away;
}

/* Fetches @count live pages of one chunk. */
static enum far_progress read_fetch(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count)
{
	struct far_request *request = &queue->requests[index];
	struct chunk_view view;
	unsigned donor;
	uint16_t piece;
	int replica;

	if (!chunk_view(&queue->far->table, chunk, &view) ||
	    (replica = read_replica(queue, request, &view, count)) < 0) {
		if (far_backup_is_left(queue, request))
			return far_backup_read(queue, index, chunk, count, false);
		request->status = request->failure ? request->failure : -EIO;
		return FAR_GOES_ON;
	}
	donor = view.slots[replica].donor;
	if (!link_is_usable(queue, donor)) {
		/* The donor is away, perhaps for seconds. */
		if (!donor_is_up(queue, donor) && far_backup_is_left(queue, request))
			return far_backup_read(queue, index, chunk, count, false);
		if (!queue->direct)
			return link_await(queue, request, donor);
		request->status = -EIO;
		return FAR_GOES_ON;
	}
	if (!queue->idle_piece_count || !link_has_room(queue, donor)) {
		queue->congested = true;
		return FAR_WAITS;
	}
	if (far_piece_publish(queue, request->io.page + request->next, count, chunk, &view, false) != FAR_GOES_OUT)
		return FAR_GOES_ON; /* begins anew with the current slots */
	piece = far_piece_start(queue, index, count, chunk, view.epoch);
	queue->pieces[piece].donor = (uint16_t)donor;
	far_hedge_begin(queue, piece, 0, donor);
	link_stage(queue, piece, FABRIC_READ, &view.slots[replica]);
	return FAR_GOES_ON;
}

/* Returns the fastest other slot that the piece can be read from, or -1. @view is the one it was published with. */
static int hedge_replica(struct far_queue *queue, const struct far_piece *piece, const struct chunk_view *view)
{
	const struct far_request *request = &queue->requests[piece->request];
	uint64_t least = UINT64_MAX;
	int best = -1;

	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		unsigned donor = view->slots[i].donor;

		if (view->slots[i].state != SLOT_FULL || donor == piece->donor || request->failed >> donor & 1)
			continue;
		if (donor_is_lost(queue, donor) || !link_is_usable(queue, donor) || !link_has_room(queue, donor))
			continue;
		if (latency_expected(&queue->links[donor].latency) < least) {
			least = latency_expected(&queue->links[donor].latency);
			best = (int)i;
		}
	}
	return best;
}

void far_request_hedge(struct far_queue *queue, uint16_t index)
{
	struct far_piece *piece = &queue->pieces[index];
	struct chunk_view view;
	int replica;

	/* A late answer may come after the pages were discarded. Until then the count keeps the chunk's slabs. */
	if (!chunk_hold_ready(&queue->far->table, piece->chunk, 1, &view))
		return;
	/* Other threads wait for the piece by the version it was published with. So the hedge must use slots of that
	   version. */
	if (view.epoch != piece->epoch ||
	    !published_is_of(atomic_load_explicit(&queue->published[index], memory_order_relaxed), view.version) ||
	    (replica = hedge_replica(queue, piece, &view)) < 0 ||
	    !far_hedge_begin(queue, index, 1, view.slots[replica].donor)) {
		if (chunk_drop(&queue->far->table, piece->chunk, view.epoch, 1))
			mailbox_wake_control(&queue->far->mailbox);
		return;
	}
	piece->held = true;
	link_stage(queue, index, FABRIC_READ, &view.slots[replica]);
	far_count(&queue->counters.hedges, 1);
}

static enum far_progress read_next(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t limit)
{
	struct far_request *request = &queue->requests[index];
	uint64_t page = request->io.page + request->next;
	bool untouched = chunk_is_untouched(&queue->far->table, chunk);
	uint32_t count;

	if (request->single) {
		if (request->pieces)
			return FAR_WAITS;
		far_request_single(request);
		limit = 1;
	}
	/* Does not read an untouched chunk's part of the arrays: it may not be present yet (integrity_begin()). */
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

/* --- Writes --------------------------------------------------------------------------------------------------- */

/* Returns how many pages from @data on, at most @limit, are all zero. If @zero is false, returns how many are not. */
static uint32_t write_run(const uint8_t *data, uint32_t limit, bool zero)
{
	uint32_t count = 0;

	while (count < limit && integrity_is_zero(data + (size_t)count * STORE_PAGE) == zero)
		count++;
	return count;
}

/* The donors of a held chunk. */
struct write_links {
	uint64_t live; /* donors that are not lost, one bit each */
	int away;      /* one of them that cannot be reached, or -1 */
	bool others;   /* another one, with a FULL slot, can be reached */
	bool room;     /* all of them can take an operation */
};

static struct write_links write_links(struct far_queue *queue, const struct chunk_view *view)
{
	struct write_links links = {.away = -1, .room = queue->idle_piece_count > 0};

	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		unsigned donor = view->slots[i].donor;

		if (view->slots[i].state == SLOT_EMPTY || donor_is_lost(queue, donor))
			continue;
		links.live |= UINT64_C(1) << donor;
		links.room = links.room && link_is_usable(queue, donor) && link_has_room(queue, donor);
		/* Checked last, because making room may show that the connection has ended. */
		if (!link_is_usable(queue, donor))
			links.away = (int)donor;
		else
			links.others |= view->slots[i].state == SLOT_FULL;
	}
	return links;
}

static void write_post(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count,
		       const struct chunk_view *view, uint64_t donors)
{
	uint16_t piece = far_piece_start(queue, index, count, chunk, view->epoch);

	far_piece_prepare(queue, piece);
	/* Does not check again that the donors are up. If one has gone since, its connection will say so. */
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (view->slots[i].state != SLOT_EMPTY && donors >> view->slots[i].donor & 1)
			link_stage(queue, piece, FABRIC_WRITE, &view->slots[i]);
}

/* Returns true if the chunk was denied a slab since the request began to wait for it. Sets the request's status. */
static bool write_denied(struct far_request *request, const struct chunk *chunk, uint64_t index)
{
	int status;

	if (request->asked != index + 1 || atomic_load(&chunk->denials) == request->denials)
		return false;
	status = atomic_load(&chunk->denial);
	request->asked = 0;
	/* This slab was asked for ahead of need. Now a write needs it, so it is asked for again. */
	if (status == -EAGAIN)
		return false;
	request->status = far_answer_status(status);
	return true;
}

/* Counts the pages in their chunk. Returns FAR_WAITS if the chunk has no slab yet, or was denied one: then the request
   has a status. */
static enum far_progress write_hold(struct far_queue *queue, struct far_request *request, uint64_t index,
				    uint32_t count, struct chunk_view *ret_view)
{
	struct chunk_table *table = &queue->far->table;
	const struct chunk *chunk = &table->chunks[index];

	/* Tries twice: a change after `waiting` is set wakes the queue, and the second try sees a change before. */
	for (unsigned i = 0; i < 2; i++) {
		if (chunk_state(table, index) != CHUNK_READY && write_denied(request, chunk, index))
			return FAR_WAITS;
		if (request->asked != index + 1)
			request->denials = atomic_load(&chunk->denials);
		switch (chunk_hold(table, index, count, ret_view)) {
		case CHUNK_HELD:
			request->asked = 0;
			return FAR_GOES_ON;
		case CHUNK_ASKED:
			mailbox_wake_control(&queue->far->mailbox);
			break;
		case CHUNK_WAIT:
			break;
		}
		request->asked = index + 1;
		atomic_store(&queue->waiting, true);
	}
	return FAR_WAITS;
}

/* Posts the held write. Returns FAR_GOES_ON if that is done, or must be begun anew. Returns FAR_WAITS if a window is
   open. */
static enum far_progress write_publish(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t count,
				       const struct chunk_view *view, uint64_t donors)
{
	struct far *far = queue->far;
	const struct far_request *request = &queue->requests[index];
	enum far_way way = far_piece_publish(queue, request->io.page + request->next, count, chunk, view, true);

	if (way == FAR_GOES_OUT) {
		write_post(queue, index, chunk, count, view, donors);
		return FAR_GOES_ON;
	}
	if (chunk_drop(&far->table, chunk, view->epoch, count))
		mailbox_wake_control(&far->mailbox);
	return way == FAR_ANEW ? FAR_GOES_ON : FAR_WAITS;
}

/* Waits, because the write cannot go to all of its chunk's replicas. */
static enum far_progress write_await(struct far_queue *queue, struct far_request *request, uint64_t chunk,
				     const struct write_links *links)
{
	bool up = donor_is_up(queue, (unsigned)links->away);

	/* The donor is up, and the connection is being made. An event tells when it is made, or why it failed. */
	if (links->others && up)
		return FAR_WAITS;
	/* The other replica's donor can be reached, so this slot is given up. `waiting` is set first, because the
	   answer is a wake-up. */
	if (links->others) {
		atomic_store(&queue->waiting, true);
		chunk_hinder(&queue->far->table, chunk);
		mailbox_wake_control(&queue->far->mailbox);
		return FAR_WAITS;
	}
	return link_await(queue, request, (unsigned)links->away);
}

/* Writes to the one donor that the rebuild thread has named, or to the backup. */
static enum far_progress write_only(struct far_queue *queue, uint16_t index, uint64_t chunk)
{
	struct far_request *request = &queue->requests[index];
	unsigned donor = request->only - 1;
	struct chunk_view view;
	uint16_t piece;

	if (donor == FAR_ON_BACKUP)
		return far_backup_write(queue, index, chunk, request->io.count);
	request->status = -ESTALE;
	/* In another epoch nobody holds the chunk. Its slab may be another chunk's when the bytes arrive. */
	if (!chunk_view(&queue->far->table, chunk, &view) || view.epoch != request->epoch)
		return FAR_GOES_ON;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		if (view.slots[i].state == SLOT_EMPTY || view.slots[i].donor != donor)
			continue;
		request->status = -EIO;
		if (!link_is_usable(queue, donor) || !queue->idle_piece_count || !link_has_room(queue, donor))
			return FAR_GOES_ON;
		request->status = 0;
		piece = far_piece_start(queue, index, request->io.count, chunk, view.epoch);
		link_stage(queue, piece, FABRIC_WRITE, &view.slots[i]);
		return FAR_GOES_ON;
	}
	return FAR_GOES_ON;
}

/* Sends @count pages of one chunk. None of them is all zero. */
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
		request->asked = 0;
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
	if (chunk_drop(&far->table, chunk, view.epoch, count))
		mailbox_wake_control(&far->mailbox);
	if (links.live && links.away >= 0)
		return write_await(queue, request, chunk, &links);
	if (links.live) {
		queue->congested = true;
		return FAR_WAITS;
	}
	/* All donors of the chunk are lost, and are being buried. Then the chunk gets a new slab. */
	atomic_store(&queue->waiting, true);
	queue->look |= !chunk_is_current(&far->table, chunk, view.epoch);
	return FAR_WAITS;
}

static enum far_progress write_next(struct far_queue *queue, uint16_t index, uint64_t chunk, uint32_t limit)
{
	struct far *far = queue->far;
	struct far_request *request = &queue->requests[index];
	uint64_t page = request->io.page + request->next;
	const uint8_t *data = (const uint8_t *)request->io.data + (size_t)request->next * STORE_PAGE;
	uint32_t zeroes;

	if (request->only)
		return write_only(queue, index, chunk);
	zeroes = write_run(data, limit, true);
	if (!zeroes)
		return write_send(queue, index, chunk, 1 + write_run(data + STORE_PAGE, limit - 1, false));
	far_forget(far, page, zeroes);
	request->next += zeroes;
	return FAR_GOES_ON;
}

/* --- Requests ------------------------------------------------------------------------------------------------- */

enum far_progress far_request_issue(struct far_queue *queue, uint16_t index)
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
		progress = request->io.op == STORE_READ ? read_next(queue, index, page / chunk_pages, limit)
							: write_next(queue, index, page / chunk_pages, limit);
	}
	return progress;
}
