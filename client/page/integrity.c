#include "client/page/integrity.h"

#include "client/page/populate.h"
#include "client/store.h"
#include "common/log.h"
#include "common/random.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(struct seal_record) == INTEGRITY_SUM_WORDS(true) * sizeof(uint64_t), "its words are kept");
_Static_assert(INTEGRITY_SECRET_SIZE >= SEAL_KEY_SIZE, "the key is a part of it");
_Static_assert(INTEGRITY_SECRET_SIZE >= XXH3_SECRET_SIZE_MIN, "XXH3 takes a secret of at least 136 bytes");

static void *integrity_map(uint64_t length)
{
	void *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	/* The program touches scattered pages of the store, so huge pages would waste memory. */
	madvise(base, length, MADV_NOHUGEPAGE);
	return base;
}

static unsigned sum_words(const struct integrity *integrity)
{
	return INTEGRITY_SUM_WORDS(integrity->numbers);
}

static uint64_t sums_bytes(const struct integrity *integrity, uint64_t pages)
{
	return pages * sum_words(integrity) * sizeof *integrity->sums;
}

uint64_t integrity_memory(const struct integrity *integrity, uint64_t pages)
{
	return pages * sizeof *integrity->generations + sums_bytes(integrity, pages);
}

/* If pages are sealed, the word after the last sum counts seal numbers. */
static int integrity_allocate(struct integrity *integrity, uint64_t pages, bool sealed)
{
	uint64_t words = pages * INTEGRITY_SUM_WORDS(sealed);

	if (pages > SIZE_MAX / 64)
		return -ENOMEM;
	*integrity = (struct integrity){.pages = pages};
	integrity->generations = integrity_map(pages * sizeof *integrity->generations);
	integrity->sums = integrity_map((words + 1) * sizeof *integrity->sums);
	if (integrity->sums && sealed)
		integrity->numbers = &integrity->sums[words];
	if (!integrity->generations || !integrity->sums) {
		integrity_close(integrity);
		return -ENOMEM;
	}
	random_secret(integrity->secret, sizeof integrity->secret);
	return 0;
}

int integrity_open(struct integrity *integrity, uint64_t pages)
{
	return integrity_allocate(integrity, pages, false);
}

int integrity_open_sealed(struct integrity *integrity, uint64_t pages)
{
	return integrity_allocate(integrity, pages, true);
}

void integrity_place(struct integrity *integrity, uint64_t pages, _Atomic uint16_t *generations, _Atomic uint64_t *sums,
		     _Atomic uint64_t *numbers, const uint8_t secret[INTEGRITY_SECRET_SIZE])
{
	*integrity = (struct integrity){
	    .pages = pages, .generations = generations, .sums = sums, .numbers = numbers, .placed = true};
	memcpy(integrity->secret, secret, INTEGRITY_SECRET_SIZE);
}

void integrity_close(struct integrity *integrity)
{
	if (integrity->placed) {
		*integrity = (struct integrity){0};
		return;
	}
	if (integrity->generations)
		munmap((void *)integrity->generations, integrity->pages * sizeof *integrity->generations);
	if (integrity->sums)
		munmap((void *)integrity->sums, sums_bytes(integrity, integrity->pages) + sizeof *integrity->sums);
	*integrity = (struct integrity){0};
}

static uint16_t generation_load(const struct integrity *integrity, uint64_t page)
{
	return atomic_load_explicit(&integrity->generations[page], memory_order_acquire);
}

uint64_t integrity_count_lost(const struct integrity *integrity)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < integrity->pages; i++)
		count += atomic_load_explicit(&integrity->generations[i], memory_order_relaxed) == INTEGRITY_LOST;
	return count;
}

int integrity_populate(struct integrity *integrity, uint64_t page, uint64_t count)
{
	int error;

	if (!integrity->placed)
		return 0;
	error = populate_range((void *)&integrity->generations[page], count * sizeof *integrity->generations);
	return error < 0 ? error
			 : populate_range((void *)&integrity->sums[page * sum_words(integrity)],
					  sums_bytes(integrity, count));
}

int integrity_begin(struct integrity *integrity, uint64_t page, uint64_t count)
{
	int error = integrity_populate(integrity, page, count);

	if (error < 0 && !integrity->told) {
		integrity->told = true;
		log_error("no memory for the tables of more slabs: writes that need one fail (is the state file's "
			  "file system full?)");
	}
	for (uint64_t i = 0; i < count && error == 0 && integrity->placed; i++)
		atomic_store_explicit(&integrity->generations[page + i], INTEGRITY_NONE, memory_order_relaxed);
	return error;
}

static bool generation_is_live(uint16_t generation)
{
	return generation != INTEGRITY_NONE && !(generation & INTEGRITY_KEPT);
}

static bool generation_is_kept(uint16_t generation)
{
	return generation & INTEGRITY_KEPT && generation != INTEGRITY_LOST;
}

static uint16_t generation_plain(uint16_t generation)
{
	return (uint16_t)(generation & ~INTEGRITY_KEPT);
}

