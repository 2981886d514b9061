/*
 * integrity: which contents a page matches, which pages are zero or lost, and that only written pages use memory.
 */
#include "client/page/integrity.h"
#include "client/store.h"
#include "common/random.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGES 1024u

static uint64_t page_a[STORE_PAGE / 8], page_b[STORE_PAGE / 8], zeroes[STORE_PAGE / 8];

static void fill(uint64_t *page, uint64_t seed)
{
	struct random_state random;

	random_seed(&random, seed);
	for (unsigned i = 0; i < STORE_PAGE / 8; i++)
		page[i] = random_next(&random);
}

static void page_follows_its_writes(struct integrity *integrity)
{
	ok(integrity_kind(integrity, 5) == INTEGRITY_IS_ZERO, "a new page is zero");
	integrity_prepare(integrity, 5, page_a);
	ok(integrity_kind(integrity, 5) == INTEGRITY_IS_ZERO, "a write under way leaves a page zero");
	ok(integrity_commit(integrity, 5, 1) == 0, "the first commit of a page finds it not live");
	ok(integrity_kind(integrity, 5) == INTEGRITY_IS_LIVE && integrity_check(integrity, 5, page_a),
	   "a committed page is live and matches its contents");
	ok(!integrity_check(integrity, 5, page_b), "a live page does not match other contents");
	integrity_prepare(integrity, 5, page_b);
	ok(integrity_commit(integrity, 5, 1) == 1, "a second commit of a page finds it live");
	ok(integrity_check(integrity, 5, page_b) && !integrity_check(integrity, 5, page_a),
	   "a second write replaces the contents that a page matches");
	ok(integrity_forget(integrity, 4, 3) == 1 && integrity_kind(integrity, 5) == INTEGRITY_IS_ZERO,
	   "a forgotten page is zero and was live");
	ok(integrity_forget(integrity, 4, 3) == 0, "forgetting a page again finds no live page");
}

static void flipped_bit_is_noticed(struct integrity *integrity)
{
	unsigned missed = 0;

	integrity_prepare(integrity, 9, page_a);
	integrity_commit(integrity, 9, 1);
	for (unsigned bit = 0; bit < STORE_PAGE * 8; bit += 7) {
		page_a[bit / 64] ^= UINT64_C(1) << bit % 64;
		missed += integrity_check(integrity, 9, page_a);
		page_a[bit / 64] ^= UINT64_C(1) << bit % 64;
	}
	ok(!missed, "every tested bit that flips is noticed");
	ok(integrity_check(integrity, 9, page_a), "unchanged contents match after the bit flips");
}

/* The same contents have another checksum on another page, in another generation, in another store. */
static void checksum_is_bound_to_page_write_and_store(struct integrity *integrity)
{
	struct integrity other;
	uint64_t first, again;

	integrity_prepare(integrity, 20, page_a);
	integrity_prepare(integrity, 21, page_a);
	ok(integrity->sums[20] != integrity->sums[21], "the same contents have other checksums on two pages");
	first = integrity->sums[20];
	integrity_commit(integrity, 20, 1);
	integrity_prepare(integrity, 20, page_a);
	again = integrity->sums[20];
	ok(first != again, "the same contents have other checksums in two writes");
	integrity_open(&other, PAGES);
	integrity_prepare(&other, 20, page_a);
	ok(other.sums[20] != first, "the same contents have other checksums in two stores");
	integrity_close(&other);
}

