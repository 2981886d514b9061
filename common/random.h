/*
 * random: a seeded generator (xoshiro256**, Blackman and Vigna 2018) for placement, and for the histories of tests. A
 * history can be replayed from its seed. Do not use this generator for secrets. Each generator has one owner thread.
 */
#ifndef COMMON_RANDOM_H
#define COMMON_RANDOM_H
#include <stdint.h>
struct random_state {
	uint64_t s[4];
};
void random_seed(struct random_state *state, uint64_t seed);
uint64_t random_next(struct random_state *state);
/* Returns a uniform number in 0 .. @bound - 1. @bound must be > 0. */
uint64_t random_below(struct random_state *state, uint64_t bound);
/* Writes @size random bytes fit for secrets (libsodium's randombytes_buf). Aborts if libsodium does not start. Any
   thread. */
void random_secret(void *bytes, uint64_t size);
#endif
