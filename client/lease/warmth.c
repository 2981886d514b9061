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

int warmth_open(struct warmth *warmth, uint64_t chunks, unsigned donors, uint64_t now)
{
	*warmth = (struct warmth){.count = chunks, .next = chunks, .looked = now, .donors = donors};
	warmth->chunks = calloc(chunks, sizeof *warmth->chunks);
	warmth->messages = calloc(donors, sizeof *warmth->messages);
	if (!warmth->chunks || !warmth->messages)
		return -ENOMEM;
	/* calloc() may have reserved only addresses, and later use must not fault. */
	memset(warmth->messages, 0, donors * sizeof *warmth->messages);
	return 0;
}

void warmth_close(struct warmth *warmth)
{
	free(warmth->chunks);
	free(warmth->messages);
}

uint64_t warmth_memory(const struct warmth *warmth)
{
	return warmth->count * sizeof *warmth->chunks + warmth->donors * sizeof *warmth->messages;
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

/* Adds the chunk to the messages for its donors, if it must be reported. Returns false if one of these messages is
   full. The next call of warmth_tell() then begins with this chunk. */
static bool chunk_tell(struct warmth *warmth, const struct chunk_table *table, uint64_t index,
		       const struct donor_set *donors, struct donor_set *used)
{
	struct warmth_chunk *chunk = &warmth->chunks[index];
	struct chunk_slot slots[FAR_SLOTS_MAX];

	if (chunk_state(table, index) != CHUNK_READY)
		return true;
	if (chunk->told == bits(chunk->rate) && chunk->version == chunk_version(table, index))
		return true;
	chunk_slots(table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (slots[i].state != SLOT_EMPTY && !donor_set_has(donors, slots[i].donor))
			return true;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (slots[i].state != SLOT_EMPTY && donor_set_has(used, slots[i].donor) &&
		    told_count(&warmth->messages[slots[i].donor]) == WIRE_WARM_SLABS)
			return false;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		struct wire_message *message;
		unsigned at;

		if (slots[i].state == SLOT_EMPTY)
			continue;
		message = &warmth->messages[slots[i].donor];
		if (!donor_set_has(used, slots[i].donor))
			*message = (struct wire_message){.type = WIRE_WARM};
		donor_set_add(used, slots[i].donor);
		at = told_count(message);
		message->warm.of[at].slab = slots[i].slab;
		message->warm.of[at].warmth = chunk->rate;
	}
	chunk->told = bits(chunk->rate);
	chunk->version = chunk_version(table, index);
	return true;
}

void warmth_tell(struct warmth *warmth, const struct chunk_table *table, const struct donor_set *donors, uint64_t now,
		 struct donor_set *ret_told)
{
	*ret_told = (struct donor_set){0};
	if (warmth->next >= warmth->count || now - warmth->told < TELL_NS)
		return;
	while (warmth->next < warmth->count && chunk_tell(warmth, table, warmth->next, donors, ret_told))
		warmth->next++;
	if (!donor_set_is_empty(ret_told))
		warmth->told = now;
}
