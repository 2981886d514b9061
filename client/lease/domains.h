/*
 * domains: the failure domains of donors: which donors fail together.
 *
 * Theory of operation. An operator may name what a donor's machine shares its failures with, such as a rack. Donors of
 * one name are *mates*, and no two of them hold replicas of one chunk. A donor without a name is a mate only of itself.
 * An adopted store has donors that have not been heard yet. Their names are unknown, so each counts as a mate of all
 * donors: nothing is placed beside what it holds. Sets of donors are words, one bit per donor. No I/O and no clock.
 *
 * Room. A chunk takes a slab in as many domains as it has replicas. If there are c chunks, a domain counts for at most
 * c slabs. So c chunks fit if and only if all domains together count for c times the replicas or more. Proof: fill
 * the domains one after the other, chunk by chunk, and begin again after the last chunk. No chunk meets a domain twice
 * (McNaughton's wrap-around rule, 1959). Placement goes by chance and may get stuck a little earlier.
 *
 * Threads. One thread at a time uses a struct domains, that of a store the control thread. domains_chunks() and
 * domains_room(): any.
 */
#ifndef CLIENT_DOMAINS_H
#define CLIENT_DOMAINS_H

#include "client/far.h"

#include <stdint.h>

struct domains {
	uint64_t unknown; /* donors not heard yet, one bit each */
	char names[FAR_DONORS_MAX][FAR_FAILURE_DOMAIN_SIZE];
};

/* The donor has told the name of its domain, or "" for none. */
void domains_name(struct domains *domains, unsigned donor, const char *name);
/* The donor's name is not known yet. */
void domains_forget(struct domains *domains, unsigned donor);
/* The donor holds nothing, so a name that is not known does not make it a mate any more. */
void domains_empty(struct domains *domains, unsigned donor);

/* Returns the donors that fail together with this one, itself included. */
uint64_t domains_mates(const struct domains *domains, unsigned donor);
/* Returns how many domains the first @count donors are in at most. A donor not heard yet may be in one of its own. */
unsigned domains_count(const struct domains *domains, unsigned count);

/* Returns true if the first @count donors are in too few domains for @replicas. Then @text says so, names two donors of
   one domain, and says what to do. There are at least as many donors as replicas. */
#define DOMAINS_TEXT_MAX 1024
bool domains_lack(const struct domains *domains, unsigned count, unsigned replicas, const char *const uris[],
		  char text[DOMAINS_TEXT_MAX]);

/* A donor's free slabs. */
struct domains_share {
	const char *domain; /* its failure domain, or "" for one of its own */
	uint64_t slabs;
};
/* Returns how many chunks fit, each in @replicas domains. There are at most FAR_DONORS_MAX donors. */
uint64_t domains_chunks(const struct domains_share *shares, unsigned count, unsigned replicas);
/* Returns the same in bytes, not multiplied by the replicas. @donors comes from far_donors() or far_query(). A donor
   that is lost, or of which nothing is known, has no room. */
uint64_t domains_room(const struct far_donor_info *donors, unsigned count, unsigned replicas);

#endif
