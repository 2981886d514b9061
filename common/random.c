/* random: see random.h. The generator is xoshiro256** (D. Blackman and S. Vigna, "Scrambled linear pseudorandom
   number generators", 2018), with its state filled by splitmix64, as the authors advise. random_below() follows D.
   Lemire, "Fast random integer generation in an interval" (2019). */
#include "common/random.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

static uint64_t rotate_left(uint64_t x, unsigned count)
{
	return x << count | x >> (64 - count);
}

/* Returns the next number of splitmix64. No seed, not even 0, fills xoshiro's state with zeroes, in which it would
   return only 0. */
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
		/* Rejects products whose lower half is below the threshold, because they would make some results more
		   likely than others. */
		uint64_t threshold = -bound % bound;

		while ((uint64_t)product < threshold)
			product = (unsigned __int128)random_next(state) * bound;
	}
	return (uint64_t)(product >> 64);
}

void random_secret(void *bytes, uint64_t size)
{
	/* Any thread may call sodium_init(), and more than once. sodium_init() fails if the kernel gives no random
	   numbers. No secret would then be safe, so abort. */
	if (sodium_init() < 0)
		abort();
	randombytes_buf(bytes, size);
}
