/* far_sealed: see far_sealed.h. */
#include "client/io/far_sealed.h"

#include "client/io/far_buffer.h"
#include "client/io/far_piece.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

#define BUFFER_BYTES ((size_t)SEALED_PAGES * STORE_PAGE)

/* --- Opening and closing ---------------------------------------------------------------------------------------- */

int far_sealed_open(struct far_queue *queue)
{
	struct far_sealed *sealed = &queue->sealed;
	int error = integrity_sealer(&queue->far->integrity, &sealed->seal);

	if (error == 0)
		error = far_buffer_open(queue->far, BUFFER_BYTES, &sealed->memory, &sealed->region);
	if (error < 0)
		return error;
	memset(sealed->idle, 0xff, sizeof sealed->idle);
	return 0;
}

void far_sealed_direct(struct far_queue *queue)
{
	struct far_sealed *sealed = &queue->sealed;

	if (!sealed->memory)
		return;
	far_buffer_close(sealed->memory, BUFFER_BYTES, sealed->region);
	sealed->memory = NULL;
}

void far_sealed_close(struct far_queue *queue)
{
	far_sealed_direct(queue);
	seal_close(queue->sealed.seal);
	queue->sealed = (struct far_sealed){0};
}

uint64_t far_sealed_memory(const struct far_queue *queue)
{
	return (queue->sealed.seal ? seal_memory() : 0) + (queue->sealed.memory ? BUFFER_BYTES : 0);
}

/* --- The buffer ------------------------------------------------------------------------------------------------- */

/* Returns a bit for each position in @idle where a run of @count free pages begins. */
static uint64_t runs_in(uint64_t idle, uint32_t count)
{
	while (--count && idle)
		idle &= idle >> 1;
	return idle;
}

static uint64_t run_bits(uint32_t first, uint32_t count)
{
	return (UINT64_MAX >> (64 - count)) << first % 64;
}

/* Returns the first page of a run of @count free pages, or -1 if there is none. */
static int run_find(const struct far_sealed *sealed, uint32_t count)
{
	for (unsigned i = 0; i < SEALED_PAGES / 64; i++) {
		uint64_t runs = runs_in(sealed->idle[i], count);

		if (runs)
			return (int)(i * 64) + __builtin_ctzll(runs);
	}
	return -1;
}

uint32_t far_sealed_room(const struct far_queue *queue, uint32_t count)
{
	if (!queue->sealed.memory)
		return count;
	if (count > SEALED_RUN)
		count = SEALED_RUN;
	while (count && run_find(&queue->sealed, count) < 0)
		count /= 2;
	return count;
}

static void pages_seal(struct far_queue *queue, struct far_piece *piece)
{
	struct far_sealed *sealed = &queue->sealed;
	int first = run_find(sealed, piece->count);

	assert(first >= 0);
	sealed->idle[first / 64] &= ~run_bits((uint32_t)first, piece->count);
	piece->sealed = sealed->memory + (size_t)first * STORE_PAGE;
	for (uint32_t i = 0; i < piece->count; i++)
		integrity_seal(&queue->far->integrity, sealed->seal, piece->page + i,
			       piece->data + (size_t)i * STORE_PAGE, piece->sealed + (size_t)i * STORE_PAGE);
}

void far_sealed_prepare(struct far_queue *queue, uint16_t index)
{
	struct far_piece *piece = &queue->pieces[index];

	if (queue->sealed.seal) {
		pages_seal(queue, piece);
		return;
	}
	for (uint32_t i = 0; i < piece->count; i++)
		integrity_prepare(&queue->far->integrity, piece->page + i, piece->data + (size_t)i * STORE_PAGE);
}

void far_sealed_end(struct far_queue *queue, uint16_t index)
{
	struct far_piece *piece = &queue->pieces[index];
	uint32_t first;

	assert(piece->sealed && !piece->left.count);
	first = (uint32_t)((size_t)(piece->sealed - queue->sealed.memory) / STORE_PAGE);
	assert(!(queue->sealed.idle[first / 64] & run_bits(first, piece->count)));
	queue->sealed.idle[first / 64] |= run_bits(first, piece->count);
	piece->sealed = NULL;
}

/* --- Received pages -------------------------------------------------------------------------------------------- */

bool far_sealed_verify(struct far_queue *queue, const struct far_piece *piece, uint32_t nth, const uint8_t *data)
{
	const struct integrity *integrity = &queue->far->integrity;
	uint8_t *out = queue->direct ? NULL : piece->data + (size_t)nth * STORE_PAGE;

	if (!queue->sealed.seal)
		return integrity_check(integrity, piece->page + nth, data);
	return integrity_unseal(integrity, queue->sealed.seal, piece->page + nth, data, out);
}

/* --- store_same(): each call uses one of a few sealers --------------------------------------------------------- */

int far_sealers_open(struct far *far)
{
	int error = 0;

	for (unsigned i = 0; i < FAR_SEALERS && error == 0; i++) {
		struct seal *seal;

		error = integrity_sealer(&far->integrity, &seal);
		if (error == 0)
			atomic_store(&far->sealers[i], seal);
	}
	return error;
}

void far_sealers_close(struct far *far)
{
	for (unsigned i = 0; i < FAR_SEALERS; i++)
		seal_close(atomic_exchange(&far->sealers[i], NULL));
}

bool far_sealed_same(struct far *far, uint64_t page, const void *data)
{
	struct seal *seal = NULL;
	unsigned i = 0;
	bool same;

	/* If all sealers are in use, tries again soon: each use takes about a microsecond. */
	while (!(seal = atomic_exchange_explicit(&far->sealers[i], NULL, memory_order_acquire))) {
		i = (i + 1) % FAR_SEALERS;
		if (!i)
			sched_yield();
	}
	same = integrity_same_sealed(&far->integrity, seal, page, data);
	atomic_store_explicit(&far->sealers[i], seal, memory_order_release);
	return same;
}