static void lost_page_matches_no_contents(struct integrity *integrity)
{
	integrity_forget(integrity, 0, PAGES);
	for (unsigned i = 100; i < 110; i++) {
		integrity_prepare(integrity, i, page_a);
		integrity_commit(integrity, i, 1);
	}
	ok(integrity_lose(integrity, 90, 15) == 5, "integrity_lose() loses the live pages of its range");
	ok(integrity_kind(integrity, 99) == INTEGRITY_IS_ZERO && integrity_kind(integrity, 104) == INTEGRITY_IS_LOST &&
	       integrity_kind(integrity, 105) == INTEGRITY_IS_LIVE,
	   "a zero page stays zero, and a live page outside the range stays live");
	ok(integrity_lose(integrity, 90, 15) == 0, "a lost page is not lost again");
	ok(integrity_run(integrity, 90, 100) == 10 && integrity_run(integrity, 100, 100) == 5 &&
	       integrity_run(integrity, 105, 3) == 3,
	   "integrity_run() ends where the kind of page changes");
	ok(!integrity_check(integrity, 101, page_a) && !integrity_same(integrity, 101, page_a) &&
	       !integrity_same(integrity, 101, zeroes),
	   "a lost page matches no contents");
	integrity_prepare(integrity, 101, page_b);
	ok(integrity_commit(integrity, 101, 1) == 0 && integrity_check(integrity, 101, page_b),
	   "a lost page that is written is live again");
	ok(integrity_forget(integrity, 102, 1) == 0 && integrity_kind(integrity, 102) == INTEGRITY_IS_ZERO,
	   "a lost page that is forgotten is zero and was not live");
}

static void generations_wrap_without_changing_a_pages_kind(struct integrity *integrity)
{
	unsigned right = 0;

	integrity->generations[7] = INTEGRITY_KEPT - 4;
	for (unsigned i = 0; i < 8; i++) {
		integrity_prepare(integrity, 7, page_a);
		right += integrity_commit(integrity, 7, 1) == 1 && integrity_kind(integrity, 7) == INTEGRITY_IS_LIVE &&
			 integrity_check(integrity, 7, page_a);
	}
	ok(right == 8, "generations wrap around and every write stays live and checked");
}

/* The store has a backup. */
static void backup_keeps_pages_that_would_be_lost(void)
{
	struct integrity integrity;
	uint64_t sum;

	integrity_open(&integrity, PAGES);
	integrity.keeps = true;
	for (unsigned i = 100; i < 110; i++) {
		integrity_prepare(&integrity, i, page_a);
		integrity_commit(&integrity, i, 1);
	}
	sum = integrity.sums[100];
	ok(integrity_lose(&integrity, 90, 15) == 0 && integrity.kept == 5 &&
	       integrity_kind(&integrity, 104) == INTEGRITY_IS_KEPT &&
	       integrity_kind(&integrity, 105) == INTEGRITY_IS_LIVE && integrity_live(&integrity, 90, 20) == 5,
	   "with a backup, pages that would be lost are kept and no longer live");
	ok(integrity_lose(&integrity, 90, 15) == 0 && integrity.kept == 5, "a kept page is not kept again");
	ok(integrity_check(&integrity, 100, page_a) && !integrity_check(&integrity, 100, page_b) &&
	       !integrity_check(&integrity, 99, page_a),
	   "a kept page matches only its contents");
	ok(integrity_same(&integrity, 100, page_a) && !integrity_same(&integrity, 100, page_b),
	   "integrity_same() compares a kept page with its contents");
	ok(integrity_restore(&integrity, 100) && integrity.kept == 4 && integrity.sums[100] == sum &&
	       integrity_kind(&integrity, 100) == INTEGRITY_IS_LIVE && integrity_check(&integrity, 100, page_a) &&
	       !integrity_restore(&integrity, 100),
	   "a restored page is live with its old checksum, and is restored once");
	ok(integrity_give_up(&integrity, 101) && integrity.kept == 3 &&
	       integrity_kind(&integrity, 101) == INTEGRITY_IS_LOST && !integrity_check(&integrity, 101, page_a) &&
	       !integrity_restore(&integrity, 101) && !integrity_give_up(&integrity, 105),
	   "a kept page that is given up is lost, and a live page cannot be given up");
	integrity_prepare(&integrity, 102, page_b);
	ok(integrity_commit(&integrity, 102, 1) == 0 && integrity.kept == 2 &&
	       integrity_kind(&integrity, 102) == INTEGRITY_IS_LIVE && integrity_check(&integrity, 102, page_b),
	   "a kept page that is written is live and was not live before");
	ok(integrity_forget(&integrity, 103, 1) == 0 && integrity.kept == 1 &&
	       integrity_kind(&integrity, 103) == INTEGRITY_IS_ZERO,
	   "a kept page that is forgotten is zero and was not live");
	for (unsigned i = 105; i < 108; i++)
		integrity_prepare(&integrity, i, page_b);
	integrity_forget(&integrity, 107, 1);
	integrity_lose(&integrity, 106, 1);
	ok(integrity_commit_kept(&integrity, 105, 3) == 1 && integrity.kept == 4 &&
	       integrity_kind(&integrity, 105) == INTEGRITY_IS_KEPT &&
	       integrity_kind(&integrity, 106) == INTEGRITY_IS_KEPT && integrity_check(&integrity, 105, page_b) &&
	       integrity_check(&integrity, 106, page_b),
	   "pages committed to the disk alone are kept, whether live, kept or zero before");
	integrity_prepare(&integrity, 107, page_a);
	ok(integrity_commit_kept(&integrity, 107, 1) == 0 && integrity.kept == 4 &&
	       integrity_check(&integrity, 107, page_a) && !integrity_check(&integrity, 107, page_b),
	   "a page committed to the disk again matches its last contents");
	ok(integrity_keep(&integrity, 108, 4) == 2 && integrity.kept == 6 && integrity_check(&integrity, 109, page_a) &&
	       integrity_keep(&integrity, 108, 4) == 0 && integrity.kept == 6,
	   "live pages that are on the disk can be kept there, once");
	integrity.kept = 0;
	integrity_count_kept(&integrity, 90, 30);
	ok(integrity.kept == 6, "integrity_count_kept() counts the kept pages again");
	integrity_close(&integrity);
}