static uint16_t generation_next(uint16_t generation)
{
	uint16_t plain = generation_plain(generation);

	/* The largest values have a special meaning, so the generation after the last one is 1. */
	return plain >= generation_plain(INTEGRITY_LOST) - 1 ? 1 : (uint16_t)(plain + 1);
}

static enum integrity_kind generation_kind(uint16_t generation)
{
	return generation == INTEGRITY_NONE     ? INTEGRITY_IS_ZERO
	       : generation == INTEGRITY_LOST   ? INTEGRITY_IS_LOST
	       : generation_is_kept(generation) ? INTEGRITY_IS_KEPT
						: INTEGRITY_IS_LIVE;
}

static void kept_ended(struct integrity *integrity, uint16_t generation)
{
	if (generation_is_kept(generation))
		atomic_fetch_sub(&integrity->kept, 1);
}

/* The constants are those of splitmix64 (Steele, Lea, Flood 2014). Any odd constants with well-spread bits would
   do. */
static uint64_t integrity_sum(const struct integrity *integrity, uint64_t page, uint16_t generation, const void *data)
{
	uint64_t place = (page + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ generation * UINT64_C(0xbf58476d1ce4e5b9);

	return XXH3_64bits_withSecret(data, STORE_PAGE, integrity->secret, INTEGRITY_SECRET_SIZE) ^ place;
}

enum integrity_kind integrity_kind(const struct integrity *integrity, uint64_t page)
{
	return generation_kind(generation_load(integrity, page));
}

uint32_t integrity_run(const struct integrity *integrity, uint64_t page, uint32_t max)
{
	enum integrity_kind kind = integrity_kind(integrity, page);
	uint32_t count = 1;

	while (count < max && integrity_kind(integrity, page + count) == kind)
		count++;
	return count;
}

void integrity_prepare(struct integrity *integrity, uint64_t page, const void *data)
{
	uint16_t generation = generation_next(generation_load(integrity, page));

	atomic_store_explicit(&integrity->sums[page], integrity_sum(integrity, page, generation, data),
			      memory_order_relaxed);
}

/* @kept is INTEGRITY_KEPT or 0. */
static uint32_t pages_commit(struct integrity *integrity, uint64_t page, uint32_t count, uint16_t kept)
{
	uint32_t live = 0;

	/* Counts the pages before they become KEPT, because another thread may end their KEPT state at once. */
	if (kept)
		atomic_fetch_add(&integrity->kept, count);
	for (uint32_t i = 0; i < count; i++) {
		uint16_t generation = generation_load(integrity, page + i);

		/* Repeats if the control thread has made the page KEPT or lost meanwhile. */
		while (!atomic_compare_exchange_weak(&integrity->generations[page + i], &generation,
						     generation_next(generation) | kept))
			;
		live += generation_is_live(generation);
		kept_ended(integrity, generation);
	}
	return live;
}

uint32_t integrity_commit(struct integrity *integrity, uint64_t page, uint32_t count)
{
	return pages_commit(integrity, page, count, 0);
}

uint32_t integrity_commit_kept(struct integrity *integrity, uint64_t page, uint32_t count)
{
	return pages_commit(integrity, page, count, INTEGRITY_KEPT);
}

uint64_t integrity_live(const struct integrity *integrity, uint64_t page, uint64_t count)
{
	uint64_t live = 0;

	for (uint64_t i = 0; i < count; i++)
		live += generation_is_live(generation_load(integrity, page + i));
	return live;
}

uint64_t integrity_forget(struct integrity *integrity, uint64_t page, uint64_t count)
{
	uint64_t live = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint16_t generation;

		/* Loads before it stores, because a store would allocate memory even for pages that were never
		   written. */
		if (generation_load(integrity, page + i) == INTEGRITY_NONE)
			continue;
		generation = atomic_exchange(&integrity->generations[page + i], INTEGRITY_NONE);
		live += generation_is_live(generation);
		kept_ended(integrity, generation);
	}
	return live;
}

/* Makes a live page KEPT, or lost. Returns false if the page is not live. */
static bool page_leave(struct integrity *integrity, uint64_t page, bool keeps)
{
	uint16_t generation = generation_load(integrity, page);

	while (generation_is_live(generation)) {
		uint16_t then = keeps ? generation | INTEGRITY_KEPT : INTEGRITY_LOST;

		/* Counts the page before it becomes KEPT, because another thread may end its KEPT state at once. */
		if (keeps)
			atomic_fetch_add(&integrity->kept, 1);
		if (atomic_compare_exchange_strong(&integrity->generations[page], &generation, then))
			return true;
		if (keeps)
			atomic_fetch_sub(&integrity->kept, 1);
	}
	return false;
}

uint64_t integrity_lose(struct integrity *integrity, uint64_t page, uint64_t count)
{
	uint64_t left = 0;

	for (uint64_t i = 0; i < count; i++)
		left += page_leave(integrity, page + i, integrity->keeps);
	return integrity->keeps ? 0 : left;
}

