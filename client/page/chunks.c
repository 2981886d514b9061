#include "client/page/chunks.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

/* The word: count in bits 0-31, state in 32-33, epoch in 34-63. */
#define WORD_STATE_SHIFT 32
#define WORD_EPOCH_SHIFT 34
#define WORD_EPOCH_ONE (UINT64_C(1) << WORD_EPOCH_SHIFT)
#define WORD_COUNT_MASK UINT64_C(0xffffffff)

/* A slot's word: rkey in bits 0-31, donor in 32-55, state in 56-63. */
#define KEY_DONOR_SHIFT 32
#define KEY_STATE_MASK (UINT64_C(0xff) << 56)
#define KEY_EMPTY UINT64_C(0)
#define KEY_FULL (UINT64_C(1) << 56)
#define KEY_JOINING (UINT64_C(2) << 56)

static const struct chunk_slot slot_empty = {.state = SLOT_EMPTY};

static enum chunk_state word_state(uint64_t word)
{
	return (enum chunk_state)(word >> WORD_STATE_SHIFT & 3);
}

static uint32_t word_epoch(uint64_t word)
{
	return (uint32_t)(word >> WORD_EPOCH_SHIFT);
}

static uint64_t word_moved(uint64_t word, enum chunk_state state)
{
	uint64_t epoch = (word & ~(WORD_EPOCH_ONE - 1)) + WORD_EPOCH_ONE;

	/* Epoch 0 means "untouched". No later epoch is 0. */
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
	return table->count >= UINT32_MAX / FAR_SLOTS_MAX || chunk_pages > UINT32_MAX / 2 ? -EINVAL : 0;
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

uint64_t chunk_table_memory(const struct chunk_table *table)
{
	/* The last page is partly used. */
	const uint64_t used = atomic_load(&table->touched) + STORE_PAGE / sizeof *table->chunks + 1;

	return (table->placed || used > table->count ? table->count : used) * sizeof *table->chunks;
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

static uint64_t key_of(const struct chunk_slot *slot)
{
	if (slot->state == SLOT_EMPTY)
		return KEY_EMPTY;
	return (slot->state == SLOT_FULL ? KEY_FULL : KEY_JOINING) | (uint64_t)slot->donor << KEY_DONOR_SHIFT |
	       slot->rkey;
}

static enum chunk_slot_state key_state(uint64_t key)
{
	key &= KEY_STATE_MASK;
	return key == KEY_FULL ? SLOT_FULL : key == KEY_JOINING ? SLOT_JOINING : SLOT_EMPTY;
}

static void slot_load(const struct chunk *chunk, unsigned replica, struct chunk_slot *slot)
{
	/* The slot's word is loaded before the address, see chunks.h. */
	uint64_t key = atomic_load_explicit(&chunk->slots[replica].key, memory_order_acquire);

	slot->address = atomic_load_explicit(&chunk->slots[replica].address, memory_order_acquire);
	slot->state = key_state(key);
	slot->donor = (uint32_t)((key & ~KEY_STATE_MASK) >> KEY_DONOR_SHIFT);
	slot->rkey = (uint32_t)key;
}

static void slot_store(struct chunk *chunk, unsigned replica, const struct chunk_slot *slot)
{
	/*
	 * The stores are releases. So a thread that sees one of these stores also sees the earlier change of the
	 * epoch or the version. A detached slot changes only its word: address and slab stay. So whenever the word
	 * says FULL, even in the table of a killed process, the other fields are valid.
	 */
	if (slot->state != SLOT_EMPTY) {
		atomic_store_explicit(&chunk->slots[replica].address, slot->address, memory_order_release);
		chunk->slabs[replica] = slot->slab;
	}
	atomic_store_explicit(&chunk->slots[replica].key, key_of(slot), memory_order_release);
}

static void slot_change(struct chunk *chunk, unsigned replica, const struct chunk_slot *slot)
{
	atomic_fetch_add(&chunk->version, 1);
	slot_store(chunk, replica, slot);
	atomic_fetch_add(&chunk->version, 1);
}

/* Copies all slots, and repeats this until no slot has changed meanwhile. Returns the version of the copy. */
static uint32_t slots_load(const struct chunk *chunk, struct chunk_slot slots[])
{
	uint32_t version, again = atomic_load_explicit(&chunk->version, memory_order_acquire);

	do {
		version = again;
		for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
			slot_load(chunk, i, &slots[i]);
		again = atomic_load_explicit(&chunk->version, memory_order_acquire);
	} while (again != version);
	return version;
}

bool chunk_view(const struct chunk_table *table, uint64_t index, struct chunk_view *ret_view)
{
	const struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load_explicit(&chunk->word, memory_order_acquire);

	while (word_state(word) == CHUNK_READY) {
		uint64_t again;

		ret_view->version = slots_load(chunk, ret_view->slots);
		again = atomic_load_explicit(&chunk->word, memory_order_acquire);
		if (word_epoch(again) == word_epoch(word)) {
			ret_view->epoch = word_epoch(word);
			return true;
		}
		word = again;
	}
	return false;
}

/* Sets the chunk's attention bit. Returns true if it was clear. */
static bool attention_set(struct chunk_table *table, uint64_t index)
{
	uint64_t bit = UINT64_C(1) << (index % 64);

	return !(atomic_fetch_or(&table->attention[index / 64], bit) & bit);
}

/* Adds @pages to the count of a READY chunk whose word was *@word. Returns false, after adding nothing, if the word
   has changed. Also returns false if the chunk was lost after the addition, which is then void. The caller then tries
   again with *@word, the current word. */
static bool ready_hold(struct chunk *chunk, uint64_t *word, uint32_t pages, struct chunk_view *ret_view)
{
	uint64_t before = *word;

	if (!atomic_compare_exchange_weak(&chunk->word, word, before + pages))
		return false;
	ret_view->version = slots_load(chunk, ret_view->slots);
	ret_view->epoch = word_epoch(before);
	*word = atomic_load_explicit(&chunk->word, memory_order_acquire);
	return word_epoch(*word) == ret_view->epoch;
}

enum chunk_hold chunk_hold(struct chunk_table *table, uint64_t index, uint32_t pages, struct chunk_view *ret_view)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load_explicit(&chunk->word, memory_order_acquire);

	for (;;) {
		switch (word_state(word)) {
		case CHUNK_READY:
			if (ready_hold(chunk, &word, pages, ret_view))
				return CHUNK_HELD;
			continue;
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

bool chunk_is_unchanged(const struct chunk_table *table, uint64_t index, const struct chunk_view *view)
{
	const struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	return word_state(word) == CHUNK_READY && word_epoch(word) == view->epoch &&
	       atomic_load(&chunk->version) == view->version;
}

bool chunk_hold_ready(struct chunk_table *table, uint64_t index, uint32_t pages, struct chunk_view *ret_view)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load_explicit(&chunk->word, memory_order_acquire);

	while (word_state(word) == CHUNK_READY)
		if (ready_hold(chunk, &word, pages, ret_view))
			return true;
	return false;
}

void chunk_hinder(struct chunk_table *table, uint64_t index)
{
	atomic_store(&table->chunks[index].hindered, true);
	attention_set(table, index);
}

bool chunk_is_leaving(const struct chunk_table *table, uint64_t index)
{
	return atomic_load_explicit(&table->chunks[index].leaving, memory_order_acquire);
}

static unsigned view_full(const struct chunk_view *view)
{
	unsigned full = 0;

	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		full += view->slots[i].state == SLOT_FULL;
	return full;
}

unsigned chunk_replicas_missing(const struct chunk_table *table, uint64_t index)
{
	struct chunk_view view;
	unsigned full = chunk_view(table, index, &view) ? view_full(&view) : table->replicas;

	return full < table->replicas ? table->replicas - full : 0;
}

bool chunk_has_spare(const struct chunk_table *table, uint64_t index)
{
	struct chunk_view view;

	return chunk_view(table, index, &view) && view_full(&view) > table->replicas;
}

uint32_t chunk_version(const struct chunk_table *table, uint64_t index)
{
	return atomic_load(&table->chunks[index].version);
}

void chunk_attention_set(struct chunk_table *table, uint64_t index)
{
	attention_set(table, index);
}

void chunk_attention_clear(struct chunk_table *table, uint64_t index)
{
	atomic_fetch_and(&table->attention[index / 64], ~(UINT64_C(1) << (index % 64)));
}

/* Ends the state WANTED: changes the chunk's word from @word to @next. Counts a chunk that gets its first epoch. */
static void wanted_end(struct chunk_table *table, struct chunk *chunk, uint64_t word, uint64_t next)
{
	if (!word_epoch(word) && word_epoch(next))
		atomic_fetch_add(&table->touched, 1);
	atomic_store(&chunk->word, next);
}

void chunk_publish(struct chunk_table *table, uint64_t index, const struct chunk_slot slots[])
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	assert(word_state(word) == CHUNK_WANTED);
	atomic_fetch_add(&chunk->version, 1);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		slot_store(chunk, i, i < table->replicas ? &slots[i] : &slot_empty);
	atomic_fetch_add(&chunk->version, 1);
	atomic_store(&chunk->asked_ahead, false);
	atomic_store(&chunk->hindered, false);
	/* The word is stored last. So a thread that finds the chunk READY, or a process that adopts it, also finds
	   the slots. */
	wanted_end(table, chunk, word, word_moved(word, CHUNK_READY));
}

void chunk_deny(struct chunk_table *table, uint64_t index, int status)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	assert(word_state(word) == CHUNK_WANTED);
	atomic_store(&chunk->denial, (int16_t)status);
	/* A request that waits compares the number of denials, so the number must rise before the chunk stops being
	   WANTED. */
	atomic_fetch_add(&chunk->denials, 1);
	wanted_end(table, chunk, word,
		   status == -ENOMEM ? word & ~(UINT64_C(3) << WORD_STATE_SHIFT) : word_moved(word, CHUNK_NONE));
}

bool chunk_take_idle(struct chunk_table *table, uint64_t index, struct chunk_slot ret_slots[])
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	if (word_state(word) != CHUNK_READY || word & WORD_COUNT_MASK)
		return false;
	/* Only this thread writes slots, so it may read them before it moves the word. */
	chunk_slots(table, index, ret_slots);
	if (!atomic_compare_exchange_strong(&chunk->word, &word, word_moved(word, CHUNK_NONE)))
		return false;
	chunk_stay(table, index);
	return true;
}

