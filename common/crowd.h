/*
 * crowd: if too many strangers are connected, chooses the one to disconnect.
 *
 * Theory of operation. A stranger is a connection that has not proved yet that it knows the key. An attacker can open
 * thousands of them, and an honest client is a stranger, too, until its handshake has ended. When all places are in
 * use and a newcomer arrives, crowd_victim() chooses a victim. Three rules protect honest clients:
 *
 *     known first    a stranger that names a client with leases here is disconnected only for another such stranger
 *     fair share     the victim is from the origin (host) that has the most strangers, with the newcomer counted
 *     at random      among the strangers of this origin, the victim is drawn at random
 *
 * Because of the last rule, a newcomer keeps one of @count places until about @count others have arrived. So an honest
 * client always has a chance, however fast others arrive. With 256 places and 7,000 arrivals a second, it has 37 ms on
 * average, and a handshake takes a few ms.
 *
 * Threads: any. crowd_victim() has no state.
 */
#ifndef COMMON_CROWD_H
#define COMMON_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define CROWD_MAX 256u
#define CROWD_NEWCOMER UINT32_MAX

struct crowd_one {
	uint64_t origin; /* the same number for all strangers of one host (fabric_conn_origin()) */
	bool known;
};

/* Chooses which of @count (1 to CROWD_MAX) strangers must be disconnected for @newcomer. Returns its index, or
   CROWD_NEWCOMER to disconnect the newcomer itself. @chance is a random number that strangers cannot predict. */
uint32_t crowd_victim(const struct crowd_one *ones, uint32_t count, const struct crowd_one *newcomer, uint64_t chance);

#endif
