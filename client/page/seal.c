/* seal: see seal.h. */
#include "client/page/seal.h"

#include "client/store.h"
#include "common/log.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SEAL_TAG_SIZE 16
#define SEAL_NONCE_SIZE 12
#define SEAL_PLACE_SIZE 10
/* The memory of libcrypto 3.0, and of one cipher context for AES-256-GCM. Both were measured. They include the heap,
   and data that processes do not share. */
#define LIBRARY_BYTES (600u << 10)
#define CONTEXT_BYTES 1536u

#define STRING(x) #x
#define STRING_OF(x) STRING(x)
#define LIBRARY "libcrypto.so." STRING_OF(OPENSSL_SHLIB_VERSION)

struct seal {
	EVP_CIPHER_CTX *encrypt, *decrypt;
	_Atomic uint64_t *numbers;
	uint64_t next, end; /* numbers that were taken from the counter and are not used yet */
	uint8_t scratch[STORE_PAGE];
};

/* --- The library ------------------------------------------------------------------------------------------------ */

#define FUNCTIONS(X)                                                                                                   \
	X(OSSL_LIB_CTX_new)                                                                                            \
	X(EVP_CIPHER_fetch)                                                                                            \
	X(EVP_CIPHER_CTX_new)                                                                                          \
	X(EVP_CIPHER_CTX_free)                                                                                         \
	X(EVP_CIPHER_CTX_ctrl)                                                                                         \
	X(EVP_EncryptInit_ex2)                                                                                         \
	X(EVP_EncryptUpdate)                                                                                           \
	X(EVP_EncryptFinal_ex)                                                                                         \
	X(EVP_DecryptInit_ex2)                                                                                         \
	X(EVP_DecryptUpdate)                                                                                           \
	X(EVP_DecryptFinal_ex)

#define MEMBER(name) __typeof__(name) *name;
/* Written once, by library_load(). */
static struct {
	FUNCTIONS(MEMBER)
	EVP_CIPHER *cipher; /* NULL if the library cannot be used */
} library;

static bool library_find(void *handle)
{
	void *found = NULL;

#define FIND(name)                                                                                                     \
	found = dlsym(handle, #name);                                                                                  \
	if (!found)                                                                                                    \
		return false;                                                                                          \
	memcpy(&library.name, &found, sizeof found);
	FUNCTIONS(FIND)
	return true;
}

static void library_load(void)
{
	/* RTLD_NOW binds all names now, because a thread that serves a fault later must not wait for the dynamic
	   linker. The library is never unloaded. */
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	OSSL_LIB_CTX *context = handle && library_find(handle) ? library.OSSL_LIB_CTX_new() : NULL;

	if (context)
		library.cipher = library.EVP_CIPHER_fetch(context, "AES-256-GCM", "provider=default");
}

bool seal_find(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, library_load);
	return library.cipher;
}

int seal_load(void)
{
	if (seal_find())
		return 0;
	log_error("pages cannot be encrypted without AES-256-GCM of OpenSSL's %s: install it (Debian: libssl3)",
		  LIBRARY);
	return -ELIBACC;
}

/* --- Opening and closing ---------------------------------------------------------------------------------------- */

/* Calls each function of the library once, so that later calls allocate and bind nothing. Returns true if all
   work. */
static bool seal_try(struct seal *seal)
{
	struct seal_place place = {0};
	struct seal_record record;
	bool good;

	memset(seal->scratch, 1, STORE_PAGE);
	seal_encrypt(seal, &place, seal->scratch, seal->scratch, &record);
	good = seal_decrypt(seal, &place, &record, seal->scratch, seal->scratch);
	return good && !seal_decrypt(seal, &place, &record, seal->scratch, seal->scratch);
}

int seal_open(const uint8_t key[SEAL_KEY_SIZE], _Atomic uint64_t *numbers, struct seal **ret_seal)
{
	struct seal *seal = calloc(1, sizeof *seal);

	assert(library.cipher);
	if (!seal)
		return -ENOMEM;
	seal->numbers = numbers;
	seal->encrypt = library.EVP_CIPHER_CTX_new();
	seal->decrypt = library.EVP_CIPHER_CTX_new();
	if (!seal->encrypt || !seal->decrypt ||
	    library.EVP_EncryptInit_ex2(seal->encrypt, library.cipher, key, NULL, NULL) != 1 ||
	    library.EVP_DecryptInit_ex2(seal->decrypt, library.cipher, key, NULL, NULL) != 1 || !seal_try(seal)) {
		seal_close(seal);
		return -ENOMEM;
	}
	*ret_seal = seal;
	return 0;
}

