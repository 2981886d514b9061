/*
 * random: see random.h. The generator is xoshiro256** of D. Blackman and S. Vigna, "Scrambled linear pseudorandom
 * number generators" (2018). splitmix64 fills its state, as they advise. Bounded numbers follow D. Lemire, "Fast random
 * integer generation in an interval" (2019).
 */
#include "common/random.h"
#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

static uint64_t rotate_left(uint64_t x, unsigned count)
{
	return x << count | x >> (64 - count);
}

/* Makes one step of splitmix64. No seed, not even 0, leads to the all-zero state, which xoshiro never leaves. */
static uint64_t splitmix_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

void random_seed(struct random_state *state, uint64_t seed)
{
	for (unsigned i = 0; i < 4; i++)
		state->s[i] = splitmix_next(&seed);
}

uint64_t random_next(struct random_state *state)
{
	uint64_t *s = state->s;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

uint64_t random_below(struct random_state *state, uint64_t bound)
{
	assert(bound > 0);
	unsigned __int128 product = (unsigned __int128)random_next(state) * bound;
	if ((uint64_t)product < bound) {
		/* Products with a lower half below the threshold are rejected: they would make some results too
		   likely. */
		uint64_t threshold = -bound % bound;
		while ((uint64_t)product < threshold)
			product = (unsigned __int128)random_next(state) * bound;
	}
	return (uint64_t)(product >> 64);
}

void random_secret(void *bytes, uint64_t size)
{
	/* sodium_init() may be called again, and in any thread. Without the kernel's random numbers no secret is safe,
	   so abort. */
	if (sodium_init() < 0)
		abort();
	randombytes_buf(bytes, size);
}
