/*
 * flips: flips one bit of a read or a write on its way between a client and a donor.
 *
 * Theory of operation. The linker's --wrap puts flips.c between client and fabric. The bit of a read flips in the
 * reader's buffer, just before its answer is reported. The bit of a write flips in a copy, which is sent instead of the
 * caller's memory. So another replica of the same write is right. The answers report success.
 *
 * Threads. Any thread may call these functions, and any may post: the operations of all threads are numbered together.
 */
#ifndef TESTS_FUNC_CLIENT_FLIPS_H
#define TESTS_FUNC_CLIENT_FLIPS_H

#include <stdint.h>

/* Flips a bit of one operation: the @number-th that is posted from now on. The next one is 1. */
void flips_at(uint64_t number);
/* From now on flips a bit of each operation with a chance of @per_million. The seed is fixed. */
void flips_often(uint64_t per_million);

#endif
