/*
 * random: a seeded generator (xoshiro256**, Blackman and Vigna 2018) for placement and fault schedules, so that any
 * history replays from its seed; not for secrets. One owner thread per generator.
 */
#ifndef COMMON_RANDOM_H
#define COMMON_RANDOM_H
#include <stdint.h>
struct random_state {
	uint64_t s[4];
};
void random_seed(struct random_state *state, uint64_t seed);
uint64_t random_next(struct random_state *state);
/* Uniform in 0 .. @bound - 1; @bound > 0. */
uint64_t random_below(struct random_state *state, uint64_t bound);
/* Secrets: @size bytes from the kernel (libsodium's randombytes_buf). Any thread. */
void random_secret(void *bytes, uint64_t size);
#endif
