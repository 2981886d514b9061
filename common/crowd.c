/* crowd: see crowd.h. */
#include "common/crowd.h"

#include <assert.h>

/* A power of two, and so large that probes are short. */
#define PLACES (4 * CROWD_MAX)

/* A hash table with linear probing: how many strangers each origin has. */
struct origins {
	uint64_t salt; /* random, so that an attacker cannot choose origins that collide */
	uint64_t of[PLACES];
	uint16_t counts[PLACES]; /* 0 for a free place */
};

static uint16_t *origin_count(struct origins *origins, uint64_t origin)
{
	uint64_t hash = (origin ^ origins->salt) * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t place = (uint32_t)(hash >> 32) % PLACES;

	while (origins->counts[place] && origins->of[place] != origin)
		place = (place + 1) % PLACES;
	origins->of[place] = origin;
	return &origins->counts[place];
}

uint32_t crowd_victim(const struct crowd_one *ones, uint32_t count, const struct crowd_one *newcomer, uint64_t chance)
{
	struct origins origins = {.salt = chance};
	uint32_t candidates[CROWD_MAX], candidate_count = 0;
	uint16_t most = 0;
	bool known = true; /* true if all strangers name a known client; the victim is then one of them */

	assert(count && count <= CROWD_MAX);
	for (uint32_t i = 0; i < count; i++)
		known &= ones[i].known;
	if (known && !newcomer->known)
		return CROWD_NEWCOMER;
	if (newcomer->known == known)
		++*origin_count(&origins, newcomer->origin);
	for (uint32_t i = 0; i < count; i++)
		if (ones[i].known == known)
			++*origin_count(&origins, ones[i].origin);
	for (uint32_t i = 0; i < count; i++) {
		uint16_t here = ones[i].known == known ? *origin_count(&origins, ones[i].origin) : 0;

		if (here > most) {
			most = here;
			candidate_count = 0;
		}
		if (here == most)
			candidates[candidate_count++] = i;
	}
	return candidates[chance % candidate_count];
}
