/*
 * store_faulty: a store for tests of code that uses a store. It passes requests on to an inner store, and injects
 * faults. A seed determines the faults.
 *
 * Theory of operation. When a request is submitted, its fault is chosen:
 *
 *   fails      The request does not reach the inner store, so the page's contents do not change.
 *   corrupted  The page is read from the inner store, and one of its bytes is changed. The answer is -EBADMSG, as from
 *              a store that checks its pages.
 *   delayed    The completion is reported some polls later. Later requests may complete before it.
 *
 * Threads. Each queue belongs to one thread, like a queue of the inner store. Each queue also has a random generator,
 * whose seed depends on the number of queues opened before.
 */
#ifndef TESTS_LIB_STORE_FAULTY_H
#define TESTS_LIB_STORE_FAULTY_H

#include "client/store.h"

/* The chance of each fault for one request, in 1/65536. */
struct store_faults {
	uint64_t seed;
	uint16_t read_error, write_error, corrupt; /* complete with -EIO, -EIO and -EBADMSG */
	uint16_t delay;                            /* completes `delay_polls` polls later */
	unsigned delay_polls;
};

/* Opens a store that injects @faults into @inner, which the caller owns. Returns 0 or -ENOMEM. */
int store_open_faulty(struct store *inner, const struct store_faults *faults, struct store **ret_store);

#endif
