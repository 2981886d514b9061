#include "client/chunks.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

/* The word: count in bits 0-31, state in 32-33, epoch in 34-63. */
#define WORD_STATE_SHIFT 32
#define WORD_EPOCH_SHIFT 34
#define WORD_EPOCH_ONE (UINT64_C(1) << WORD_EPOCH_SHIFT)
#define WORD_COUNT_MASK UINT64_C(0xffffffff)

static const char *const state_names[] = {
    [CHUNK_NONE] = "none",
    [CHUNK_WANTED] = "wanted",
    [CHUNK_READY] = "ready",
    [CHUNK_LOSING] = "losing",
};
_Static_assert(sizeof state_names / sizeof *state_names == CHUNK_LOSING + 1, "every state has a name");

const char *chunk_state_name(enum chunk_state state)
{
	return state <= CHUNK_LOSING ? state_names[state] : "?";
}

static enum chunk_state word_state(uint64_t word)
{
	return (enum chunk_state)(word >> WORD_STATE_SHIFT & 3);
}

static uint32_t word_epoch(uint64_t word)
{
	return (uint32_t)(word >> WORD_EPOCH_SHIFT);
}

/* The word after a move: a new epoch, nobody counted. */
static uint64_t word_moved(uint64_t word, enum chunk_state state)
{
	uint64_t epoch = (word & ~(WORD_EPOCH_ONE - 1)) + WORD_EPOCH_ONE;

	/* Epoch 0 says "never had a slab"; do not come back to it. */
	if (!epoch)
		epoch = WORD_EPOCH_ONE;
	return epoch | (uint64_t)state << WORD_STATE_SHIFT;
}

static void *table_map(uint64_t length)
{
	void *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return base == MAP_FAILED ? NULL : base;
}

uint64_t chunk_table_count(uint64_t pages, uint64_t chunk_pages)
{
	return (pages - 1) / chunk_pages + 1;
}

uint64_t chunk_table_attention_bytes(uint64_t count)
{
	return (count + 63) / 64 * sizeof(uint64_t);
}

int chunk_table_place(struct chunk_table *table, uint64_t pages, uint64_t chunk_pages, unsigned replicas,
		      struct chunk *chunks, _Atomic uint64_t *attention)
{
	assert(pages && chunk_pages && replicas >= 1 && replicas <= FAR_REPLICAS_MAX);
	*table = (struct chunk_table){
	    .chunks = chunks, .pages = chunk_pages, .replicas = replicas, .attention = attention, .placed = true};
	table->count = chunk_table_count(pages, chunk_pages);
	return table->count >= UINT32_MAX / FAR_REPLICAS_MAX || chunk_pages > UINT32_MAX / 2 ? -EINVAL : 0;
}

int chunk_table_open(struct chunk_table *table, uint64_t pages, uint64_t chunk_pages, unsigned replicas)
{
	int error = chunk_table_place(table, pages, chunk_pages, replicas, NULL, NULL);

	if (error < 0)
		return error;
	table->placed = false;
	table->chunks = table_map(table->count * sizeof *table->chunks);
	table->attention = table_map(chunk_table_attention_bytes(table->count));
	if (!table->chunks || !table->attention) {
		chunk_table_close(table);
		return -ENOMEM;
	}
	return 0;
}

void chunk_table_close(struct chunk_table *table)
{
	if (table->chunks && !table->placed)
		munmap(table->chunks, table->count * sizeof *table->chunks);
	if (table->attention && !table->placed)
		munmap((void *)table->attention, chunk_table_attention_bytes(table->count));
	*table = (struct chunk_table){0};
}

enum chunk_state chunk_state(const struct chunk_table *table, uint64_t index)
{
	return word_state(atomic_load_explicit(&table->chunks[index].word, memory_order_acquire));
}

uint32_t chunk_pages_held(const struct chunk_table *table, uint64_t index)
{
	return (uint32_t)atomic_load_explicit(&table->chunks[index].word, memory_order_relaxed);
}

bool chunk_is_untouched(const struct chunk_table *table, uint64_t index)
{
	return !word_epoch(atomic_load_explicit(&table->chunks[index].word, memory_order_acquire));
}

static void slots_load(const struct chunk_table *table, const struct chunk *chunk, struct chunk_slot slots[])
{
	for (unsigned i = 0; i < table->replicas; i++) {
		uint64_t key = atomic_load_explicit(&chunk->keys[i], memory_order_acquire);

		slots[i].address = atomic_load_explicit(&chunk->addresses[i], memory_order_acquire);
		slots[i].rkey = (uint32_t)key;
		slots[i].donor = (uint32_t)(key >> 32);
	}
}

