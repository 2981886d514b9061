/*
 * ask: asks all donors the same question at the same time, each in a thread of its own. So the duration is that of the
 * slowest donor. This file also has the texts about answers that all verbs share.
 */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "client/far.h"
#include "wire/auth.h"

#include <stdint.h>

struct ask {
	const struct far_config *config;
	const char *uri;
	void *answer; /* defined by the question */
	int status;   /* 0 or -errno, set by the question */
};

/* Calls @question for each of the @count @asks, each in its own thread. Returns when all calls have returned. */
void ask_all(struct ask *asks, unsigned count, void (*question)(struct ask *ask));
/* A question for ask_all(). Calls far_query(), which writes the donor's figures to ask->answer, a struct far_donor_info.
   far_query() logs a line if it fails. */
void ask_figures(struct ask *ask);

/* Has @config use the key in the file @path, or none if @path is NULL. @key must live as long as @config. Returns 0, or
   -errno after one logged line. */
int ask_with_key(struct far_config *config, const char *path, uint8_t key[AUTH_KEY_SIZE]);

/* Returns the bytes that @donor can still lease. Returns 0 if its operator has lowered the donated size below the
   leased size. */
uint64_t ask_free(const struct far_donor_info *donor);
/* Returns in a few words why a donor did not answer. @status is -errno. */
const char *ask_reason(int status);

#endif
