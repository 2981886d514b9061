/*
 * ask: the same question to every donor at once, on a thread each, so that the slowest decides how long it takes and
 * not the sum; and what all verbs say about answers alike.
 */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "client/far.h"

#include <stdint.h>

struct ask {
	const struct far_config *config;
	const char *uri;
	void *answer; /* of the asker's own kind */
	int status;   /* 0, or -errno: set by the question */
};

/* Calls @question for each of @asks and waits for all. */
void ask_all(struct ask *asks, unsigned count, void (*question)(struct ask *ask));
/* A question: what far_query() gives, into a struct far_donor. It logs a line about what it cannot ask. */
void ask_figures(struct ask *ask);

/* Bytes a donor still has; its operator may have lowered what it lends below what is leased. */
uint64_t ask_free(const struct far_donor *donor);
/* Why a donor did not answer, in a few words. */
const char *ask_reason(int status);

#endif
