/*
 * seal: AES-256-GCM of one page, so that who stores or carries it can neither read nor change it.
 *
 * Theory of operation. The cipher is OpenSSL's (EVP), which sealed a page of 4096 bytes in half the time that libsodium
 * took; without AES instructions it is computed in software. A sealed page is as long as it was; its tag and its number
 * are the caller's to keep, and with the place it was sealed for they are what opens it. A page's number is its nonce:
 * it comes from a counter that outlives all that use the key, so that none is used twice. Each struct seal takes
 * SEAL_BLOCK of them at a time. 2^64 are enough: at a million pages a second for half a million years.
 *
 * libcrypto is loaded when it is first needed, and not linked: the preload library is in every process of a program,
 * which should neither wait for a library it does not use, nor get that one's names instead of its own. What it
 * allocates, also in caches of its own, is of a library context of ours, made by the thread that opens the store:
 * nothing of the program's is touched by one that serves faults.
 *
 * Threads. A struct seal is used by one at a time; seal_load() and seal_open() by any. seal_encrypt(), seal_decrypt()
 * and seal_is() do not allocate. The one thing that all share, the library, is not changed once it is loaded.
 */
#ifndef CLIENT_SEAL_H
#define CLIENT_SEAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SEAL_KEY_SIZE 32u
#define SEAL_BLOCK UINT64_C(1024)

struct seal;

/* What is authenticated with a page. */
struct seal_place {
	uint64_t page;
	uint16_t generation;
};

/* What opens it. */
struct seal_record {
	uint64_t number;
	uint64_t tag[2];
};

/* Loads the library; whether it can be had. */
bool seal_find(void);
/* Likewise: -ELIBACC, logged, when it cannot. */
int seal_load(void);
/* After seal_load(). @numbers outlives it, and is for the life of @key: those below it were given out. -ENOMEM. */
int seal_open(const uint8_t key[SEAL_KEY_SIZE], _Atomic uint64_t *numbers, struct seal **ret_seal);
/* Takes NULL. */
void seal_close(struct seal *seal);
/* Bytes of one, about, and of the library. */
uint64_t seal_memory(void);
uint64_t seal_library_memory(void);

/* Seals the page @data into @out, which is elsewhere, under a number that was never used before. */
void seal_encrypt(struct seal *seal, const struct seal_place *place, const void *data, void *out,
		  struct seal_record *ret_record);
/* Opens @data into @out, which may be the same, or NULL: nowhere. False: it is not what was sealed for this place, and
   @out is all zero. */
bool seal_decrypt(struct seal *seal, const struct seal_place *place, const struct seal_record *record, const void *data,
		  void *out);
/* Whether @data, sealed once more for this place under the same number, would be the same. It goes nowhere. */
bool seal_is(struct seal *seal, const struct seal_place *place, const struct seal_record *record, const void *data);

#endif
