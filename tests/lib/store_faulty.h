/*
 * store_faulty: injects faults into another store, at random from a seed. It serves tests of code that uses a store.
 *
 * Theory of operation. The fate of a request is decided when it is submitted.
 *
 *   fails      The request never reaches the inner store, so the page keeps its contents.
 *   corrupted  The page is read from the inner store, and one of its bytes is changed. The answer is -EBADMSG, as from
 *              a store that checks its pages.
 *   delayed    The completion is held back for a number of polls. Later completions may overtake it.
 *
 * Threads. Each queue belongs to one thread, like those of the inner store. Each queue has its own random generator,
 * seeded by the order in which queues are opened.
 */
#ifndef TESTS_LIB_STORE_FAULTY_H
#define TESTS_LIB_STORE_FAULTY_H

#include "client/store.h"

/* Faults to inject. Each chance is per request, in 1/65536. */
struct store_faults {
	uint64_t seed;
	uint16_t read_error, write_error, corrupt; /* complete with -EIO, -EIO, -EBADMSG */
	uint16_t delay;                            /* completes `delay_polls` polls later */
	unsigned delay_polls;
};

/* Opens a store that injects @faults into @inner, which the caller owns. Returns 0 or -ENOMEM. */
int store_open_faulty(struct store *inner, const struct store_faults *faults, struct store **ret_store);

#endif