void chunk_lose(struct chunk_table *table, uint64_t index)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	do {
		assert(word_state(word) == CHUNK_READY);
	} while (!atomic_compare_exchange_weak(&chunk->word, &word, word_moved(word, CHUNK_LOSING)));
	atomic_thread_fence(memory_order_seq_cst); /* see chunk_is_current() */
	atomic_fetch_add(&chunk->version, 1);      /* so that pieces published earlier have an older version */
}

void chunk_lost(struct chunk_table *table, uint64_t index)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word);

	assert(word_state(word) == CHUNK_LOSING);
	chunk_stay(table, index);
	atomic_store(&chunk->word, word_moved(word, CHUNK_NONE));
}

void chunk_readdress(struct chunk_table *table, uint64_t index, unsigned replica, uint64_t address, uint32_t rkey)
{
	struct chunk *chunk = &table->chunks[index];
	struct chunk_slot slot = {.state = SLOT_EMPTY};

	assert(chunk_state(table, index) == CHUNK_READY);
	slot_load(chunk, replica, &slot);
	assert(slot.state == SLOT_FULL);
	slot.address = address;
	slot.rkey = rkey;
	slot.slab = chunk->slabs[replica];
	slot_change(chunk, replica, &slot);
}

void chunk_join(struct chunk_table *table, uint64_t index, unsigned replica, const struct chunk_slot *slot)
{
	struct chunk *chunk = &table->chunks[index];
	struct chunk_slot joining = *slot;

	assert(chunk_state(table, index) == CHUNK_READY);
	assert(key_state(atomic_load(&chunk->slots[replica].key)) == SLOT_EMPTY);
	joining.state = SLOT_JOINING;
	slot_change(chunk, replica, &joining);
}

