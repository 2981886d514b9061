/*
 * crowd: who makes room when more strangers wait than there is room for.
 *
 * Theory of operation. Pure. Whoever has not proved anything yet is a stranger; strangers cost nothing to make, and so
 * come in thousands. Three rules keep a place for a client that means it:
 *
 *   known first    one that names a client which holds leases here never makes room for one that does not
 *   fair share     room is made by the origin (the host) that has the most of them, the newcomer included
 *   by chance      any of that origin's, drawn at random: of @count places a newcomer keeps its own for about as long
 *                  as @count others need to come, and so has a chance however fast they come
 *
 * Threads: any.
 */
#ifndef COMMON_CROWD_H
#define COMMON_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define CROWD_MAX 256u
#define CROWD_NEWCOMER UINT32_MAX

struct crowd_one {
	uint64_t origin; /* equal for all of one host */
	bool known;
};

/*
 * Returns which of @count (1 .. CROWD_MAX) makes room for @newcomer, or CROWD_NEWCOMER: it has to go itself. @chance:
 * a random number that the strangers cannot know.
 */
uint32_t crowd_victim(const struct crowd_one *ones, uint32_t count, const struct crowd_one *newcomer, uint64_t chance);

#endif
