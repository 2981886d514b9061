/*
 * seal: encrypts one page with AES-256-GCM, so that a machine that stores or forwards the page can neither read nor
 * change it.
 *
 * Theory of operation. seal_encrypt() turns a page into a sealed page of the same length and a record: a number and a
 * tag. The caller keeps the record. seal_decrypt() needs the record, and the place for which the page was sealed
 * (struct seal_place). If page, record and place do not belong together, seal_decrypt() fails.
 *
 * The number is the cipher's nonce, and must never be used twice with one key. It therefore comes from a counter
 * that lives as long as the key. Each struct seal takes SEAL_BLOCK numbers at a time. At a million pages a second,
 * 2^64 numbers last for half a million years.
 *
 * The cipher is OpenSSL's (EVP), because it is faster than libsodium's. Each struct seal keeps its contexts, and sets
 * only the nonce for each page. On an EPYC with AES and AVX instructions, OpenSSL 3.0 then seals a page of 4096 bytes
 * in 1.08 us (p50) and opens it in 1.09 us. libsodium 1.0.18 takes 2.25 and 2.51 us. On a processor without AES
 * instructions, OpenSSL's cipher runs in software.
 *
 * libcrypto is loaded when it is first needed (seal_load()), and is not linked. The reason is the preload library,
 * which is in every process of a program. These processes must not load a library that they do not use. The library's
 * symbols must not replace symbols of the program. All memory of libcrypto, including its caches, belongs to a
 * library context of our own. The thread that opens the store creates this context, so a thread that serves faults
 * touches no memory of the program.
 *
 * Threads. A struct seal is used by one thread at a time. seal_encrypt(), seal_decrypt() and seal_is() do not
 * allocate. Any thread may call seal_load() and seal_open(). Threads share only the library, which does not change
 * after it is loaded.
 */
#ifndef CLIENT_SEAL_H
#define CLIENT_SEAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SEAL_KEY_SIZE 32u
#define SEAL_BLOCK UINT64_C(1024)

struct seal;

/* The place of a page. It is authenticated together with the page. */
struct seal_place {
	uint64_t page;
	uint16_t generation;
};

struct seal_record {
	uint64_t number;
	uint64_t tag[2];
};

/* Loads the library if this was not tried before. Returns true if the library can be used. */
bool seal_find(void);
/* Like seal_find(), but returns 0, or logs one line and returns -ELIBACC if the library cannot be used. */
int seal_load(void);
/* Opens a struct seal. seal_load() must have succeeded. All numbers below *@numbers may have been used with @key,
   so *@numbers must live as long as @key, and outlive the struct seal. Returns 0 or -ENOMEM. */
int seal_open(const uint8_t key[SEAL_KEY_SIZE], _Atomic uint64_t *numbers, struct seal **ret_seal);
/* Wipes the key and frees @seal. NULL is allowed. */
void seal_close(struct seal *seal);
/* Returns the approximate memory of one struct seal in bytes. */
uint64_t seal_memory(void);
/* Returns the approximate memory of libcrypto in bytes. */
uint64_t seal_library_memory(void);

/* Seals the page @data into @out, with a new number. @out is @data, or does not overlap it. */
void seal_encrypt(struct seal *seal, const struct seal_place *place, const void *data, void *out,
		  struct seal_record *ret_record);
/* Opens the sealed page @data into @out, which may be @data, or NULL for a check without output. Returns false, and
   makes @out all zero, if @data is not the page that was sealed for this place. */
bool seal_decrypt(struct seal *seal, const struct seal_place *place, const struct seal_record *record, const void *data,
		  void *out);
/* Returns true if @data is the page that was sealed as @record. Seals @data again for this place and under the same
   number, compares the tag, and drops the result. */
bool seal_is(struct seal *seal, const struct seal_place *place, const struct seal_record *record, const void *data);

#endif
