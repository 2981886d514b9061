/* far_hedge: see far_hedge.h. */
#include "client/io/far_hedge.h"

#include "client/io/far_buffer.h"
#include "client/io/far_link.h"
#include "client/io/far_piece.h"
#include "client/io/far_published.h"
#include "client/io/far_request.h"
#include "common/clock.h"

#include <assert.h>

#define BUFFER_BYTES ((size_t)HEDGE_PAGES * STORE_PAGE)
#define BUFFERS_BYTES (HEDGE_BUFFERS * BUFFER_BYTES)
#define ALL_IDLE ((UINT32_C(1) << HEDGE_BUFFERS) - 1)
/* Smaller differences in latency do not count: reading the clock, or a busy CPU, can add as much to a fast
   answer. */
#define NOISE_NS UINT64_C(5000)

_Static_assert(HEDGE_BUFFERS < 32, "a bit each");
_Static_assert(LATENCY_UNKNOWN_NS <= HEDGE_LEAST_NS, "a donor that was never measured does not count as overdue");

/* --- Opening and closing ---------------------------------------------------------------------------------------- */

int far_hedge_open(struct far_queue *queue)
{
	struct far_hedge *hedge = &queue->hedge;
	int error;

	assert(queue->far->config.replicas > 1);
	error = far_buffer_open(queue->far, BUFFERS_BYTES, &hedge->memory, &hedge->region);
	if (error < 0)
		return error;
	hedge->idle = ALL_IDLE;
	hedge->credit = HEDGE_BURST * HEDGE_COST;
	hedge->due = UINT64_MAX;
	return 0;
}

void far_hedge_close(struct far_queue *queue)
{
	struct far_hedge *hedge = &queue->hedge;

	if (!hedge->memory)
		return;
	assert(hedge->idle == ALL_IDLE);
	far_buffer_close(hedge->memory, BUFFERS_BYTES, hedge->region);
	*hedge = (struct far_hedge){0};
}

uint64_t far_hedge_memory(const struct far_queue *queue)
{
	return queue->hedge.memory ? BUFFERS_BYTES : 0;
}

/* --- Steering --------------------------------------------------------------------------------------------------- */

static bool buffer_is_free(const struct far_hedge *hedge, unsigned try)
{
	return (unsigned)__builtin_popcount(hedge->idle) > (try ? 0 : HEDGE_KEPT);
}

/* Returns a slot of @slots other than @not_slot. A read from this slot shows how fast its donor is now. */
static unsigned slot_to_look_at(const struct far_queue *queue, unsigned slots, unsigned not_slot)
{
	unsigned others = slots & ~(1u << not_slot);
	unsigned skip = queue->hedge.looks % (unsigned)__builtin_popcount(others);

	while (skip--)
		others &= others - 1;
	return (unsigned)__builtin_ctz(others);
}

unsigned far_hedge_steer(struct far_queue *queue, const struct chunk_view *view, unsigned slots, uint32_t count)
{
	struct far_hedge *hedge = &queue->hedge;
	unsigned usual = (unsigned)__builtin_ctz(slots), best = usual;
	const struct latency *latency = &queue->links[view->slots[usual].donor].latency;
	uint64_t least = latency_expected(latency) / 2;

	assert(slots & (slots - 1));
	if (!hedge->memory)
		return usual;
	for (unsigned i = usual + 1; i < FAR_SLOTS_MAX && latency->count >= LATENCY_JUDGED; i++) {
		uint64_t mean;

		if (!(slots >> i & 1))
			continue;
		mean = latency_expected(&queue->links[view->slots[i].donor].latency) + NOISE_NS;
		if (mean < least) {
			least = mean;
			best = i;
		}
	}
	if (++hedge->reads < HEDGE_LOOK || count > HEDGE_PAGES || !buffer_is_free(hedge, 0))
		return best;
	hedge->reads = 0;
	hedge->looks++;
	return slot_to_look_at(queue, slots, best);
}

/* Returns how many ns an answer may take, or 0 if not known yet. Uses the fastest donor's p99, which shows how fast
   the fabric is. */
static uint64_t limit_ns(const struct far_queue *queue)
{
	uint64_t least = 0;

	for (unsigned i = 0; i < queue->far->donor_count; i++) {
		uint64_t p99 = queue->links[i].established ? queue->links[i].latency.p99 : 0;

		if (p99 && (!least || p99 < least))
			least = p99;
	}
	if (!least)
		return 0;
	return HEDGE_FACTOR * least > HEDGE_LEAST_NS ? HEDGE_FACTOR * least : HEDGE_LEAST_NS;
}

/* --- Buffers ---------------------------------------------------------------------------------------------------- */

static uint8_t *buffer_at(const struct far_hedge *hedge, unsigned buffer)
{
	return hedge->memory + buffer * BUFFER_BYTES;
}

bool far_hedge_begin(struct far_queue *queue, uint16_t index, unsigned try)
{
	struct far_hedge *hedge = &queue->hedge;
	struct far_piece *piece = &queue->pieces[index];
	uint64_t now = clock_now();
	unsigned buffer;

	assert(!piece->tries[try].buffer);
	if (piece->count > HEDGE_PAGES || !buffer_is_free(hedge, try))
		return false;
	buffer = (unsigned)__builtin_ctz(hedge->idle);
	hedge->idle &= hedge->idle - 1;
	hedge->pieces[buffer] = index;
	piece->tries[try] = (struct far_try){.posted_at = now, .buffer = buffer_at(hedge, buffer)};
	if (try) {
		hedge->credit -= HEDGE_COST;
		return true;
	}
	if (hedge->credit < HEDGE_BURST * HEDGE_COST)
		hedge->credit++;
	if (hedge->limit && now + hedge->limit < hedge->due)
		hedge->due = now + hedge->limit;
	return true;
}