void seal_close(struct seal *seal)
{
	if (!seal)
		return;
	/* Both calls also wipe the keys. */
	library.EVP_CIPHER_CTX_free(seal->encrypt);
	library.EVP_CIPHER_CTX_free(seal->decrypt);
	explicit_bzero(seal->scratch, sizeof seal->scratch);
	free(seal);
}

uint64_t seal_memory(void)
{
	return sizeof(struct seal) + 2 * CONTEXT_BYTES;
}

uint64_t seal_library_memory(void)
{
	return LIBRARY_BYTES;
}

/* --- Pages ------------------------------------------------------------------------------------------------------ */

static uint64_t number_take(struct seal *seal)
{
	if (seal->next == seal->end) {
		seal->next = atomic_fetch_add_explicit(seal->numbers, SEAL_BLOCK, memory_order_relaxed);
		seal->end = seal->next + SEAL_BLOCK;
	}
	return seal->next++;
}

/* The nonce is the number and then zeroes. In any byte order, different numbers give different nonces. */
static void nonce_of(uint64_t number, uint8_t nonce[SEAL_NONCE_SIZE])
{
	memset(nonce, 0, SEAL_NONCE_SIZE);
	memcpy(nonce, &number, sizeof number);
}

static void place_of(const struct seal_place *place, uint8_t bytes[SEAL_PLACE_SIZE])
{
	memcpy(bytes, &place->page, sizeof place->page);
	memcpy(bytes + sizeof place->page, &place->generation, sizeof place->generation);
}

static void encrypt_as(struct seal *seal, const struct seal_place *place, uint64_t number, const void *data, void *out,
		       uint64_t tag[2])
{
	uint8_t nonce[SEAL_NONCE_SIZE], bytes[SEAL_PLACE_SIZE], none[SEAL_TAG_SIZE];
	int length;
	bool good;

	nonce_of(number, nonce);
	place_of(place, bytes);
	good = library.EVP_EncryptInit_ex2(seal->encrypt, NULL, NULL, nonce, NULL) == 1 &&
	       library.EVP_EncryptUpdate(seal->encrypt, NULL, &length, bytes, sizeof bytes) == 1 &&
	       library.EVP_EncryptUpdate(seal->encrypt, out, &length, data, STORE_PAGE) == 1 &&
	       length == (int)STORE_PAGE && library.EVP_EncryptFinal_ex(seal->encrypt, none, &length) == 1 &&
	       library.EVP_CIPHER_CTX_ctrl(seal->encrypt, EVP_CTRL_AEAD_GET_TAG, SEAL_TAG_SIZE, tag) == 1;
	/* Only a bug of ours can make this fail. Aborts, so that the page is not sent unencrypted. */
	if (!good)
		abort();
}

void seal_encrypt(struct seal *seal, const struct seal_place *place, const void *data, void *out,
		  struct seal_record *ret_record)
{
	ret_record->number = number_take(seal);
	encrypt_as(seal, place, ret_record->number, data, out, ret_record->tag);
}

bool seal_decrypt(struct seal *seal, const struct seal_place *place, const struct seal_record *record, const void *data,
		  void *out)
{
	uint8_t nonce[SEAL_NONCE_SIZE], bytes[SEAL_PLACE_SIZE], none[SEAL_TAG_SIZE];
	struct seal_record expected = *record; /* the library's function takes a pointer to non-const */
	int length;
	bool good;

	if (!out)
		out = seal->scratch;
	nonce_of(record->number, nonce);
	place_of(place, bytes);
	good = library.EVP_DecryptInit_ex2(seal->decrypt, NULL, NULL, nonce, NULL) == 1 &&
	       library.EVP_DecryptUpdate(seal->decrypt, NULL, &length, bytes, sizeof bytes) == 1 &&
	       library.EVP_DecryptUpdate(seal->decrypt, out, &length, data, STORE_PAGE) == 1 &&
	       library.EVP_CIPHER_CTX_ctrl(seal->decrypt, EVP_CTRL_AEAD_SET_TAG, SEAL_TAG_SIZE, expected.tag) == 1 &&
	       library.EVP_DecryptFinal_ex(seal->decrypt, none, &length) == 1;
	if (!good)
		memset(out, 0, STORE_PAGE);
	return good;
}

bool seal_is(struct seal *seal, const struct seal_place *place, const struct seal_record *record, const void *data)
{
	uint64_t tag[2];

	encrypt_as(seal, place, record->number, data, seal->scratch, tag);
	return tag[0] == record->tag[0] && tag[1] == record->tag[1];
}
