/*
 * disk_load: random requests of all kinds, with many in progress that overlap. A judge checks what the reads find.
 *
 * Theory of operation. The load judges its region in units of a sector or a page. Every write fills its units with a
 * number unique to the write. Every zeroing fills them with 0. For each unit the load remembers the last requests that
 * changed the unit, and when each was submitted and done. These requests are called changes.
 *
 * A read may find the value of any change that was submitted before the read was done, unless a later change replaced
 * the value. A later change replaces a value if all of this holds:
 *  - The later change succeeded.
 *  - The later change was submitted after the earlier one was done.
 *  - The later change was done before the read was submitted.
 *
 * A unit is torn if its words differ. A failed request may or may not have changed its units.
 */
#ifndef DISK_LOAD_H
#define DISK_LOAD_H
#include "tests/unit/blockdev/disk_over.h"

#include <errno.h>

#define LOAD_DEPTH 48u
#define LOAD_REMEMBERED 128u /* changes remembered per unit */
#define LOAD_NEVER UINT64_MAX

struct load_change {
	uint64_t value, submitted, done; /* times of the load's clock; LOAD_NEVER if not done yet */
	bool good;
};

struct load_slot {
	struct disk_request request;
	uint64_t submitted;
	uint32_t change; /* index of the change, or 0 if the request changes nothing */
	bool busy;
	uint8_t *data;
};

struct disk_load {
	/* Set by the test. */
	struct disk_queue *queue;
	uint64_t start, bytes;   /* the region; multiples of @unit */
	uint32_t unit;           /* bytes; requests are multiples of this */
	uint32_t longest;        /* length of the longest request, in units */
	uint32_t requests, seed; /* number of requests, and seed of the random numbers */
	uint32_t depth;          /* 1 .. LOAD_DEPTH */
	bool naps;               /* sleeps when there is nothing to poll */
	uint32_t sharers;        /* loads with seeds 1 .. sharers share this region; 0 if the region is not shared */
	/* Results. */
	unsigned wrong, torn, failed, /* reads of a wrong value; reads of a torn unit; failed requests */
	    strange;                  /* requests with a status that is not allowed */
	unsigned done, slept;
	/* Private. */
	struct random_state random;
	struct store *store;
	struct store_buffer *key;
	uint8_t *data;
	struct load_slot slots[LOAD_DEPTH];
	struct load_change *changes;
	uint32_t change_count;
	uint32_t (*units)[LOAD_REMEMBERED];
	uint32_t *unit_counts;
	uint64_t clock;
};

/* Allocates and registers the load's memory. The test has set the first fields of @load. */
__attribute__((unused)) static void load_prepare(struct disk_load *load, struct store *store)
{
	size_t longest = (size_t)load->longest * load->unit, units = load->bytes / load->unit;

	random_seed(&load->random, load->seed);
	load->store = store;
	load->data = aligned_alloc(STORE_PAGE, (LOAD_DEPTH * longest + STORE_PAGE) / STORE_PAGE * STORE_PAGE);
	store_register(store, load->data, LOAD_DEPTH * longest, &load->key);
	for (unsigned i = 0; i < LOAD_DEPTH; i++)
		load->slots[i].data = load->data + i * longest;
	load->changes = calloc(load->requests + 1, sizeof *load->changes);
	load->changes[0].good = true; /* change 0: every unit is zero from the beginning */
	load->units = calloc(units, sizeof *load->units);
	load->unit_counts = calloc(units, sizeof *load->unit_counts);
	for (size_t i = 0; i < units; i++)
		load->unit_counts[i] = 1;
	load->clock = 1;
}

__attribute__((unused)) static void load_finish(struct disk_load *load)
{
	store_deregister(load->store, load->key);
	free(load->data);
	free(load->changes);
	free(load->units);
	free(load->unit_counts);
}

/* --- The judge ------------------------------------------------------------------------------------------------- */

static void load_remember(struct disk_load *load, uint64_t offset, uint64_t length, uint32_t change)
{
	for (uint64_t unit = (offset - load->start) / load->unit; length; unit++, length -= load->unit)
		load->units[unit][load->unit_counts[unit]++ % LOAD_REMEMBERED] = change;
}

static bool load_change_stands(const struct disk_load *load, uint64_t unit, const struct load_change *change,
			       uint64_t since)
{
	uint32_t count = load->unit_counts[unit] < LOAD_REMEMBERED ? load->unit_counts[unit] : LOAD_REMEMBERED;

	for (uint32_t i = 0; i < count; i++) {
		const struct load_change *later = &load->changes[load->units[unit][i]];

		if (later->good && later->submitted > change->done && later->done < since)
			return false;
	}
	return true;
}

/* Returns true if a read that was submitted at @since may find @value. */
static bool load_value_is_right(const struct disk_load *load, uint64_t unit, uint64_t value, uint64_t since)
{
	uint32_t count = load->unit_counts[unit] < LOAD_REMEMBERED ? load->unit_counts[unit] : LOAD_REMEMBERED;

	if (load->sharers)
		return !value || (value >> 32 <= load->sharers && value >> 32 && (uint32_t)value <= load->requests);
	for (uint32_t i = 0; i < count; i++) {
		const struct load_change *change = &load->changes[load->units[unit][i]];

		if (change->value == value && load_change_stands(load, unit, change, since))
			return true;
	}
	return false;
}

