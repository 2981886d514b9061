/* crowd: see crowd.h. */
#include "common/crowd.h"

#include <assert.h>

/* The size of the hash table: a power of two, large enough that probes are short. */
#define PLACES (4 * CROWD_MAX)

/* Counts strangers by origin: a hash table with linear probing. */
struct origins {
	uint64_t salt; /* random, so that strangers cannot choose origins that collide */
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
	bool known = true; /* true if the victim must name a known client */

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
