/*
 * donors_recall: handles a donor's messages about slabs that it wants back (REVOKE), does not want back any more
 * (KEEP), or has taken (REVOKED). The planner (leases.h) decides where the slabs' pages go.
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_DONORS_RECALL_H
#define CLIENT_DONORS_RECALL_H

#include "client/far_store.h"

void donors_recall_message(struct far *far, unsigned index, const struct wire_message *message, uint64_t now);
/* Handles a denied claim whose slab the donor has taken. @request is the claim's number. Returns 0, or -EPROTO if
   there was no such claim. */
int donors_recall_claim_taken(struct far *far, unsigned index, uint32_t request, uint64_t now);
/* Gives up slabs whose deadline has passed. Must be called at leases_recalls_due(), and may be called at any
   time. */
void donors_recall_tick(struct far *far, uint64_t now);

#endif
