/*
 * peers_recall: what becomes of slabs that a donor wants back (REVOKE), has taken (REVOKED), or lets us have on (KEEP);
 * leases.h moves them.
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_PEERS_RECALL_H
#define CLIENT_PEERS_RECALL_H

#include "client/far_store.h"

void peer_recalled(struct far *far, unsigned index, const struct wire_message *message, uint64_t now);
/* A claim was denied because the donor has taken the slab meanwhile. -EPROTO: nobody claimed it. */
int peer_claim_taken(struct far *far, unsigned index, uint32_t request, uint64_t now);
/* Time has come to leases_recalls_due(), or any other. */
void peers_recall_tick(struct far *far, uint64_t now);

#endif
