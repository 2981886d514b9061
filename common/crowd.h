/*
 * crowd: chooses the stranger to close when more strangers wait than there is room for.
 *
 * Theory of operation. Pure. A stranger is a connection that has proved nothing yet. Strangers cost nothing to make, so
 * thousands may come. Three rules keep a place for an honest client:
 *
 *   known first    a stranger that names a client with leases here never makes room for one that does not
 *   fair share     the origin (host) with the most strangers makes room; the newcomer is counted too
 *   by chance      the victim is drawn at random from that origin. Of @count places, a newcomer keeps its own
 *                  until about @count others have come. So it has a chance, however fast they come. With 256 places
 *                  and 7,000 others a second that is 37 ms on average. A handshake takes a few.
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
	uint64_t origin; /* equal for all strangers of one host */
	bool known;
};

/* Chooses which of @count (1 .. CROWD_MAX) strangers makes room for @newcomer. @chance is a random number that
   strangers cannot predict. Returns its index, or CROWD_NEWCOMER if the newcomer itself has to go. */
uint32_t crowd_victim(const struct crowd_one *ones, uint32_t count, const struct crowd_one *newcomer, uint64_t chance);

#endif
