/* mix: random-looking numbers for tests, which are the same in each run. Source: the finalizer of MurmurHash3. */
#ifndef TESTS_LIB_MIX_H
#define TESTS_LIB_MIX_H

#include <stdint.h>

static inline uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

/* Returns the next number. *@chance is the state of the generator; its first value can be any number. */
static inline uint64_t draw(uint64_t *chance)
{
	return mix(*chance += UINT64_C(0x9e3779b97f4a7c15));
}

#endif
