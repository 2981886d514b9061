/*
 * donors: the control thread's view of all donors: their sessions, their leases, and what to do if a donor cannot be
 * reached.
 *
 * Theory of operation. The control thread's loop calls donors_event() for each fabric event and donors_tick() as time
 * passes. Both functions drive the sessions (session.c, donor.c). Answers about slabs go from there to the lease
 * planner (leases.c), whose actions donors_carry_out() carries out. If a connection ends, the donor's state machine in
 * comeback.c decides what to do, and returns one of these steps:
 *
 *   leave   The donor is away. Its round ends. Each queue then ends its own connection to the donor, and parks the
 *           unanswered requests (far_queue.c). One line is logged. A SUSPEND message tells the donor that this client
 *           is alive. This message may arrive even if none of the donor's messages arrives here.
 *   try     A new session is started under the old client id. The donor ends all old connections before it welcomes
 *           the new session, so nothing that was sent earlier can reach the donor's memory afterwards. A write may
 *           therefore be repeated even if its queue has not noticed the break yet.
 *   claim   The client claims its slabs (claims.c).
 *   return  A new round begins, in which the queues connect again and continue.
 *   bury    The donor is lost. Its status is set, so that no request waits for the donor any more. Pages are read
 *           from other replicas or from the backup. Pages without either are marked lost. The donor is tried again
 *           every second. If it answers, it is used as a donor that holds nothing.
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_DONORS_H
#define CLIENT_DONORS_H

#include "client/far_store.h"

void donors_connect(struct far *far, uint64_t now);
/* Returns how donors_connect() has ended: 1 if this is not known yet, 0 if all donors are ready. With
   config.go_without, 0 also if enough donors are ready. Returns -errno, which is logged, if the store cannot be
   opened. */
int donors_outcome(const struct far *far);
bool donors_donor_is_ready(const struct far_donor *donor);
/* Completes opening after donors_outcome() has returned 0. Donors that are not ready are marked as lost, and are
   tried again every second. */
void donors_opened(struct far *far, uint64_t now);
/* Starts to adopt a store whose tables are in place. Every donor counts as away, and is tried at once. */
void donors_adopt(struct far *far, uint64_t now);
/* Returns how donors_adopt() has ended: 0 as soon as one donor is up, or 1 while some donor may still come up.
   Returns -errno if a donor with slabs of the store rejects the key or the protocol version. If all donors are lost,
   returns -errno. But returns 0 if none of them holds slabs of the store and there is a backup. */
int donors_adopt_outcome(const struct far *far);
/* Completes the adoption after donors_adopt_outcome() has returned 0. Gives up the slabs of lost donors. Until this
   call the slabs are kept, because the adoption may be tried again. */
void donors_adopted(struct far *far, uint64_t now);
/* Passes an event of a session's connection to that session, and acts on the result. */
void donors_event(struct far *far, const struct fabric_event *event, uint64_t now);
/* Acts on reports of queues, and on deadlines that have passed. */
void donors_tick(struct far *far, uint64_t now);
/* Returns when donors_tick() must be called next, or UINT64_MAX for never. */
uint64_t donors_due(const struct far *far);
/* donors_act() carries out the actions of the lease planner. donors_carry_out() also publishes how much is leased. */
void donors_act(struct far *far, uint64_t now);
void donors_carry_out(struct far *far, uint64_t now);
/* Ends all sessions with a goodbye (BYE), so that the donors free the leases. */
void donors_end(struct far *far);
/* Ends all connections without a goodbye, so that the donors keep the leases for a while and another process can
   adopt the store. */
void donors_leave(struct far *far);

/* Returns the bytes that the donor could still lend, according to its last figures. */
uint64_t donors_free_bytes(const struct far_donor *donor);

#endif
