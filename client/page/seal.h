/*
 * seal: encrypts one page with AES-256-GCM, so that a machine that stores or carries it can neither read nor change it.
 *
 * Theory of operation. The cipher is OpenSSL's (EVP). On an EPYC with AES and AVX instructions, OpenSSL 3.0 seals a
 * page of 4096 bytes in 1.08 us (p50) and opens it in 1.09 us. For this, contexts are kept and only the nonce is set.
 * libsodium 1.0.18 takes 2.25 and 2.51 us. On a processor without AES instructions the cipher runs in software.
 *
 * A sealed page is as long as the page. The caller keeps the page's tag and number. Opening the page needs both, and
 * the place (struct seal_place) for which it was sealed. The number is the nonce. It comes from a counter that lives as
 * long as the key, so no number is used twice. Each struct seal takes SEAL_BLOCK numbers at a time. 2^64 numbers last
 * for half a million years at a million pages a second.
 *
 * libcrypto is loaded when it is first needed, and is not linked. The preload library is in every process of a program.
 * Such a process must not wait for a library that it does not use. Nor may that library's symbols take the place of the
 * program's own. All memory of libcrypto, its caches included, belongs to a library context of our own. The thread that
 * opens the store creates that context. So a thread that serves faults touches no memory of the program.
 *
 * Threads. One thread at a time uses a struct seal. Any thread may call seal_load() and seal_open(). seal_encrypt(),
 * seal_decrypt() and seal_is() do not allocate. All threads share only the library, which does not change once it is
 * loaded.
 */
#ifndef CLIENT_SEAL_H
#define CLIENT_SEAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SEAL_KEY_SIZE 32u
#define SEAL_BLOCK UINT64_C(1024)

struct seal;

/* The place of a page, which is authenticated together with the page. */
struct seal_place {
	uint64_t page;
	uint16_t generation;
};

/* The record that opens a sealed page. */
struct seal_record {
	uint64_t number;
	uint64_t tag[2];
};

/* Loads the library, unless it is loaded. Returns true if it can be used. */
bool seal_find(void);
/* Loads the library, unless it is loaded. Returns 0. If it cannot be used, logs this and returns -ELIBACC. */
int seal_load(void);
/* Opens a sealer. seal_load() must have succeeded. All numbers below *@numbers have been used with @key. So @numbers
   must outlive the sealer, and live as long as @key. Returns 0 or -ENOMEM. */
int seal_open(const uint8_t key[SEAL_KEY_SIZE], _Atomic uint64_t *numbers, struct seal **ret_seal);
/* Wipes the key and frees @seal. NULL is allowed. */
void seal_close(struct seal *seal);
/* Returns about how many bytes one sealer takes. */
uint64_t seal_memory(void);
/* Returns the approximate memory of libcrypto in bytes. */
uint64_t seal_library_memory(void);

/* Seals the page @data into @out, under a number that was never used before. @out must not partly overlap @data. */
void seal_encrypt(struct seal *seal, const struct seal_place *place, const void *data, void *out,
		  struct seal_record *ret_record);
/* Opens the sealed page @data into @out. @out may be @data, or NULL to only check the page. Returns false if @data is
   not the page that was sealed for this place. @out is then all zero. */
bool seal_decrypt(struct seal *seal, const struct seal_place *place, const struct seal_record *record, const void *data,
		  void *out);
/* Returns true if sealing @data again, for this place and under the same number, gives the same tag. The result is not
   stored. */
bool seal_is(struct seal *seal, const struct seal_place *place, const struct seal_record *record, const void *data);

#endif
