/* world: see world.h. */
#include "tests/sim/world.h"

#include "common/random.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)1 << 20)

struct entry {
	uint64_t at, number;
	void (*call)(void *, uint64_t);
	void *what;
	uint64_t token;
};

struct arena {
	struct arena *next;
	size_t size, used;
	_Alignas(64) uint8_t bytes[];
};

static struct {
	uint64_t now, number;
	struct random_state random;
	struct entry *entries; /* a heap, the earliest entry first */
	size_t count, room;
	struct arena *arenas, *spares; /* `spares` are for the next history */
	enum world_telling telling;
	uint64_t hash;
	char wrong[256];
} world;

/* --- Life ----------------------------------------------------------------------------------------------------- */

void world_open(uint64_t seed, enum world_telling telling)
{
	world_close();
	world.now = SECOND;
	world.number = 0;
	world.telling = telling;
	world.hash = UINT64_C(0xcbf29ce484222325);
	world.wrong[0] = '\0';
	random_seed(&world.random, seed);
}

void world_close(void)
{
	world.count = 0;
	while (world.arenas) {
		struct arena *arena = world.arenas;

		world.arenas = arena->next;
		if (arena->size > ARENA_BYTES) {
			free(arena);
			continue;
		}
		arena->next = world.spares;
		world.spares = arena;
	}
}

void *world_memory(size_t size)
{
	struct arena *arena = world.arenas;
	void *memory;

	size = (size + 63) / 64 * 64;
	if (!arena || arena->size - arena->used < size) {
		size_t room = size > ARENA_BYTES ? size : ARENA_BYTES;

		arena = room == ARENA_BYTES ? world.spares : NULL;
		if (arena)
			world.spares = arena->next;
		else
			arena = aligned_alloc(64, sizeof *arena + room);
		if (!arena)
			abort();
		arena->size = room;
		arena->used = 0;
		arena->next = world.arenas;
		world.arenas = arena;
	}
	memory = arena->bytes + arena->used;
	arena->used += size;
	return memset(memory, 0, size);
}

/* --- The calendar --------------------------------------------------------------------------------------------- */

uint64_t world_now(void)
{
	return world.now;
}

static bool entry_is_before(const struct entry *a, const struct entry *b)
{
	return a->at != b->at ? a->at < b->at : a->number < b->number;
}

void world_at(uint64_t at, void (*call)(void *, uint64_t), void *what, uint64_t token)
{
	struct entry entry = {.at = at > world.now ? at : world.now,
			      .number = ++world.number,
			      .call = call,
			      .what = what,
			      .token = token};
	size_t i = world.count++;

	if (world.count > world.room) {
		world.room = world.room ? 2 * world.room : 1024;
		world.entries = realloc(world.entries, world.room * sizeof *world.entries);
		if (!world.entries)
			abort();
	}
	for (; i && entry_is_before(&entry, &world.entries[(i - 1) / 2]); i = (i - 1) / 2)
		world.entries[i] = world.entries[(i - 1) / 2];
	world.entries[i] = entry;
}

static struct entry calendar_take(void)
{
	struct entry first = world.entries[0], last = world.entries[--world.count];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < world.count; i = child) {
		if (child + 1 < world.count && entry_is_before(&world.entries[child + 1], &world.entries[child]))
			child++;
		if (!entry_is_before(&world.entries[child], &last))
			break;
		world.entries[i] = world.entries[child];
	}
	world.entries[i] = last;
	return first;
}

bool world_step(uint64_t until)
{
	struct entry entry;

	if (world.wrong[0])
		return false;
	if (!world.count || world.entries[0].at > until) {
		world.now = until > world.now ? until : world.now;
		return false;
	}
	entry = calendar_take();
	world.now = entry.at;
	entry.call(entry.what, entry.token);
	return !world.wrong[0];
}

/* --- Chance --------------------------------------------------------------------------------------------------- */

uint64_t world_below(uint64_t below)
{
	return below > 1 ? random_below(&world.random, below) : 0;
}

bool world_chance(uint64_t one_in)
{
	return one_in && random_below(&world.random, one_in) == 0;
}

void world_bytes(void *bytes, size_t size)
{
	uint8_t *to = bytes;

	for (size_t i = 0; i < size; i += 8) {
		uint64_t word = random_next(&world.random);

		memcpy(to + i, &word, size - i < 8 ? size - i : 8);
	}
}

/* --- Telling -------------------------------------------------------------------------------------------------- */

void world_tell(const char *format, ...)
{
	uint64_t hash = (world.hash ^ world.now) * UINT64_C(0x100000001b3);
	char line[512];
	va_list arguments;
	int size;

	if (world.telling == WORLD_SILENT)
		return;
	va_start(arguments, format);
	size = vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	for (int i = 0; i < size && line[i]; i++)
		hash = (hash ^ (uint8_t)line[i]) * UINT64_C(0x100000001b3);
	world.hash = hash;
	if (world.telling == WORLD_WATCHED)
		printf("%4llu.%06llu %s\n", (unsigned long long)(world.now / SECOND),
		       (unsigned long long)(world.now % SECOND / US), line);
}

uint64_t world_hash(void)
{
	return world.hash;
}

void world_fail(const char *format, ...)
{
	va_list arguments;

	if (world.wrong[0])
		return;
	va_start(arguments, format);
	vsnprintf(world.wrong, sizeof world.wrong, format, arguments);
	va_end(arguments);
	world_tell("WRONG: %s", world.wrong);
}

const char *world_wrong(void)
{
	return world.wrong[0] ? world.wrong : NULL;
}
