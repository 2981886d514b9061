/* bytes: random bytes for the fields of messages, and a check that a refused message wrote nothing. */
#ifndef TESTS_UNIT_WIRE_BYTES_H
#define TESTS_UNIT_WIRE_BYTES_H

#include "common/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline void random_bytes(struct random_state *randomness, uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)random_next(randomness);
}

/* Returns true if every byte of @object is still 0x5a. */
static inline bool is_untouched(const void *object, size_t size)
{
	const uint8_t *bytes = object;

	for (size_t i = 0; i < size; i++) {
		if (bytes[i] != 0x5a)
			return false;
	}
	return true;
}

#endif
