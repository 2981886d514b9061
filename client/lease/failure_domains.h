/*
 * failure_domains: the failure domains of donors. Donors of one failure domain fail together.
 *
 * Theory of operation. An operator may give a donor's machine the name of a failure domain, such as its rack. Donors of
 * one name are *mates*. No two mates hold replicas of one chunk. A donor without a name is a mate only of itself. An
 * adopted store has donors that have not been heard yet. Their names are unknown, so each counts as a mate of all
 * donors: its chunks get no other replica. Sets of donors are words, one bit per donor. No I/O and no clock.
 *
 * Room. A chunk takes a slab in as many failure domains as it has replicas. One holds at most c slabs of c chunks. So
 * c chunks fit if and only if the failure domains together can hold c times the replicas. Proof: fill one after the
 * other. Go from chunk to chunk, and begin again at the first chunk after the last. No chunk gets two slabs in the same
 * one (McNaughton's wrap-around rule, 1959). Placement goes by chance and may get stuck a little earlier.
 *
 * Threads. One thread at a time uses a struct failure_domains. The control thread uses that of a store. Any thread may
 * call failure_domains_chunks() and failure_domains_room().
 */
#ifndef CLIENT_FAILURE_DOMAINS_H
#define CLIENT_FAILURE_DOMAINS_H

#include "client/far.h"

#include <stdint.h>

struct failure_domains {
	uint64_t unknown; /* donors not heard yet, one bit each */
	uint64_t leaving; /* donors that the user has taken off the list, one bit each */
	char names[FAR_DONORS_MAX][FAR_FAILURE_DOMAIN_SIZE];
};

/* Sets the name of the domain that the donor has told, or "" for none. */
void failure_domains_name(struct failure_domains *domains, unsigned donor, const char *name);
/* Notes that the donor's name is not known yet. */
void failure_domains_forget(struct failure_domains *domains, unsigned donor);
/* Notes that the donor holds no slab. So it is no mate of all donors any more, even if its name is unknown. */
void failure_domains_empty(struct failure_domains *domains, unsigned donor);

/* Returns the donors that fail together with this one, and this one, one bit each. */
uint64_t failure_domains_mates(const struct failure_domains *domains, unsigned donor);
/* Returns the largest possible number of domains of the first @count donors that are not leaving. A donor not heard yet
   may have a domain of its own. */
unsigned failure_domains_count(const struct failure_domains *domains, unsigned count);

/* Returns true if the first @count donors are in too few domains for @replicas. If so, @text reports it, names two
   donors of one domain, and says what to do. There are at least as many donors as replicas. */
#define FAILURE_DOMAINS_TEXT_MAX 1024
bool failure_domains_lack(const struct failure_domains *domains, unsigned count, unsigned replicas,
			  const char *const uris[], char text[FAILURE_DOMAINS_TEXT_MAX]);

/* A donor's share: its free slabs and its failure domain. */
struct failure_domains_share {
	const char *failure_domain; /* its failure domain, or "" for one of its own */
	uint64_t slabs;
};
/* Returns how many chunks fit, each in @replicas domains. There are at most FAR_DONORS_MAX donors. */
uint64_t failure_domains_chunks(const struct failure_domains_share *shares, unsigned count, unsigned replicas);
/* Returns how many bytes of chunks fit; each chunk counts once. @donors comes from far_donors() or far_query(). A lost
   or unknown donor has no room. */
uint64_t failure_domains_room(const struct far_donor_info *donors, unsigned count, unsigned replicas);

#endif
