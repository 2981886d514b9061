/* integrity: what is the same, what is zero, what is lost, and that it costs memory only where it is used. */
#include "client/page/integrity.h"
#include "common/random.h"
#include "farpage/store.h"
#include "tests/tap.h"

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

static void test_life(struct integrity *integrity)
{
	ok(integrity_kind(integrity, 5) == INTEGRITY_IS_ZERO, "a page begins as zero");
	integrity_prepare(integrity, 5, page_a);
	ok(integrity_kind(integrity, 5) == INTEGRITY_IS_ZERO, "a write under way does not count");
	ok(integrity_commit(integrity, 5, 1) == 0, "its end does; it was not live before");
	ok(integrity_kind(integrity, 5) == INTEGRITY_IS_LIVE && integrity_check(integrity, 5, page_a), "it is live");
	ok(!integrity_check(integrity, 5, page_b), "other contents are not its own");
	integrity_prepare(integrity, 5, page_b);
	ok(integrity_commit(integrity, 5, 1) == 1, "a second write finds it live");
	ok(integrity_check(integrity, 5, page_b) && !integrity_check(integrity, 5, page_a), "and replaces the first");
	ok(integrity_forget(integrity, 4, 3) == 1 && integrity_kind(integrity, 5) == INTEGRITY_IS_ZERO,
	   "forgotten, it is zero");
	ok(integrity_forget(integrity, 4, 3) == 0, "but only once");
}

static void test_bits(struct integrity *integrity)
{
	unsigned missed = 0;

	integrity_prepare(integrity, 9, page_a);
	integrity_commit(integrity, 9, 1);
	for (unsigned bit = 0; bit < STORE_PAGE * 8; bit += 7) {
		page_a[bit / 64] ^= UINT64_C(1) << bit % 64;
		missed += integrity_check(integrity, 9, page_a);
		page_a[bit / 64] ^= UINT64_C(1) << bit % 64;
	}
	ok(!missed, "every single bit that flips is noticed");
	ok(integrity_check(integrity, 9, page_a), "and none that does not");
}

/* The same contents have another sum on another page, in another generation, in another store. */
static void test_bound(struct integrity *integrity)
{
	struct integrity other;
	uint64_t first, again;

	integrity_prepare(integrity, 20, page_a);
	integrity_prepare(integrity, 21, page_a);
	ok(integrity->sums[20] != integrity->sums[21], "sums of two pages differ");
	first = integrity->sums[20];
	integrity_commit(integrity, 20, 1);
	integrity_prepare(integrity, 20, page_a);
	again = integrity->sums[20];
	ok(first != again, "sums of two writes differ");
	integrity_open(&other, PAGES);
	integrity_prepare(&other, 20, page_a);
	ok(other.sums[20] != first, "sums of two stores differ");
	integrity_close(&other);
}

static void test_lost(struct integrity *integrity)
{
	integrity_forget(integrity, 0, PAGES);
	for (unsigned i = 100; i < 110; i++) {
		integrity_prepare(integrity, i, page_a);
		integrity_commit(integrity, i, 1);
	}
	ok(integrity_lose(integrity, 90, 15) == 5, "what is live is lost");
	ok(integrity_kind(integrity, 99) == INTEGRITY_IS_ZERO && integrity_kind(integrity, 104) == INTEGRITY_IS_LOST &&
	       integrity_kind(integrity, 105) == INTEGRITY_IS_LIVE,
	   "what was zero stays zero, what was not meant stays");
	ok(integrity_lose(integrity, 90, 15) == 0, "nothing is lost twice");
	ok(integrity_run(integrity, 90, 100) == 10 && integrity_run(integrity, 100, 100) == 5 &&
	       integrity_run(integrity, 105, 3) == 3,
	   "runs of a kind end where they should");
	ok(!integrity_check(integrity, 101, page_a) && !integrity_same(integrity, 101, page_a) &&
	       !integrity_same(integrity, 101, zeroes),
	   "a lost page is like nothing");
	integrity_prepare(integrity, 101, page_b);
	ok(integrity_commit(integrity, 101, 1) == 0 && integrity_check(integrity, 101, page_b),
	   "written again it is live again");
	ok(integrity_forget(integrity, 102, 1) == 0 && integrity_kind(integrity, 102) == INTEGRITY_IS_ZERO,
	   "forgotten it is zero again, and was not live");
}

