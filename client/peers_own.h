/*
 * peers_own: what peers.c and peers_open.c (opening and adopting a store) share. Only they include it.
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_PEERS_OWN_H
#define CLIENT_PEERS_OWN_H

#include "client/peers.h"

/* A session with @uri, which it has @connect_ms to reach. */
void peer_session_open(struct far *far, struct far_peer *peer, const char *uri, unsigned connect_ms, uint64_t now);
/* The round is another; every queue looks. */
void peer_round_end(struct far *far, struct far_peer *peer);
/* Which start of its program has our slabs, for another process; said before it has any, or after it has none: 0. */
void peer_incarnation_keep(struct far *far, unsigned index, uint64_t incarnation);
/* What it held is lost. */
void peer_lose(struct far *far, unsigned index, uint64_t now);
/* Whether the donor that has welcomed us is one that we know by another address; which is told. */
bool peer_is_another(const struct far *far, unsigned index);

#endif