bool chunk_view(const struct chunk_table *table, uint64_t index, struct chunk_view *ret_view)
{
	const struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load_explicit(&chunk->word, memory_order_acquire);

	while (word_state(word) == CHUNK_READY) {
		uint64_t again;

		slots_load(table, chunk, ret_view->slots);
		again = atomic_load_explicit(&chunk->word, memory_order_acquire);
		if (word_epoch(again) == word_epoch(word)) {
			ret_view->epoch = word_epoch(word);
			return true;
		}
		word = again;
	}
	return false;
}

/* Returns whether the bit was clear. */
static bool attention_set(struct chunk_table *table, uint64_t index)
{
	uint64_t bit = UINT64_C(1) << (index % 64);

	return !(atomic_fetch_or(&table->attention[index / 64], bit) & bit);
}

enum chunk_hold chunk_hold(struct chunk_table *table, uint64_t index, uint32_t pages, struct chunk_view *ret_view)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load_explicit(&chunk->word, memory_order_acquire);

	for (;;) {
		switch (word_state(word)) {
		case CHUNK_READY:
			if (!atomic_compare_exchange_weak(&chunk->word, &word, word + pages))
				continue;
			slots_load(table, chunk, ret_view->slots);
			ret_view->epoch = word_epoch(word);
			word = atomic_load_explicit(&chunk->word, memory_order_acquire);
			if (word_epoch(word) == ret_view->epoch)
				return CHUNK_HELD;
			continue; /* lost in between, and with it what was just counted */
		case CHUNK_NONE:
			if (!atomic_compare_exchange_weak(&chunk->word, &word,
							  word | (uint64_t)CHUNK_WANTED << WORD_STATE_SHIFT))
				continue;
			atomic_store(&chunk->ahead, false);
			attention_set(table, index);
			return CHUNK_ASKED;
		case CHUNK_WANTED:
			atomic_store_explicit(&chunk->ahead, false, memory_order_relaxed);
			return CHUNK_WAIT;
		case CHUNK_LOSING:
			return CHUNK_WAIT;
		}
	}
}

bool chunk_look_ahead(struct chunk_table *table, uint64_t index)
{
	struct chunk *chunk = &table->chunks[index], *successor = chunk + 1;
	uint64_t word = atomic_load_explicit(&chunk->word, memory_order_relaxed);

	if ((word & WORD_COUNT_MASK) < table->pages / 2 ||
	    atomic_load_explicit(&chunk->asked_ahead, memory_order_relaxed))
		return false;
	if (atomic_exchange(&chunk->asked_ahead, true) || index + 1 == table->count)
		return false;
	word = atomic_load_explicit(&successor->word, memory_order_acquire);
	if (word_state(word) != CHUNK_NONE)
		return false;
	atomic_store(&successor->ahead, true);
	if (!atomic_compare_exchange_strong(&successor->word, &word, word | (uint64_t)CHUNK_WANTED << WORD_STATE_SHIFT))
		return false;
	attention_set(table, index + 1);
	return true;
}

bool chunk_drop(struct chunk_table *table, uint64_t index, uint32_t epoch, uint32_t pages)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load_explicit(&chunk->word, memory_order_acquire);

	do {
		if (word_epoch(word) != epoch)
			return false;
		assert((word & WORD_COUNT_MASK) >= pages);
	} while (!atomic_compare_exchange_weak(&chunk->word, &word, word - pages));
	return pages && (word & WORD_COUNT_MASK) == pages && attention_set(table, index);
}

bool chunk_epoch(const struct chunk_table *table, uint64_t index, uint32_t *ret_epoch)
{
	uint64_t word = atomic_load_explicit(&table->chunks[index].word, memory_order_acquire);

	if (word_state(word) != CHUNK_READY)
		return false;
	*ret_epoch = word_epoch(word);
	return true;
}

bool chunk_is_current(const struct chunk_table *table, uint64_t index, uint32_t epoch)
{
	uint32_t now;

	atomic_thread_fence(memory_order_seq_cst);
	return chunk_epoch(table, index, &now) && now == epoch;
}

void chunk_attention_set(struct chunk_table *table, uint64_t index)
{
	attention_set(table, index);
}

void chunk_attention_clear(struct chunk_table *table, uint64_t index)
{
	atomic_fetch_and(&table->attention[index / 64], ~(UINT64_C(1) << (index % 64)));
}