static void same_contents_are_recognised(struct integrity *integrity)
{
	integrity_forget(integrity, 0, PAGES);
	ok(integrity_same(integrity, 3, zeroes) && !integrity_same(integrity, 3, page_a),
	   "an unwritten page is the same as zeroes");
	integrity_prepare(integrity, 3, page_a);
	integrity_commit(integrity, 3, 1);
	ok(integrity_same(integrity, 3, page_a) && !integrity_same(integrity, 3, zeroes),
	   "a written page is the same as its contents");
	integrity_prepare(integrity, 3, zeroes);
	integrity_commit(integrity, 3, 1);
	ok(integrity_same(integrity, 3, zeroes), "a page written with zeroes is the same as zeroes");
}

static void sealed_write(struct integrity *integrity, struct seal *seal, uint64_t page, const void *data, void *out)
{
	integrity_seal(integrity, seal, page, data, out);
	integrity_commit(integrity, page, 1);
}

static void sealed_page_follows_its_writes(struct integrity *integrity, struct seal *seal)
{
	static uint8_t first[STORE_PAGE], second[STORE_PAGE], other[STORE_PAGE], opened[STORE_PAGE];

	ok(integrity_memory(integrity, 1) == 26, "the record of a sealed page takes 26 bytes");
	ok(integrity_same_sealed(integrity, seal, 5, zeroes) && !integrity_same_sealed(integrity, seal, 5, page_a),
	   "a new sealed page is the same as zeroes");
	sealed_write(integrity, seal, 5, page_a, first);
	ok(integrity_unseal(integrity, seal, 5, first, opened) && !memcmp(opened, page_a, STORE_PAGE),
	   "a sealed page opens to its contents");
	ok(integrity_same_sealed(integrity, seal, 5, page_a) && !integrity_same_sealed(integrity, seal, 5, page_b) &&
	       !integrity_same_sealed(integrity, seal, 5, zeroes),
	   "a sealed page is the same as its contents only");
	sealed_write(integrity, seal, 6, page_a, other);
	ok(!integrity_unseal(integrity, seal, 5, other, NULL) && !integrity_unseal(integrity, seal, 6, first, NULL),
	   "the sealed bytes of another page do not open");
	sealed_write(integrity, seal, 5, page_a, second);
	ok(!integrity_unseal(integrity, seal, 5, first, opened) && !memcmp(opened, zeroes, STORE_PAGE),
	   "older sealed bytes of the same contents do not open, and the output is cleared");
	ok(integrity_unseal(integrity, seal, 5, second, NULL), "the last sealed bytes of a page open");
	integrity_seal(integrity, seal, 5, page_b, first);
	ok(!integrity_unseal(integrity, seal, 5, first, NULL) && !integrity_unseal(integrity, seal, 5, second, NULL),
	   "neither old nor new sealed bytes open while a write is under way");
	ok(integrity_lose(integrity, 5, 1) == 1 && !integrity_unseal(integrity, seal, 5, second, NULL) &&
	       !integrity_same_sealed(integrity, seal, 5, page_a),
	   "no sealed bytes open for a lost page");
}

