/*
 * domains: which donors fail together.
 *
 * Theory of operation. An operator may name what a donor's machine fails together with, a rack say; donors of one name
 * are *mates*, and hold no two replicas of one chunk. A donor without a name is mate to itself alone. Of a donor that
 * has yet to be heard (one that a store was adopted with) nobody knows: it counts as everybody's mate, so that nothing
 * is placed beside what it holds. Sets of donors are words, a bit each. Pure.
 *
 * Room. A chunk takes a slab in each of as many domains as it has replicas. So a domain counts for no more slabs than
 * there are chunks, and c chunks fit if and only if what domains count for comes to c times the replicas: filled one
 * after the other, chunk by chunk and round again, no domain meets itself (McNaughton's wrap-around rule, 1959).
 * Placement is by chance and may get stuck a little earlier.
 *
 * Threads: the control thread's; room: any.
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
/* It holds nothing: whose mate it would be does not matter until it is named. */
void domains_empty(struct domains *domains, unsigned donor);

/* The donors that fail with this one, itself among them. */
uint64_t domains_mates(const struct domains *domains, unsigned donor);
/* In how many domains the first @count donors are at most: one yet to be heard may be in one of its own. */
unsigned domains_count(const struct domains *domains, unsigned count);

/* Whether the first @count donors, of which the first is @uri, are in too few for @replicas: @text says so, and what to
   do. */
#define DOMAINS_TEXT_MAX 512
bool domains_lack(const struct domains *domains, unsigned count, unsigned replicas, const char *uri,
		  char text[DOMAINS_TEXT_MAX]);

/* What a donor has free. */
struct domains_share {
	const char *domain; /* its failure domain; "": one of its own */
	uint64_t slabs;
};
/* The most chunks that fit there, each in @replicas domains; at most FAR_DONORS_MAX donors. */
uint64_t domains_chunks(const struct domains_share *shares, unsigned count, unsigned replicas);
/* The same in bytes, each counted once, of donors as far_donors() and far_query() tell of them; one that is lost, or of
   which nothing is known, has nothing. */
uint64_t domains_room(const struct far_donor *donors, unsigned count, unsigned replicas);

#endif