uint32_t integrity_keep(struct integrity *integrity, uint64_t page, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		kept += page_leave(integrity, page + i, true);
	return kept;
}

/* Makes a KEPT page live or lost. Returns false if the page is not KEPT. */
static bool kept_leave(struct integrity *integrity, uint64_t page, bool restored)
{
	uint16_t generation = generation_load(integrity, page);

	if (!generation_is_kept(generation) ||
	    !atomic_compare_exchange_strong(&integrity->generations[page], &generation,
					    restored ? generation_plain(generation) : INTEGRITY_LOST))
		return false;
	kept_ended(integrity, generation);
	return true;
}

bool integrity_restore(struct integrity *integrity, uint64_t page)
{
	return kept_leave(integrity, page, true);
}

bool integrity_give_up(struct integrity *integrity, uint64_t page)
{
	return kept_leave(integrity, page, false);
}

void integrity_count_kept(struct integrity *integrity, uint64_t page, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		integrity->kept += integrity_kind(integrity, page + i) == INTEGRITY_IS_KEPT;
}

bool integrity_check(const struct integrity *integrity, uint64_t page, const void *data)
{
	uint16_t generation = generation_load(integrity, page);

	if (generation_kind(generation) == INTEGRITY_IS_ZERO || generation_kind(generation) == INTEGRITY_IS_LOST)
		return false;
	return atomic_load_explicit(&integrity->sums[page], memory_order_relaxed) ==
	       integrity_sum(integrity, page, generation_plain(generation), data);
}

bool integrity_same(const struct integrity *integrity, uint64_t page, const void *data)
{
	switch (integrity_kind(integrity, page)) {
	case INTEGRITY_IS_ZERO:
		return integrity_is_zero(data);
	case INTEGRITY_IS_LIVE:
	case INTEGRITY_IS_KEPT:
		return integrity_check(integrity, page, data);
	case INTEGRITY_IS_LOST:
		break;
	}
	return false;
}

/* --- Sealed pages --------------------------------------------------------------------------------------------- */

int integrity_sealer(const struct integrity *integrity, struct seal **ret_seal)
{
	return seal_open(integrity->secret, integrity->numbers, ret_seal);
}

static struct seal_record record_load(const struct integrity *integrity, uint64_t page)
{
	const _Atomic uint64_t *words = &integrity->sums[page * INTEGRITY_SUM_WORDS(true)];

	return (struct seal_record){.number = atomic_load_explicit(&words[0], memory_order_relaxed),
				    .tag = {atomic_load_explicit(&words[1], memory_order_relaxed),
					    atomic_load_explicit(&words[2], memory_order_relaxed)}};
}

void integrity_seal(struct integrity *integrity, struct seal *seal, uint64_t page, const void *data, void *out)
{
	_Atomic uint64_t *words = &integrity->sums[page * INTEGRITY_SUM_WORDS(true)];
	struct seal_place place = {.page = page, .generation = generation_next(generation_load(integrity, page))};
	struct seal_record record;

	seal_encrypt(seal, &place, data, out, &record);
	atomic_store_explicit(&words[0], record.number, memory_order_relaxed);
	atomic_store_explicit(&words[1], record.tag[0], memory_order_relaxed);
	atomic_store_explicit(&words[2], record.tag[1], memory_order_relaxed);
}

bool integrity_unseal(const struct integrity *integrity, struct seal *seal, uint64_t page, const void *data, void *out)
{
	struct seal_place place = {.page = page, .generation = generation_load(integrity, page)};
	struct seal_record record = record_load(integrity, page);

	if (generation_is_live(place.generation) || generation_is_kept(place.generation)) {
		place.generation = generation_plain(place.generation);
		return seal_decrypt(seal, &place, &record, data, out);
	}
	if (out)
		memset(out, 0, STORE_PAGE);
	return false;
}

bool integrity_same_sealed(const struct integrity *integrity, struct seal *seal, uint64_t page, const void *data)
{
	struct seal_place place = {.page = page, .generation = generation_load(integrity, page)};
	struct seal_record record = record_load(integrity, page);

	switch (generation_kind(place.generation)) {
	case INTEGRITY_IS_ZERO:
		return integrity_is_zero(data);
	case INTEGRITY_IS_LIVE:
	case INTEGRITY_IS_KEPT:
		place.generation = generation_plain(place.generation);
		return seal_is(seal, &place, &record, data);
	case INTEGRITY_IS_LOST:
		break;
	}
	return false;
}

bool integrity_is_zero(const void *data)
{
	const uint8_t *bytes = data;

	/* Compares 64 bytes at a time, which the compiler turns into four vector ORs. Most pages that are not zero
	   differ in the first 64 bytes. */
	for (unsigned offset = 0; offset < STORE_PAGE; offset += 64) {
		uint64_t words[8], all = 0;

		memcpy(words, bytes + offset, sizeof words);
		for (unsigned i = 0; i < 8; i++)
			all |= words[i];
		if (all)
			return false;
	}
	return true;
}