void chunk_promote(struct chunk_table *table, uint64_t index, unsigned replica)
{
	struct chunk *chunk = &table->chunks[index];
	struct chunk_slot slot;

	slot_load(chunk, replica, &slot);
	assert(chunk_state(table, index) == CHUNK_READY && slot.state == SLOT_JOINING);
	slot.state = SLOT_FULL;
	slot.slab = chunk->slabs[replica];
	slot_change(chunk, replica, &slot);
}

void chunk_detach(struct chunk_table *table, uint64_t index, unsigned replica)
{
	struct chunk *chunk = &table->chunks[index];
	struct chunk_slot slots[FAR_SLOTS_MAX];
	unsigned full = 0;

	chunk_slots(table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		full += i != replica && slots[i].state == SLOT_FULL;
	assert(chunk_state(table, index) == CHUNK_READY && slots[replica].state != SLOT_EMPTY && full);
	slot_change(chunk, replica, &slot_empty);
}

void chunk_leave(struct chunk_table *table, uint64_t index)
{
	assert(chunk_state(table, index) == CHUNK_READY);
	atomic_store(&table->chunks[index].leaving, true);
	/* A queue that read the chunk before `leaving` was set publishes its piece with the older version. The
	   rebuild thread waits for such pieces. */
	atomic_fetch_add(&table->chunks[index].version, 1);
}

void chunk_stay(struct chunk_table *table, uint64_t index)
{
	atomic_store(&table->chunks[index].leaving, false);
}

void chunk_empty(struct chunk_table *table, uint64_t index)
{
	atomic_fetch_add(&table->chunks[index].version, 1);
}

bool chunk_hindered(struct chunk_table *table, uint64_t index)
{
	return atomic_load(&table->chunks[index].hindered) && atomic_exchange(&table->chunks[index].hindered, false);
}

void chunk_slots(const struct chunk_table *table, uint64_t index, struct chunk_slot ret_slots[])
{
	slots_load(&table->chunks[index], ret_slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		ret_slots[i].slab = table->chunks[index].slabs[i];
}

/* --- After a process has ended -------------------------------------------------------------------------------- */

int chunk_check(const struct chunk_table *table, uint64_t index, unsigned donors)
{
	uint64_t word = atomic_load(&table->chunks[index].word);
	enum chunk_state state = word_state(word);
	struct chunk_slot slots[FAR_SLOTS_MAX];
	unsigned full = 0;

	if (state != CHUNK_READY)
		return state == CHUNK_LOSING && !word_epoch(word) ? -EINVAL : 0;
	if (!word_epoch(word))
		return -EINVAL;
	chunk_slots(table, index, slots);
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++) {
		if (key_of(&slots[i]) != atomic_load(&table->chunks[index].slots[i].key))
			return -EINVAL;
		if (slots[i].state == SLOT_EMPTY)
			continue;
		if (slots[i].donor >= donors)
			return -EINVAL;
		for (unsigned j = 0; j < i; j++)
			if (slots[j].state != SLOT_EMPTY && slots[i].donor == slots[j].donor)
				return -EINVAL;
		full += slots[i].state == SLOT_FULL;
	}
	return full ? 0 : -EINVAL;
}

/* Detaches JOINING slots, because nobody fills them any more. */
static void joining_recover(struct chunk *chunk)
{
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (key_state(atomic_load(&chunk->slots[i].key)) == SLOT_JOINING)
			slot_change(chunk, i, &slot_empty);
}

void chunk_recover(struct chunk_table *table, uint64_t index, uint32_t live)
{
	struct chunk *chunk = &table->chunks[index];
	uint64_t word = atomic_load(&chunk->word), epoch = word & ~(WORD_EPOCH_ONE - 1);

	if (word_epoch(word))
		atomic_fetch_add(&table->touched, 1);
	atomic_store(&chunk->denials, 0);
	atomic_store(&chunk->denial, 0);
	atomic_store(&chunk->ahead, false);
	atomic_store(&chunk->asked_ahead, false);
	atomic_store(&chunk->hindered, false);
	atomic_store(&chunk->leaving, false);
	chunk->list = 0;
	chunk->previous = chunk->next = 0;
	chunk->since = 0;
	switch (word_state(word)) {
	case CHUNK_READY:
		joining_recover(chunk);
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