static void test_wrap(struct integrity *integrity)
{
	unsigned right = 0;

	integrity->generations[7] = INTEGRITY_KEPT - 4;
	for (unsigned i = 0; i < 8; i++) {
		integrity_prepare(integrity, 7, page_a);
		right += integrity_commit(integrity, 7, 1) == 1 && integrity_kind(integrity, 7) == INTEGRITY_IS_LIVE &&
			 integrity_check(integrity, 7, page_a);
	}
	ok(right == 8, "generations come round without meaning something else");
}

/* Where there is a backup. */
static void test_kept(void)
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
	   "with a backup nothing is lost: what would be is kept, and not live");
	ok(integrity_lose(&integrity, 90, 15) == 0 && integrity.kept == 5, "once");
	ok(integrity_check(&integrity, 100, page_a) && !integrity_check(&integrity, 100, page_b) &&
	       !integrity_check(&integrity, 99, page_a),
	   "what was written is told from what was not");
	ok(integrity_same(&integrity, 100, page_a) && !integrity_same(&integrity, 100, page_b), "also as the same");
	ok(integrity_restore(&integrity, 100) && integrity.kept == 4 && integrity.sums[100] == sum &&
	       integrity_kind(&integrity, 100) == INTEGRITY_IS_LIVE && integrity_check(&integrity, 100, page_a) &&
	       !integrity_restore(&integrity, 100),
	   "brought back it is live, with the sum it had");
	ok(integrity_give_up(&integrity, 101) && integrity.kept == 3 &&
	       integrity_kind(&integrity, 101) == INTEGRITY_IS_LOST && !integrity_check(&integrity, 101, page_a) &&
	       !integrity_restore(&integrity, 101) && !integrity_give_up(&integrity, 105),
	   "given up it is lost, and nothing else is");
	integrity_prepare(&integrity, 102, page_b);
	ok(integrity_commit(&integrity, 102, 1) == 0 && integrity.kept == 2 &&
	       integrity_kind(&integrity, 102) == INTEGRITY_IS_LIVE && integrity_check(&integrity, 102, page_b),
	   "written it is live, and was not before");
	ok(integrity_forget(&integrity, 103, 1) == 0 && integrity.kept == 1 &&
	       integrity_kind(&integrity, 103) == INTEGRITY_IS_ZERO,
	   "forgotten it is zero, and was not live");
	for (unsigned i = 105; i < 108; i++)
		integrity_prepare(&integrity, i, page_b);
	integrity_forget(&integrity, 107, 1);
	integrity_lose(&integrity, 106, 1);
	ok(integrity_commit_kept(&integrity, 105, 3) == 1 && integrity.kept == 4 &&
	       integrity_kind(&integrity, 105) == INTEGRITY_IS_KEPT &&
	       integrity_kind(&integrity, 106) == INTEGRITY_IS_KEPT && integrity_check(&integrity, 105, page_b) &&
	       integrity_check(&integrity, 106, page_b),
	   "written to the disk alone, pages are kept that were live, kept, or zero");
	integrity_prepare(&integrity, 107, page_a);
	ok(integrity_commit_kept(&integrity, 107, 1) == 0 && integrity.kept == 4 &&
	       integrity_check(&integrity, 107, page_a) && !integrity_check(&integrity, 107, page_b),
	   "and written there once more are what was written last");
	ok(integrity_keep(&integrity, 108, 4) == 2 && integrity.kept == 6 && integrity_check(&integrity, 109, page_a) &&
	       integrity_keep(&integrity, 108, 4) == 0 && integrity.kept == 6,
	   "what is live and on the disk as well can be kept there alone");
	integrity.kept = 0;
	integrity_count_kept(&integrity, 90, 30);
	ok(integrity.kept == 6, "and what is kept can be counted anew");
	integrity_close(&integrity);
}

static void test_same(struct integrity *integrity)
{
	integrity_forget(integrity, 0, PAGES);
	ok(integrity_same(integrity, 3, zeroes) && !integrity_same(integrity, 3, page_a), "same as zero");
	integrity_prepare(integrity, 3, page_a);
	integrity_commit(integrity, 3, 1);
	ok(integrity_same(integrity, 3, page_a) && !integrity_same(integrity, 3, zeroes), "same as written");
	integrity_prepare(integrity, 3, zeroes);
	integrity_commit(integrity, 3, 1);
	ok(integrity_same(integrity, 3, zeroes), "same as zeroes that were written");
}

static void sealed_write(struct integrity *integrity, struct seal *seal, uint64_t page, const void *data, void *out)
{
	integrity_seal(integrity, seal, page, data, out);
	integrity_commit(integrity, page, 1);
}

