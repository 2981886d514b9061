/*
 * peers: the donors as the control thread sees them: sessions, leases, and what becomes of a donor that cannot be
 * reached.
 *
 * Theory of operation. Events go to the sessions (session.c, donor.c), what those learn goes to the lease planner
 * (leases.c) and, when a connection has ended, to the donor's comeback (comeback.c); what these want done is done here.
 *
 *   leave   the donor's round ends: each queue ends its own connection to it when it sees that (far_queue.c), and puts
 *           back what was under way. One line says so. The donor is told that this client lives (SUSPEND), for it may
 *           hear us although we do not hear it.
 *   try     a new session under the old id. The donor ends whatever is left of the old connections before it welcomes
 *           the new one, so nothing that was sent before can reach its memory afterwards: also a write whose queue has
 *           not yet noticed can be written again.
 *   return  the slabs are claimed (claims.c); then a new round begins, in which the queues connect again and go on.
 *   bury    its status is set, which fails what waits for it; what it held is marked lost, or goes on elsewhere. It is
 *           tried again from time to time, and returns as a donor that holds nothing.
 *
 * Threads: the control thread, but for far_peer_broke() and far_peer_waits() (far_store.h).
 */
#ifndef CLIENT_PEERS_H
#define CLIENT_PEERS_H

#include "client/far_store.h"

/* Starts a session with each donor. */
void peers_connect(struct far *far, uint64_t now);
/* Of that: 1: not yet known; 0: all are ready, or enough of them, if others may come later; or an error, logged. Then
   peers_opened() goes on without those that are not ready. */
int peers_outcome(const struct far *far);
bool peer_is_ready(const struct far_peer *peer);
void peers_opened(struct far *far, uint64_t now);
/*
 * The same for a store that is adopted, whose tables are there: each donor is one that went away, and is tried at once.
 * Of that: 1: no donor is reached yet; 0: one is, the others may come, or all is on the backup, for none holds
 * anything; or none will, or one says that the key is wrong: its error. Then peers_adopted() lets the store be lost
 * what is.
 */
void peers_adopt(struct far *far, uint64_t now);
int peers_adopt_outcome(const struct far *far);
void peers_adopted(struct far *far, uint64_t now);
/* Passes an event of a session's connection on. */
void peers_event(struct far *far, const struct fabric_event *event, uint64_t now);
/* What queues have seen, and time. */
void peers_tick(struct far *far, uint64_t now);
/* When peers_tick() is wanted next; UINT64_MAX: never. */
uint64_t peers_due(const struct far *far);
/* Does what the lease planner wants done. */
void peers_carry_out(struct far *far, uint64_t now);
/* Says goodbye to all; or not, for another process to go on. */
void peers_end(struct far *far);
void peers_leave(struct far *far);

/* Bytes it could still lend. */
uint64_t peer_free(const struct far_peer *peer);

#endif
