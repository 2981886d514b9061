/*
 * claims: telling a donor that has come back which of its slabs are ours, and learning where they are now.
 *
 * Theory of operation. The slabs are those of the chunk table's FULL slots on this donor. While it is away none comes,
 * and while they are being claimed none goes either (leases.h), but for what the donor itself takes; one that was
 * detached is not claimed, and the donor takes it back. They are claimed in the order of the chunks, a few at a time.
 * Each is confirmed with its address and rkey, which go into the table, or the donor does not hold it any more.
 *
 * Pure. Threads: the control thread's.
 */
#ifndef CLIENT_CLAIMS_H
#define CLIENT_CLAIMS_H

#include "client/chunks.h"

/* Claims under way; no more than a connection takes unsent messages. */
#define CLAIMS_WINDOW 16u

struct claims {
	struct chunk_table *table;
	unsigned donor;
	uint64_t next; /* chunk * FAR_SLOTS_MAX + replica to look at */
	uint64_t held; /* confirmed so far */
	unsigned under_way;
};

/* How many slabs of @donor the table names. */
uint64_t claims_count(const struct chunk_table *table, unsigned donor);

void claims_begin(struct claims *claims, struct chunk_table *table, unsigned donor);
/* The next one to send, while the window has room; @ret_request comes back with the answer. */
bool claims_next(struct claims *claims, uint32_t *ret_request, uint64_t *ret_slab);
/* It is confirmed. -EPROTO: nobody asked. */
int claims_confirmed(struct claims *claims, uint32_t request, uint64_t slab, uint64_t address, uint32_t rkey);
/* It is denied, for the slab is not ours any more. 1: its slot is about to go; 0: it has gone; -EPROTO: nobody asked.
 */
int claims_denied(struct claims *claims, uint32_t request, uint64_t *ret_slab);
/* Every claim has been sent and answered. */
bool claims_over(const struct claims *claims);

#endif
