/*
 * domains: the failure domains of donors. Donors of one failure domain fail together.
 *
 * Theory of operation. An operator may give a donor's machine the name of a failure domain, such as its rack. Donors of
 * one name are *mates*. No two mates hold replicas of one chunk. A donor without a name is a mate only of itself. An
 * adopted store has donors that have not been heard yet. Their names are unknown, so each counts as a mate of all
 * donors: its chunks get no other replica. Sets of donors are words, one bit per donor. No I/O and no clock.
 *
 * Room. A chunk takes a slab in as many domains as it has replicas. A domain can hold at most c slabs of c chunks. So c
 * chunks fit if and only if the domains together can hold c times the replicas. Proof: fill the domains one after the
 * other. Go from chunk to chunk, and begin again at the first chunk after the last. No chunk gets two slabs in a domain
 * (McNaughton's wrap-around rule, 1959). Placement goes by chance and may get stuck a little earlier.
 *
 * Threads. One thread at a time uses a struct domains. The control thread uses that of a store. Any thread may call
 * domains_chunks() and domains_room().
 */
#ifndef CLIENT_DOMAINS_H
#define CLIENT_DOMAINS_H

#include "client/far.h"

#include <stdint.h>

struct domains {
	uint64_t unknown; /* donors not heard yet, one bit each */
	uint64_t leaving; /* donors that the user has taken off the list, one bit each */
	char names[FAR_DONORS_MAX][FAR_FAILURE_DOMAIN_SIZE];
};

/* Sets the name of the domain that the donor has told, or "" for none. */
void domains_name(struct domains *domains, unsigned donor, const char *name);
/* Notes that the donor's name is not known yet. */
void domains_forget(struct domains *domains, unsigned donor);
/* Notes that the donor holds no slab. So it is no mate of all donors any more, even if its name is unknown. */
void domains_empty(struct domains *domains, unsigned donor);

/* Returns the donors that fail together with this one, and this one, one bit each. */
uint64_t domains_mates(const struct domains *domains, unsigned donor);
/* Returns the largest possible number of domains of the first @count donors that are not leaving. A donor not heard yet
   may have a domain of its own. */
unsigned domains_count(const struct domains *domains, unsigned count);

/* Returns true if the first @count donors are in too few domains for @replicas. If so, @text reports it, names two
   donors of one domain, and says what to do. There are at least as many donors as replicas. */
#define DOMAINS_TEXT_MAX 1024
bool domains_lack(const struct domains *domains, unsigned count, unsigned replicas, const char *const uris[],
		  char text[DOMAINS_TEXT_MAX]);

/* A donor's share: its free slabs and its failure domain. */
struct domains_share {
	const char *domain; /* its failure domain, or "" for one of its own */
	uint64_t slabs;
};
/* Returns how many chunks fit, each in @replicas domains. There are at most FAR_DONORS_MAX donors. */
uint64_t domains_chunks(const struct domains_share *shares, unsigned count, unsigned replicas);
/* Returns how many bytes of chunks fit; each chunk counts once. @donors comes from far_donors() or far_query(). A lost
   or unknown donor has no room. */
uint64_t domains_room(const struct far_donor_info *donors, unsigned count, unsigned replicas);

#endif
