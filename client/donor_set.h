/*
 * donor_set: sets of a store's donors, which are named by their places. A set of all zeroes is empty.
 *
 *   donor_set   any donors; only the control thread uses it
 *   few_donors  the donors that one request or one chunk uses; its size does not depend on how many donors a store may
 *               have, because the data path clears and copies it with each request
 *
 * Threads: one at a time.
 */
#ifndef CLIENT_DONOR_SET_H
#define CLIENT_DONOR_SET_H

#include "client/far.h"

#include <stdbool.h>
#include <stdint.h>

#define DONOR_SET_WORDS (FAR_DONORS_MAX / 64)
_Static_assert(FAR_DONORS_MAX % 64 == 0, "a bit for each donor");

struct donor_set {
	uint64_t words[DONOR_SET_WORDS];
};

static inline bool donor_set_has(const struct donor_set *set, unsigned donor)
{
	return set->words[donor / 64] >> donor % 64 & 1;
}

static inline void donor_set_add(struct donor_set *set, unsigned donor)
{
	set->words[donor / 64] |= UINT64_C(1) << donor % 64;
}

static inline void donor_set_remove(struct donor_set *set, unsigned donor)
{
	set->words[donor / 64] &= ~(UINT64_C(1) << donor % 64);
}

/* Returns the first donor from @donor on that is in the set, or -1. */
static inline int donor_set_next(const struct donor_set *set, unsigned donor)
{
	for (unsigned i = donor / 64; i < DONOR_SET_WORDS; i++) {
		uint64_t word = set->words[i] & (i == donor / 64 ? UINT64_MAX << donor % 64 : UINT64_MAX);

		if (word)
			return (int)(i * 64) + __builtin_ctzll(word);
	}
	return -1;
}

static inline bool donor_set_is_empty(const struct donor_set *set)
{
	return donor_set_next(set, 0) < 0;
}

#define FEW_DONORS_MAX 15u
_Static_assert(FEW_DONORS_MAX >= FAR_SLOTS_MAX, "the donors of a chunk");
_Static_assert(FAR_DONORS_MAX <= UINT16_MAX, "a donor in 16 bits");

struct few_donors {
	uint16_t count;
	uint16_t donors[FEW_DONORS_MAX];
};

static inline bool few_donors_has(const struct few_donors *few, unsigned donor)
{
	for (unsigned i = 0; i < few->count; i++)
		if (few->donors[i] == donor)
			return true;
	return false;
}

static inline bool few_donors_is_full(const struct few_donors *few)
{
	return few->count == FEW_DONORS_MAX;
}

/* Adds a donor, unless the set is full. */
static inline void few_donors_add(struct few_donors *few, unsigned donor)
{
	if (!few_donors_is_full(few) && !few_donors_has(few, donor))
		few->donors[few->count++] = (uint16_t)donor;
}

static inline void few_donors_remove(struct few_donors *few, unsigned donor)
{
	for (unsigned i = 0; i < few->count; i++)
		if (few->donors[i] == donor)
			few->donors[i--] = few->donors[--few->count];
}

#endif