/* Returns a mark unique to the unit. Values are xored with it, so the contents of two units never match. */
static uint64_t load_mark(const struct disk_load *load, uint64_t unit)
{
	return (load->start / load->unit + unit + 1) << 40;
}

static void load_judge(struct disk_load *load, const struct load_slot *slot)
{
	uint64_t unit = (slot->request.offset - load->start) / load->unit;
	uint64_t units = slot->request.length / load->unit;
	bool torn = false, wrong = false;

	for (uint64_t i = 0; i < units; i++) {
		const uint64_t *words = (const uint64_t *)(const void *)(slot->data + i * load->unit);

		for (uint32_t word = 1; word < load->unit / sizeof *words; word++)
			torn |= words[word] != words[0];
		wrong |= !load_value_is_right(load, unit + i, words[0] ? words[0] ^ load_mark(load, unit + i) : 0,
					      slot->submitted);
	}
	load->torn += torn;
	load->wrong += wrong;
}

/* --- The load -------------------------------------------------------------------------------------------------- */

static enum disk_op load_op(struct random_state *random)
{
	static const enum disk_op ops[] = {DISK_READ,  DISK_READ,  DISK_READ, DISK_READ,    DISK_WRITE,
					   DISK_WRITE, DISK_WRITE, DISK_ZERO, DISK_DISCARD, DISK_FLUSH};

	return ops[random_below(random, sizeof ops / sizeof *ops)];
}

static void load_fill(struct disk_load *load, struct load_slot *slot, uint64_t value)
{
	uint64_t unit = (slot->request.offset - load->start) / load->unit;

	for (uint64_t i = 0; i < slot->request.length / load->unit; i++) {
		uint64_t *words = (uint64_t *)(void *)(slot->data + i * load->unit);

		for (uint32_t word = 0; word < load->unit / sizeof *words; word++)
			words[word] = value ^ load_mark(load, unit + i);
	}
}

static void load_change_begin(struct disk_load *load, struct load_slot *slot)
{
	const struct disk_request *request = &slot->request;
	uint64_t first = request->offset, end = first + request->length;
	uint64_t value = request->op == DISK_WRITE ? (uint64_t)load->seed << 32 | (load->change_count + 1) : 0;

	if (request->op == DISK_WRITE)
		load_fill(load, slot, value);
	if (request->op == DISK_DISCARD) {
		first = (first + STORE_PAGE - 1) / STORE_PAGE * STORE_PAGE;
		end = end / STORE_PAGE * STORE_PAGE;
	}
	slot->change = 0;
	if (first >= end || request->op == DISK_READ || request->op == DISK_FLUSH)
		return;
	slot->change = ++load->change_count;
	load->changes[slot->change] =
	    (struct load_change){.value = value, .submitted = load->clock, .done = LOAD_NEVER};
	load_remember(load, first, end - first, slot->change);
}

static void load_submit(struct disk_load *load, struct load_slot *slot)
{
	uint64_t units = load->bytes / load->unit;
	uint64_t length = 1 + random_below(&load->random, load->longest < units ? load->longest : units);
	uint64_t first = random_below(&load->random, units - length + 1);

	slot->busy = true;
	slot->submitted = ++load->clock;
	slot->request = (struct disk_request){
	    .op = load_op(&load->random),
	    .offset = load->start + first * load->unit,
	    .length = length * load->unit,
	    .data = slot->data,
	    .buffer = load->key,
	    .status = 1,
	};
	load_change_begin(load, slot);
	disk_submit(load->queue, &slot->request);
}

static void load_done(struct disk_load *load, struct disk_request *request)
{
	struct load_slot *slot = (struct load_slot *)request;

	load->clock++;
	load->done++;
	load->failed += request->status != 0;
	load->strange += !slot->busy || (request->status && request->status != -EIO && request->status != -EBADMSG);
	slot->busy = false;
	if (slot->change) {
		load->changes[slot->change].done = load->clock;
		load->changes[slot->change].good = request->status == 0;
	} else if (request->op == DISK_READ && request->status == 0) {
		load_judge(load, slot);
	}
	/* The request belongs to the front end again, which may overwrite it. */
	memset(slot->data, 0xdd, request->length);
	memset(request, 0xdd, sizeof *request);
}

static void load_poll(struct disk_load *load)
{
	struct disk_request *done[LOAD_DEPTH];
	unsigned count = disk_poll(load->queue, done, 1 + (unsigned)random_below(&load->random, LOAD_DEPTH));

	for (unsigned i = 0; i < count; i++)
		load_done(load, done[i]);
	if (count || !load->naps || !disk_queue_busy(load->queue))
		return;
	load->slept += disk_over_sleep(load->queue);
}

/* Submits all requests and waits for them. The calling thread must have opened the queue. */
__attribute__((unused)) static void load_run(struct disk_load *load)
{
	uint32_t submitted = 0;

	while (load->done < load->requests) {
		for (unsigned i = 0; i < load->depth && submitted < load->requests; i++) {
			if (load->slots[i].busy || !random_below(&load->random, 3))
				continue;
			load_submit(load, &load->slots[i]);
			submitted++;
		}
		load_poll(load);
	}
}
#endif
