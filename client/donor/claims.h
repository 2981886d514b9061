/*
 * claims: asks a donor that has come back for the slabs that this client had there, and learns where they are now.
 *
 * Theory of operation. claims_begin() starts with the slots of the chunk table that are FULL and on this donor. The
 * caller takes their slabs one by one with claims_next() and sends a claim for each, at most CLAIMS_WINDOW at a
 * time. The donor confirms a slab with its address and rkey, which claims_confirmed() stores in the table. Or it
 * denies the slab, because it has taken the slab meanwhile. claims_over() is true when every claim is answered.
 *
 * While the donor is away, it gets no new slot. While the client claims the donor's slabs, the donor's slots stay
 * (leases.h). Only a slot whose slab the donor has taken is detached. A slab whose slot was detached earlier is not
 * claimed, so the donor takes it back.
 *
 * No I/O and no clock. Threads: the control thread.
 */
#ifndef CLIENT_CLAIMS_H
#define CLIENT_CLAIMS_H

#include "client/page/chunks.h"

/* The most claims in flight. A connection queues at least this many unsent messages. */
#define CLAIMS_WINDOW 16u

struct claims {
	struct chunk_table *table;
	unsigned donor;
	uint64_t next; /* the next slot to look at: chunk * FAR_SLOTS_MAX + replica */
	uint64_t held; /* number of claims confirmed so far */
	unsigned under_way;
};

/* Returns how many FULL slots of the table are on @donor. */
uint64_t claims_count(const struct chunk_table *table, unsigned donor);

void claims_begin(struct claims *claims, struct chunk_table *table, unsigned donor);
/* Stores the next slab to claim, and the number that the claim must carry. Returns false if CLAIMS_WINDOW claims
   are in flight, or if no slab is left. */
bool claims_next(struct claims *claims, uint32_t *ret_request, uint64_t *ret_slab);
/* The donor has confirmed a claim. Returns 0, or -EPROTO if that slab was not claimed. */
int claims_confirmed(struct claims *claims, uint32_t request, uint64_t slab, uint64_t address, uint32_t rkey);
/* The donor has denied a claim. Returns 1 if the slab still has a slot, which the caller must detach, or 0 if the
   slab has no slot. Returns -EPROTO if there was no such claim. */
int claims_denied(struct claims *claims, uint32_t request, uint64_t *ret_slab);
/* Returns true if every claim was sent and answered. */
bool claims_over(const struct claims *claims);

#endif