static void test_sealed_life(struct integrity *integrity, struct seal *seal)
{
	static uint8_t first[STORE_PAGE], second[STORE_PAGE], other[STORE_PAGE], opened[STORE_PAGE];

	ok(integrity_memory(integrity, 1) == 26, "a sealed page's record takes 26 bytes");
	ok(integrity_same_sealed(integrity, seal, 5, zeroes) && !integrity_same_sealed(integrity, seal, 5, page_a),
	   "sealed: a page begins as zero");
	sealed_write(integrity, seal, 5, page_a, first);
	ok(integrity_unseal(integrity, seal, 5, first, opened) && !memcmp(opened, page_a, STORE_PAGE), "it is opened");
	ok(integrity_same_sealed(integrity, seal, 5, page_a) && !integrity_same_sealed(integrity, seal, 5, page_b) &&
	       !integrity_same_sealed(integrity, seal, 5, zeroes),
	   "same as written");
	sealed_write(integrity, seal, 6, page_a, other);
	ok(!integrity_unseal(integrity, seal, 5, other, NULL) && !integrity_unseal(integrity, seal, 6, first, NULL),
	   "another page's does not open");
	sealed_write(integrity, seal, 5, page_a, second);
	ok(!integrity_unseal(integrity, seal, 5, first, opened) && !memcmp(opened, zeroes, STORE_PAGE),
	   "nor an old one with the same contents, and nothing is left of it");
	ok(integrity_unseal(integrity, seal, 5, second, NULL), "the last one does");
	integrity_seal(integrity, seal, 5, page_b, first);
	ok(!integrity_unseal(integrity, seal, 5, first, NULL) && !integrity_unseal(integrity, seal, 5, second, NULL),
	   "while a write is under way neither matches");
	ok(integrity_lose(integrity, 5, 1) == 1 && !integrity_unseal(integrity, seal, 5, second, NULL) &&
	       !integrity_same_sealed(integrity, seal, 5, page_a),
	   "lost, nothing does");
}

/* The record is bound to the generation: with that of another write it does not open, whatever else is right. */
static void test_sealed_generation(struct integrity *integrity, struct seal *seal)
{
	static uint8_t out[STORE_PAGE];

	sealed_write(integrity, seal, 30, page_a, out);
	integrity->generations[30]++;
	ok(!integrity_unseal(integrity, seal, 30, out, NULL), "another generation does not open it");
	integrity->generations[30]--;
	ok(integrity_unseal(integrity, seal, 30, out, NULL), "its own does");
}

static void test_sealed(void)
{
	struct integrity integrity;
	struct seal *seal = NULL;

	if (seal_load() < 0) {
		ok(true, "sealed pages # SKIP libcrypto cannot be loaded");
		return;
	}
	ok(integrity_open_sealed(&integrity, PAGES) == 0 && integrity_sealer(&integrity, &seal) == 0, "open, sealed");
	if (!seal)
		abort();
	test_sealed_life(&integrity, seal);
	test_sealed_generation(&integrity, seal);
	seal_close(seal);
	integrity_close(&integrity);
}

static void test_zero(void)
{
	unsigned wrong = 0;

	ok(integrity_is_zero(zeroes), "zero is zero");
	for (unsigned i = 0; i < STORE_PAGE; i++) {
		((uint8_t *)zeroes)[i] = 1;
		wrong += integrity_is_zero(zeroes);
		((uint8_t *)zeroes)[i] = 0;
	}
	ok(!wrong, "one byte that is not, wherever, makes it something else");
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

static void test_memory(void)
{
	struct integrity integrity;
	uint64_t pages = UINT64_C(1) << 28; /* 1 TiB */

	ok(integrity_open(&integrity, pages) == 0, "a terabyte's worth is opened");
	integrity_prepare(&integrity, pages - 1, page_a);
	integrity_commit(&integrity, pages - 1, 1);
	integrity_prepare(&integrity, 0, page_a);
	integrity_commit(&integrity, 0, 1);
	ok(resident(integrity.generations, pages * 2) == 2 && resident(integrity.sums, pages * 8) == 2,
	   "two pages written cost four");
	integrity_close(&integrity);
	integrity_close(&integrity);
	ok(!integrity.generations, "closing twice does no harm");
}

int main(void)
{
	struct integrity integrity;

	fill(page_a, 1);
	fill(page_b, 2);
	ok(integrity_open(&integrity, PAGES) == 0, "open");
	test_life(&integrity);
	test_bits(&integrity);
	test_bound(&integrity);
	test_lost(&integrity);
	test_wrap(&integrity);
	test_same(&integrity);
	test_sealed();
	test_kept();
	test_zero();
	test_memory();
	integrity_close(&integrity);
	return tap_done();
}
