/*
 * claims: tells a donor that has come back which of its slabs are ours, and learns where they are now.
 *
 * Theory of operation. The slabs are those of the chunk table's FULL slots on this donor. They are claimed in the order
 * of the chunks, a few at a time. The donor confirms a slab with its address and rkey, which go into the table. Or it
 * denies the slab, because it does not hold the slab any more.
 *
 * While the donor is away, it gets no new slots. While its slabs are being claimed, its slots are not detached either
 * (leases.h), except for slabs that the donor itself takes. The slab of a slot that was detached earlier is not
 * claimed, and the donor takes it back.
 *
 * No I/O and no clock. Threads: the control thread.
 */
#ifndef CLIENT_CLAIMS_H
#define CLIENT_CLAIMS_H

#include "client/page/chunks.h"

/* Claims in flight. A connection takes at least this many unsent messages. */
#define CLAIMS_WINDOW 16u

struct claims {
	struct chunk_table *table;
	unsigned donor;
	uint64_t next; /* slot to look at next: chunk * FAR_SLOTS_MAX + replica */
	uint64_t held; /* claims confirmed so far */
	unsigned under_way;
};

/* Returns how many slabs of @donor the table names in FULL slots. */
uint64_t claims_count(const struct chunk_table *table, unsigned donor);

void claims_begin(struct claims *claims, struct chunk_table *table, unsigned donor);
/* Takes the next slab to claim. The donor's answer will carry @ret_request. Returns false if the window is full, or if
   no slab is left. */
bool claims_next(struct claims *claims, uint32_t *ret_request, uint64_t *ret_slab);
/* The donor confirms a claim. Returns 0, or -EPROTO if that slab was not claimed. */
int claims_confirmed(struct claims *claims, uint32_t request, uint64_t slab, uint64_t address, uint32_t rkey);
/* The donor denies a claim, because the slab is not ours any more. Returns 1 if the slab still has a slot, which the
   caller must detach. Returns 0 if it has none, or -EPROTO if no such claim was made. */
int claims_denied(struct claims *claims, uint32_t request, uint64_t *ret_slab);
/* Returns true if every claim was sent and answered. */
bool claims_over(const struct claims *claims);

#endif
