/*
 * crowd: chooses a stranger to close when too many strangers wait.
 *
 * Theory of operation. The function is pure. A stranger is a connection that has proved nothing yet. It is easy to make
 * strangers, so thousands may come. Three rules keep a place for an honest client:
 *
 *   known first    a stranger that names a client with leases here never makes room for one that does not
 *   fair share     the origin (host) with the most strangers makes room; the newcomer is counted too
 *   by chance      the victim is drawn at random from that origin. If there are @count places, a newcomer keeps its
 *                  place until about @count others have come. So it has a chance, however fast others come. With 256
 *                  places and 7,000 others a second, it has 37 ms on average. A handshake takes a few ms.
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

/* Chooses which of @count (1 .. CROWD_MAX) strangers makes room for @newcomer. Returns the stranger's index, or
   CROWD_NEWCOMER if the newcomer itself has to go. @chance is a random number that strangers cannot predict. */
uint32_t crowd_victim(const struct crowd_one *ones, uint32_t count, const struct crowd_one *newcomer, uint64_t chance);

#endif
