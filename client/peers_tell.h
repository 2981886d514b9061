/*
 * peers_tell: the lines that tell a person how it is with a donor. One of each, when it is decided (peers.c).
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_PEERS_TELL_H
#define CLIENT_PEERS_TELL_H

#include "client/far_store.h"

/* A donor is told of when it has been away for so long; by clock_now(), as the user sees it. */
#define PEER_TELL_NS UINT64_C(2000000000)

/* It is away, which only --verbose tells: most such breaks are over in a moment. */
void peer_tell_broke(const struct far_peer *peer);
/* It has been away for PEER_TELL_NS. Once. */
void peer_tell_away(const struct far *far, struct far_peer *peer);
/* It is up again; or for the first time, in a store that was adopted. */
void peer_tell_back(const struct far_peer *peer);
/* It is lost: as the donor has put it, where it has. */
void peer_tell_lost(const struct far *far, const struct far_peer *peer);
/* It is reached for the first time: whether its pages will wait for another process for as long as was wished. */
void peer_tell_grace(const struct far *far, const struct far_peer *peer);
/* It has said its failure domain, which from here on counts; it is told if that is another one than before. */
void peer_named(struct far *far, unsigned index);
/* Replicas that chunks lack begin to be made anew; or (@whole) no chunk lacks any. */
void peers_tell_replicas(struct far *far, bool whole);

/* A chunk leaves for the backup. */
void peers_tell_leaving(struct far *far);
/* Pages are kept on the backup alone, where @before of them were: what there is from now on to bring back, and told. */
void peers_tell_kept(struct far *far, uint64_t before);

#endif