/* A record is bound to its generation. Under the generation of another write the page does not open. */
static void sealed_page_is_bound_to_its_generation(struct integrity *integrity, struct seal *seal)
{
	static uint8_t out[STORE_PAGE];

	sealed_write(integrity, seal, 30, page_a, out);
	integrity->generations[30]++;
	ok(!integrity_unseal(integrity, seal, 30, out, NULL), "sealed bytes do not open under another generation");
	integrity->generations[30]--;
	ok(integrity_unseal(integrity, seal, 30, out, NULL), "sealed bytes open under their own generation");
}

static void sealed_pages_are_checked_by_their_records(void)
{
	struct integrity integrity;
	struct seal *seal = NULL;

	if (seal_load() < 0) {
		tap_skip("sealed pages", "libcrypto cannot be loaded");
		return;
	}
	ok(integrity_open_sealed(&integrity, PAGES) == 0 && integrity_sealer(&integrity, &seal) == 0,
	   "integrity opens for sealed pages");
	if (!seal)
		abort();
	sealed_page_follows_its_writes(&integrity, seal);
	sealed_page_is_bound_to_its_generation(&integrity, seal);
	seal_close(seal);
	integrity_close(&integrity);
}

static void only_zero_bytes_are_zero(void)
{
	unsigned wrong = 0;

	ok(integrity_is_zero(zeroes), "a page of zeroes is zero");
	for (unsigned i = 0; i < STORE_PAGE; i++) {
		((uint8_t *)zeroes)[i] = 1;
		wrong += integrity_is_zero(zeroes);
		((uint8_t *)zeroes)[i] = 0;
	}
	ok(!wrong, "a page with one byte set is not zero, whichever byte");
}

static uint64_t resident(void *base, uint64_t length)
{
	static unsigned char there[1 << 20];
	uint64_t count = 0;

	if (mincore(base, length, there) < 0)
		return UINT64_MAX;
	for (uint64_t i = 0; i < length / 4096; i++)
		count += there[i] & 1;
	return count;
}

static void checksums_take_memory_only_where_written(void)
{
	struct integrity integrity;
	uint64_t pages = UINT64_C(1) << 28; /* 1 TiB */

	ok(integrity_open(&integrity, pages) == 0, "integrity opens for 1 TiB of pages");
	integrity_prepare(&integrity, pages - 1, page_a);
	integrity_commit(&integrity, pages - 1, 1);
	integrity_prepare(&integrity, 0, page_a);
	integrity_commit(&integrity, 0, 1);
	ok(resident(integrity.generations, pages * 2) == 2 && resident(integrity.sums, pages * 8) == 2,
	   "two written pages cost four pages of memory");
	integrity_close(&integrity);
	integrity_close(&integrity);
	ok(!integrity.generations, "closing integrity twice does no harm");
}

int main(void)
{
	struct integrity integrity;

	fill(page_a, 1);
	fill(page_b, 2);
	ok(integrity_open(&integrity, PAGES) == 0, "integrity opens");
	page_follows_its_writes(&integrity);
	flipped_bit_is_noticed(&integrity);
	checksum_is_bound_to_page_write_and_store(&integrity);
	lost_page_matches_no_contents(&integrity);
	generations_wrap_without_changing_a_pages_kind(&integrity);
	same_contents_are_recognised(&integrity);
	sealed_pages_are_checked_by_their_records();
	backup_keeps_pages_that_would_be_lost();
	only_zero_bytes_are_zero();
	checksums_take_memory_only_where_written();
	integrity_close(&integrity);
	return tap_done();
}
