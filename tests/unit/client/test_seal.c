/* seal: a sealed page opens only unchanged and in its place, no number is used twice, and the cipher is AES-256-GCM. */
#include "client/page/seal.h"
#include "client/store.h"
#include "common/random.h"
#include "tests/lib/tap.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4u
#define EACH (3 * (unsigned)SEAL_BLOCK + 7)

static const uint8_t key[SEAL_KEY_SIZE] = "a key of thirty-two bytes, this";
static const struct seal_place place = {.page = 77, .generation = 5};
static uint8_t page[STORE_PAGE], sealed[STORE_PAGE], opened[STORE_PAGE];
static const uint8_t zeroes[STORE_PAGE];

static struct seal *seal_or_die(const uint8_t *its_key, _Atomic uint64_t *numbers)
{
	struct seal *seal;

	if (seal_open(its_key, numbers, &seal) < 0)
		abort();
	return seal;
}

static bool opens(struct seal *seal, const struct seal_place *at, const struct seal_record *record)
{
	memset(opened, 9, sizeof opened);
	return seal_decrypt(seal, at, record, sealed, opened);
}

static void sealed_page_opens_again(struct seal *seal)
{
	struct seal_record record, again;
	uint8_t other[STORE_PAGE];

	seal_encrypt(seal, &place, page, sealed, &record);
	ok(memcmp(sealed, page, STORE_PAGE), "a sealed page differs from its plain page");
	ok(opens(seal, &place, &record) && !memcmp(opened, page, STORE_PAGE), "a sealed page opens to its plain page");
	ok(seal_decrypt(seal, &place, &record, sealed, NULL) && opens(seal, &place, &record),
	   "opening a page without a target leaves the sealed page as it is");
	memcpy(other, sealed, STORE_PAGE);
	ok(seal_decrypt(seal, &place, &record, other, other) && !memcmp(other, page, STORE_PAGE),
	   "a sealed page can be opened in place");
	ok(seal_is(seal, &place, &record, page) && opens(seal, &place, &record),
	   "seal_is() recognises the sealed contents and keeps the sealed page");
	page[4000] ^= 1;
	ok(!seal_is(seal, &place, &record, page), "seal_is() rejects contents with one bit changed");
	page[4000] ^= 1;
	seal_encrypt(seal, &place, page, other, &again);
	ok(again.number != record.number && memcmp(other, sealed, 16) && memcmp(other + 4080, sealed + 4080, 16),
	   "sealing a page again gives another number and other bytes");
}

static void wrong_place_or_key_does_not_open_a_page(struct seal *seal)
{
	const struct seal_place places[] = {{.page = 76, .generation = 5},
					    {.page = 77 + (UINT64_C(1) << 40), .generation = 5},
					    {.page = 77, .generation = 4},
					    {.page = 77, .generation = 5 + 256}};
	static const uint8_t other_key[SEAL_KEY_SIZE] = "another key of thirty-two bytes";
	_Atomic uint64_t numbers = 0;
	struct seal *other = seal_or_die(other_key, &numbers);
	struct seal_record record;

	seal_encrypt(seal, &place, page, sealed, &record);
	for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++)
		ok(!opens(seal, &places[i], &record) && !memcmp(opened, zeroes, STORE_PAGE),
		   "another page or generation (%u) does not open a sealed page, and its output is cleared", i);
	ok(!opens(other, &place, &record) && !memcmp(opened, zeroes, STORE_PAGE),
	   "another key does not open a sealed page, and its output is cleared");
	ok(opens(seal, &place, &record), "the right key, page and generation open a sealed page");
	seal_close(other);
}

