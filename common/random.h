/* random: a generator of random numbers (xoshiro256**), for placing slabs and for tests. Equal seeds yield equal
   numbers, so a test can be repeated. The numbers can be predicted, so use random_secret() for secrets. Each generator
   has one owner thread. */
#ifndef COMMON_RANDOM_H
#define COMMON_RANDOM_H
#include <stdint.h>
struct random_state {
	uint64_t s[4];
};
void random_seed(struct random_state *state, uint64_t seed);
uint64_t random_next(struct random_state *state);
/* @bound must be > 0. Returns a number from 0 to @bound - 1, each with equal probability. */
uint64_t random_below(struct random_state *state, uint64_t bound);
/* Writes @size random bytes that nobody can predict (libsodium's randombytes_buf). Aborts if libsodium cannot start.
   Any thread. */
void random_secret(void *bytes, uint64_t size);
#endif
