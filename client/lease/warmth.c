/* warmth: see warmth.h. */
#include "client/lease/warmth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS UINT64_C(2000000000)
/* The pause between two messages to a donor. A connection queues only a limited number of messages. */
#define TELL_NS UINT64_C(100000000)
#define NS_PER_S UINT64_C(1000000000)
/* The latest rate counts 1 / NEW_SHARE in the average. */
#define NEW_SHARE 4u

_Static_assert(FAR_DONORS_MAX <= 64, "a bit for each donor");

int warmth_open(struct warmth *warmth, uint64_t chunks, uint64_t now)
{
	/* Writes to all of *warmth, because the caller's calloc() may have reserved only addresses, and later use
	   must not fault. */
	memset(warmth, 0, sizeof *warmth);
	warmth->chunks = calloc(chunks, sizeof *warmth->chunks);
	warmth->count = warmth->next = chunks;
	warmth->looked = now;
	return warmth->chunks ? 0 : -ENOMEM;
}

void warmth_close(struct warmth *warmth)
{
	free(warmth->chunks);
}

uint64_t warmth_memory(const struct warmth *warmth)
{
	return warmth->count * sizeof *warmth->chunks;
}

/* Two rates with the same number of bits differ by less than a factor of two. */
static uint8_t bits(uint32_t rate)
{
	return rate ? (uint8_t)(32 - __builtin_clz(rate)) : 0;
}

void warmth_look(struct warmth *warmth, uint64_t now)
{
	uint64_t passed = now - warmth->looked;

	if (passed < LOOK_NS)
		return;
	for (uint64_t i = 0; i < warmth->count; i++) {
		struct warmth_chunk *chunk = &warmth->chunks[i];
		uint64_t rate = 0;

		/* Most chunks are not used. They are skipped, so that their cache lines are not written. */
		if (atomic_load_explicit(&chunk->moved, memory_order_relaxed))
			rate = atomic_exchange_explicit(&chunk->moved, 0, memory_order_relaxed) * NS_PER_S / passed;
		else if (!chunk->rate)
			continue;
		chunk->rate = (uint32_t)((chunk->rate * (NEW_SHARE - 1) + rate) / NEW_SHARE);
	}
	warmth->looked = now;
	warmth->next = 0;
}

static unsigned told_count(const struct wire_message *message)
{
	unsigned count = 0;

	while (count < WIRE_WARM_SLABS && message->warm.of[count].slab)
		count++;
	return count;
}

/* Adds the chunk to the messages for its donors, if it must be reported. Returns false if one of these messages is full.
   The next call of warmth_tell() then begins with this chunk. */
static bool chunk_tell(struct warmth *warmth, const struct chunk_table *table, uint64_t index, uint64_t donors,
		       uint64_t *used)
{
	struct warmth_chunk *chunk = &warmth->chunks[index];
	struct chunk_slot slots[FAR_SLOTS_MAX];
	uint64_t here = 0;

	if (chunk_state(table, index) != CHUNK_READY)
		return true;
	if (chunk->told == bits(chunk->rate) && chunk->version == chunk_version(table, index))
		return true;
	chunk_slots(table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		here |= slots[i].state == SLOT_EMPTY ? 0 : UINT64_C(1) << slots[i].donor;
	if (here & ~donors)
		return true;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (slots[i].state != SLOT_EMPTY && (*used >> slots[i].donor & 1) &&
		    told_count(&warmth->messages[slots[i].donor]) == WIRE_WARM_SLABS)
			return false;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		struct wire_message *message;
		unsigned at;

		if (slots[i].state == SLOT_EMPTY)
			continue;
		message = &warmth->messages[slots[i].donor];
		if (!(*used >> slots[i].donor & 1))
			*message = (struct wire_message){.type = WIRE_WARM};
		*used |= UINT64_C(1) << slots[i].donor;
		at = told_count(message);
		message->warm.of[at].slab = slots[i].slab;
		message->warm.of[at].warmth = chunk->rate;
	}
	chunk->told = bits(chunk->rate);
	chunk->version = chunk_version(table, index);
	return true;
}

uint64_t warmth_tell(struct warmth *warmth, const struct chunk_table *table, uint64_t donors, uint64_t now)
{
	uint64_t used = 0;

	if (warmth->next >= warmth->count || now - warmth->told < TELL_NS)
		return 0;
	while (warmth->next < warmth->count && chunk_tell(warmth, table, warmth->next, donors, &used))
		warmth->next++;
	if (used)
		warmth->told = now;
	return used;
}
