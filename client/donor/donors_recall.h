/*
 * donors_recall: handles slabs that a donor wants back (REVOKE), has taken (REVOKED), or no longer wants back (KEEP).
 * The planner in leases.h moves their pages.
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_DONORS_RECALL_H
#define CLIENT_DONORS_RECALL_H

#include "client/far_store.h"

/* Handles a REVOKE, REVOKED or KEEP message of donor @index. */
void donors_recall_message(struct far *far, unsigned index, const struct wire_message *message, uint64_t now);
/* Handles a claim that was denied because the donor has taken the slab in the meantime. @request is the claim's number.
   Returns 0, or -EPROTO if there was no such claim. */
int donors_recall_claim_taken(struct far *far, unsigned index, uint32_t request, uint64_t now);
/* Gives up slabs whose deadline has passed. Must be called at leases_recalls_due(), and may be called at any other
   time. */
void donors_recall_tick(struct far *far, uint64_t now);

#endif
