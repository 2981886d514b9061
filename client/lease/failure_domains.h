/*
 * failure_domains: which donors fail together, so that a chunk's replicas are placed on donors that do not.
 *
 * Theory of operation. An operator may name the failure domain of a donor's machine, such as its rack. The donor
 * reports this name to the client. Donors with the same name are *mates*, and no two mates may hold replicas of one
 * chunk. A donor without a name has no mates. In an adopted store, a donor's name is unknown until the donor
 * answers. Until then the donor counts as a mate of all donors, so chunks with a slot on it get no further replica.
 * No I/O and no clock.
 *
 * Capacity. failure_domains_chunks() computes how many chunks fit. A chunk needs a slab in as many failure domains
 * as it has replicas. For c chunks, no more than c slabs of one failure domain can be used, because no chunk may
 * use two of them. So c chunks fit if, and only if, the usable slabs of all failure domains are at least c times
 * the replicas. Proof: hand out the slabs of one failure domain after another. Give each slab to the next chunk,
 * and return to the first chunk after the last. No chunk then gets two slabs of one failure domain (McNaughton's
 * wrap-around rule, 1959). The client places slabs at random, so it may run out a little earlier.
 *
 * Threads. One thread at a time uses a struct failure_domains. The control thread uses the struct of a store. Any
 * thread may call failure_domains_chunks() and failure_domains_room().
 */
#ifndef CLIENT_FAILURE_DOMAINS_H
#define CLIENT_FAILURE_DOMAINS_H

#include "client/donor_set.h"

#include <stdint.h>

struct failure_domains {
	struct donor_set unknown; /* donors that have not reported a name yet */
	struct donor_set leaving; /* donors that the user has removed from the list */
	char names[FAR_DONORS_MAX][FAR_FAILURE_DOMAIN_SIZE];
};

/* Stores the name of the failure domain that the donor has reported, or "" for none. */
void failure_domains_name(struct failure_domains *domains, unsigned donor, const char *name);
void failure_domains_forget(struct failure_domains *domains, unsigned donor);
/* Notes that the donor holds no slab. It then does not count as a mate of all donors, even if its name is
   unknown. */
void failure_domains_empty(struct failure_domains *domains, unsigned donor);

/* Returns true if the two donors are the same, or mates. */
bool failure_domains_are_mates(const struct failure_domains *domains, unsigned one, unsigned other);
/* Returns how many failure domains the first @count donors are in, without leaving donors. A donor whose name is
   unknown counts as a domain of its own, so the result may be too high. */
unsigned failure_domains_count(const struct failure_domains *domains, unsigned count);

/* @count must be at least @replicas. Returns true if the first @count donors are in fewer failure domains than
   @replicas. @text then says so, names two donors of one failure domain, and advises what to do. */
#define FAILURE_DOMAINS_TEXT_MAX 1024
bool failure_domains_lack(const struct failure_domains *domains, unsigned count, unsigned replicas,
			  const char *const uris[], char text[FAILURE_DOMAINS_TEXT_MAX]);

struct failure_domains_share {
	const char *failure_domain; /* its failure domain, or "" for none */
	uint64_t slabs;
};
/* Returns how many chunks fit, with each chunk's replicas in @replicas failure domains. @count is at most
   FAR_DONORS_MAX. */
uint64_t failure_domains_chunks(const struct failure_domains_share *shares, unsigned count, unsigned replicas);
/* Returns how many bytes of chunks fit. Each chunk counts once, however many replicas it has. @donors comes from
   far_donors() or far_query(). A donor that is lost, or has no known figures, contributes nothing. */
uint64_t failure_domains_room(const struct far_donor_info *donors, unsigned count, unsigned replicas);

#endif