void far_hedge_end(struct far_queue *queue, uint16_t index, unsigned donor, bool good)
{
	struct far_hedge *hedge = &queue->hedge;
	struct far_piece *piece = &queue->pieces[index];
	struct far_try *ended = &piece->tries[donor != piece->donor];
	unsigned buffer;

	assert(ended->buffer);
	buffer = (unsigned)((size_t)(ended->buffer - hedge->memory) / BUFFER_BYTES);
	assert(!(hedge->idle >> buffer & 1));
	if (good && latency_record(&queue->links[donor].latency, clock_now() - ended->posted_at)) {
		hedge->limit = limit_ns(queue);
		hedge->due = 0; /* far_hedge_due() computes it anew */
	}
	hedge->idle |= UINT32_C(1) << buffer;
	ended->buffer = NULL;
}

/* --- Hedging ---------------------------------------------------------------------------------------------------- */

/* Returns the piece whose first read uses @buffer, or NULL if there is none or it was hedged. Stores when to look at
   the piece: when its read becomes overdue, or when to try again to hedge it. */
static const struct far_piece *piece_to_hedge(const struct far_queue *queue, unsigned buffer, uint64_t *ret_due)
{
	const struct far_hedge *hedge = &queue->hedge;
	const struct far_piece *piece = &queue->pieces[hedge->pieces[buffer]];

	if (hedge->idle >> buffer & 1 || (piece->state != PIECE_UNDER_WAY && piece->state != PIECE_OVERDUE))
		return NULL;
	*ret_due = (piece->state == PIECE_OVERDUE ? hedge->looked_at : piece->tries[0].posted_at) + hedge->limit;
	return piece;
}

uint64_t far_hedge_due(struct far_queue *queue)
{
	struct far_hedge *hedge = &queue->hedge;
	uint32_t busy = ~hedge->idle & ALL_IDLE;

	if (hedge->due == UINT64_MAX)
		return UINT64_MAX;
	hedge->due = UINT64_MAX;
	for (; busy && hedge->limit; busy &= busy - 1) {
		uint64_t due;

		if (piece_to_hedge(queue, (unsigned)__builtin_ctz(busy), &due) && due < hedge->due)
			hedge->due = due;
	}
	return hedge->due;
}

/* Returns the slot of the fastest donor that can take the hedge, or -1. The piece was published with the slots of
   @view. */
static int hedge_slot(struct far_queue *queue, const struct far_piece *piece, const struct chunk_view *view)
{
	const struct far_request *request = &queue->requests[piece->request];
	uint64_t least = UINT64_MAX;
	int best = -1;

	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		unsigned donor = view->slots[i].donor;

		if (view->slots[i].state != SLOT_FULL || donor == piece->donor ||
		    far_request_has_failed_on(request, donor))
			continue;
		if (far_link_donor_is_lost(queue, donor) || !far_link_is_usable(queue, donor) ||
		    !far_link_has_room(queue, donor))
			continue;
		if (latency_expected(&queue->links[donor].latency) < least) {
			least = latency_expected(&queue->links[donor].latency);
			best = (int)i;
		}
	}
	return best;
}

static void piece_hedge(struct far_queue *queue, uint16_t index)
{
	const struct far_piece *piece = &queue->pieces[index];
	struct chunk_view view;
	int slot;

	/* Raises the chunk's count, so that its slabs stay until the late answer arrives. By then the caller may
	   have discarded the pages. */
	if (!chunk_hold_ready(&queue->far->table, piece->chunk, 1, &view))
		return;
	/* A thread that changes slots waits for pieces of earlier versions. So the hedge may use only slots of the
	   version with which its piece was published. */
	if (view.epoch != piece->epoch ||
	    !published_is_of(atomic_load_explicit(&queue->published[index], memory_order_relaxed), view.version) ||
	    (slot = hedge_slot(queue, piece, &view)) < 0 || !far_hedge_begin(queue, index, 1)) {
		far_drop(queue->far, piece->chunk, view.epoch, 1);
		return;
	}
	far_piece_move(queue, index, PIECE_HEDGED);
	far_link_stage(queue, index, FABRIC_READ, &view.slots[slot]);
	far_count(&queue->counters.hedges, 1);
}

void far_hedge_look(struct far_queue *queue)
{
	struct far_hedge *hedge = &queue->hedge;
	uint64_t now;

	if (hedge->due == UINT64_MAX || hedge->due > (now = clock_now()))
		return;
	if (!hedge->limit) { /* no connected donor has a p99 any more */
		hedge->due = UINT64_MAX;
		return;
	}
	for (unsigned i = 0; i < HEDGE_BUFFERS; i++) {
		uint64_t due;
		const struct far_piece *piece = piece_to_hedge(queue, i, &due);

		if (!piece || (piece->state == PIECE_UNDER_WAY && due > now))
			continue;
		if (piece->state == PIECE_UNDER_WAY) {
			far_piece_move(queue, hedge->pieces[i], PIECE_OVERDUE);
			latency_overdue(&queue->links[piece->donor].latency, now - piece->tries[0].posted_at);
		}
		if (hedge->credit >= HEDGE_COST && buffer_is_free(hedge, 1))
			piece_hedge(queue, hedge->pieces[i]);
	}
	hedge->looked_at = now;
	far_hedge_due(queue);
	far_links_flush(queue);
}