void chunk_publish(struct chunk_table *table, uint64_t index, const struct chunk_slot slots[])
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	assert(word_state(word) == CHUNK_WANTED);
	for (unsigned i = 0; i < table->replicas; i++) {
		/* Released, so that whoever sees one of these also sees that the old epoch has ended. */
		atomic_store_explicit(&chunk->addresses[i], slots[i].address, memory_order_release);
		atomic_store_explicit(&chunk->keys[i], (uint64_t)slots[i].donor << 32 | slots[i].rkey,
				      memory_order_release);
		chunk->slabs[i] = slots[i].slab;
	}
	atomic_store(&chunk->asked_ahead, false);
	/* Last: whoever finds the chunk READY, be it another process, finds the slots and slabs above. */
	atomic_store(&chunk->word, word_moved(word, CHUNK_READY));
}

void chunk_deny(struct chunk_table *table, uint64_t index, int status)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	assert(word_state(word) == CHUNK_WANTED);
	atomic_store(&chunk->denial, (int16_t)status);
	/* The epoch stays: no slab came or went. Counted before the word moves, so that who asks anew counts anew. */
	atomic_fetch_add(&chunk->denials, 1);
	atomic_store(&chunk->word, word & ~(UINT64_C(3) << WORD_STATE_SHIFT));
}

bool chunk_take_idle(struct chunk_table *table, uint64_t index, struct chunk_slot ret_slots[])
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	if (word_state(word) != CHUNK_READY || word & WORD_COUNT_MASK)
		return false;
	/* Only this thread writes slots, so they may be read before as well as after. */
	chunk_slots(table, index, ret_slots);
	return atomic_compare_exchange_strong(&chunk->word, &word, word_moved(word, CHUNK_NONE));
}

void chunk_lose(struct chunk_table *table, uint64_t index)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	do {
		assert(word_state(word) == CHUNK_READY);
	} while (!atomic_compare_exchange_weak(&chunk->word, &word, word_moved(word, CHUNK_LOSING)));
	atomic_thread_fence(memory_order_seq_cst); /* the other half of chunk_is_current() */
}

void chunk_lost(struct chunk_table *table, uint64_t index)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	assert(word_state(word) == CHUNK_LOSING);
	atomic_store(&chunk->word, word_moved(word, CHUNK_NONE));
}

void chunk_readdress(struct chunk_table *table, uint64_t index, unsigned replica, uint64_t address, uint32_t rkey)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t donor = atomic_load_explicit(&chunk->keys[replica], memory_order_relaxed) >> 32;

	assert(chunk_state(table, index) == CHUNK_READY);
	atomic_store_explicit(&chunk->addresses[replica], address, memory_order_release);
	atomic_store_explicit(&chunk->keys[replica], donor << 32 | rkey, memory_order_release);
}

void chunk_slots(const struct chunk_table *table, uint64_t index, struct chunk_slot ret_slots[])
{
	slots_load(table, &table->chunks[index], ret_slots);
	for (unsigned i = 0; i < table->replicas; i++)
		ret_slots[i].slab = table->chunks[index].slabs[i];
}

/* --- After a process has ended -------------------------------------------------------------------------------- */

int chunk_check(const struct chunk_table *table, uint64_t index, unsigned donors)
{
	uint64_t word = atomic_load(&table->chunks[index].word);
	enum chunk_state state = word_state(word);
	struct chunk_slot slots[FAR_REPLICAS_MAX];

	if (state != CHUNK_READY)
		return state == CHUNK_LOSING && !word_epoch(word) ? -EINVAL : 0;
	if (!word_epoch(word))
		return -EINVAL;
	chunk_slots(table, index, slots);
	for (unsigned i = 0; i < table->replicas; i++) {
		if (slots[i].donor >= donors)
			return -EINVAL;
		for (unsigned j = 0; j < i; j++)
			if (slots[i].donor == slots[j].donor)
				return -EINVAL;
	}
	return 0;
}

void chunk_recover(struct chunk_table *table, uint64_t index, uint32_t live)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word), epoch = word & ~(WORD_EPOCH_ONE - 1);

	atomic_store(&chunk->denials, 0);
	atomic_store(&chunk->denial, 0);
	atomic_store(&chunk->ahead, false);
	atomic_store(&chunk->asked_ahead, false);
	chunk->list = 0;
	chunk->previous = chunk->next = 0;
	chunk->since = 0;
	switch (word_state(word)) {
	case CHUNK_READY:
		atomic_store(&chunk->word, epoch | (uint64_t)CHUNK_READY << WORD_STATE_SHIFT | live);
		if (!live)
			chunk_attention_set(table, index);
		return;
	case CHUNK_LOSING:
		atomic_store(&chunk->word, word_moved(word, CHUNK_NONE));
		return;
	case CHUNK_NONE:
	case CHUNK_WANTED:
		atomic_store(&chunk->word, epoch | (uint64_t)CHUNK_NONE << WORD_STATE_SHIFT);
		return;
	}
}
