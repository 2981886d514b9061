/*
 * ask: asks all donors the same question at the same time, at most 64 of them. So up to 64 donors together take only as
 * long as the slowest donor. This module also reads the key for these questions, and explains answers to the
 * user.
 */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "client/far.h"
#include "wire/auth.h"

#include <stdint.h>

struct ask {
	const struct far_config *config;
	const char *uri;
	void *answer; /* its type depends on the function that asks */
	int status;   /* 0 or -errno; the function that asks sets it */
};

/* Calls @question for each of the @count @asks, in several threads. Returns when all calls have returned. */
void ask_all(struct ask *asks, unsigned count, void (*question)(struct ask *ask));
/* A question for ask_all(). Calls far_query(), which writes the donor's figures to ask->answer, a struct
   far_donor_info. far_query() logs a line if it fails. */
void ask_figures(struct ask *ask);

/* Reads the key from the file @path into @key, and makes @config use this key and the name of this process's user. @key
   must live as long as @config. A NULL @path means no key. Returns 0, or -errno after one logged line. */
int ask_with_key(struct far_config *config, const char *path, uint8_t key[AUTH_KEY_SIZE]);

/* Returns the bytes that clients can still lease from @donor. This is 0 if an operator has lowered the donated size
   below the leased size. */
uint64_t ask_free(const struct far_donor_info *donor);
/* Returns the reason, in a few words, why a donor did not answer. @status is -errno. */
const char *ask_reason(int status);

#endif
