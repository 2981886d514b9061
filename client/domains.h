/*
 * domains: which donors fail together.
 *
 * Theory of operation. An operator may name what a donor's machine fails together with, a rack say; donors of one name
 * are *mates*, and hold no two replicas of one chunk. A donor without a name is mate to itself alone. Of a donor that
 * has yet to be heard (one that a store was adopted with) nobody knows: it counts as everybody's mate, so that nothing
 * is placed beside what it holds. Sets of donors are words, a bit each. Pure.
 *
 * Threads: the control thread's.
 */
#ifndef CLIENT_DOMAINS_H
#define CLIENT_DOMAINS_H

#include "client/far.h"

#include <stdint.h>

struct domains {
	uint64_t unknown; /* donors yet to be heard */
	char names[FAR_DONORS_MAX][FAR_DOMAIN_SIZE];
};

/* The donor said its domain's name, or that it has none: "". */
void domains_name(struct domains *domains, unsigned donor, const char *name);
/* It has yet to. */
void domains_forget(struct domains *domains, unsigned donor);

/* The donors that fail with this one, itself among them. */
uint64_t domains_mates(const struct domains *domains, unsigned donor);
/* In how many domains the first @count donors are at most: one yet to be heard may be in one of its own. */
unsigned domains_count(const struct domains *domains, unsigned count);

#endif