static void flipped_bit_keeps_a_page_closed(struct seal *seal)
{
	struct seal_record record;
	uint8_t *bytes = (uint8_t *)&record;
	unsigned opened_wrong = 0, left = 0;

	seal_encrypt(seal, &place, page, sealed, &record);
	for (unsigned bit = 0; bit < STORE_PAGE * 8; bit += 7) {
		sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
		opened_wrong += opens(seal, &place, &record);
		left += memcmp(opened, zeroes, STORE_PAGE) != 0;
		sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ok(!opened_wrong && !left, "a sealed page with any bit flipped does not open, and its output is cleared");
	for (unsigned bit = 0; bit < sizeof record * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		opened_wrong += opens(seal, &place, &record);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ok(!opened_wrong, "a sealed page whose record has any bit flipped does not open");
	ok(opens(seal, &place, &record), "an unchanged sealed page and record still open after the bit flips");
}

/* libsodium seals the page to the same bytes. It has AES-256-GCM only for some processors. */
static void seal_agrees_with_libsodium(struct seal *seal)
{
	uint8_t nonce[crypto_aead_aes256gcm_NPUBBYTES] = {0}, bound[10], expected[STORE_PAGE], tag[16];
	struct seal_record record;

	if (sodium_init() < 0 || !crypto_aead_aes256gcm_is_available()) {
		tap_skip("AES-256-GCM", "libsodium has none on this processor");
		return;
	}
	seal_encrypt(seal, &place, page, sealed, &record);
	memcpy(nonce, &record.number, sizeof record.number);
	memcpy(bound, &place.page, sizeof place.page);
	memcpy(bound + 8, &place.generation, sizeof place.generation);
	crypto_aead_aes256gcm_encrypt_detached(expected, tag, NULL, page, STORE_PAGE, bound, sizeof bound, NULL, nonce,
					       key);
	ok(!memcmp(expected, sealed, STORE_PAGE) && !memcmp(tag, record.tag, sizeof tag),
	   "a sealed page and its tag equal AES-256-GCM of libsodium");
}

/* --- Numbers ---------------------------------------------------------------------------------------------------- */

static uint64_t numbers_used[(THREADS + 1) * EACH];

static struct numbering {
	_Atomic uint64_t *numbers;
	uint64_t *used;
} numberings[THREADS + 1];

static void *use_numbers(void *argument)
{
	struct numbering *numbering = argument;
	struct seal *seal = seal_or_die(key, numbering->numbers);
	uint8_t data[STORE_PAGE] = {1}, out[STORE_PAGE];
	struct seal_record record;

	for (unsigned i = 0; i < EACH; i++) {
		seal_encrypt(seal, &place, data, out, &record);
		numbering->used[i] = record.number;
	}
	seal_close(seal);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void no_number_is_used_twice(void)
{
	_Atomic uint64_t numbers = 0;
	pthread_t threads[THREADS];
	unsigned twice = 0;

	for (unsigned i = 0; i <= THREADS; i++)
		numberings[i] = (struct numbering){.numbers = &numbers, .used = numbers_used + (size_t)i * EACH};
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, use_numbers, &numberings[i]))
			abort();
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	use_numbers(&numberings[THREADS]); /* like the next process, which inherits only the counter */
	qsort(numbers_used, (THREADS + 1) * EACH, sizeof numbers_used[0], compare);
	for (unsigned i = 1; i < (THREADS + 1) * EACH; i++)
		twice += numbers_used[i] == numbers_used[i - 1];
	ok(!twice, "of %u pages sealed by several threads and a successor, none shares a number", (THREADS + 1) * EACH);
}

int main(void)
{
	_Atomic uint64_t numbers = 0;
	struct random_state random;
	struct seal *seal;

	random_seed(&random, 1);
	for (unsigned i = 0; i < STORE_PAGE; i++)
		page[i] = (uint8_t)random_next(&random);
	if (seal_load() < 0)
		return tap_skip_all("libcrypto cannot be loaded");
	seal = seal_or_die(key, &numbers);
	sealed_page_opens_again(seal);
	wrong_place_or_key_does_not_open_a_page(seal);
	flipped_bit_keeps_a_page_closed(seal);
	seal_agrees_with_libsodium(seal);
	no_number_is_used_twice();
	seal_close(seal);
	return tap_done();
}
