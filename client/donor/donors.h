/*
 * donors: the donors as the control thread sees them: their sessions, their leases, and what happens when a donor cannot
 * be reached.
 *
 * Theory of operation. Fabric events go to the sessions (session.c, donor.c). Their reports go to the lease planner
 * (leases.c). When a connection has ended, the report goes to the donor's comeback machine (comeback.c). This file
 * carries out what the planner and the machine decide:
 *
 *   leave   The donor's round ends. Each queue that notices ends its own connection to the donor (far_queue.c) and
 *           keeps its unanswered operations for later. One line is logged. A SUSPEND tells the donor that this client
 *           lives. It may still arrive, even if no message of the donor does.
 *   try     A new session is started under the old client id. The donor ends all old connections before it welcomes the
 *           new session, so nothing sent earlier can reach its memory afterwards. A write may therefore be repeated
 *           even if its queue has not noticed the break yet.
 *   return  The slabs are claimed (claims.c). Then a new round begins, in which the queues connect again and go on.
 *   bury    The donor's status is set, so the requests that wait for this donor fail. Other replicas or the backup
 *           serve its pages. Pages that have neither are marked lost. The donor is tried again from time to time. If it
 *           answers, it is used as a donor that holds nothing.
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_DONORS_H
#define CLIENT_DONORS_H

#include "client/far_store.h"

/* Starts a session with each donor. */
void donors_connect(struct far *far, uint64_t now);
/* Tells how donors_connect() has ended. Returns 1 if this is not known yet. Returns 0 if all donors are ready, or if
   config.go_without is set and enough of them are. Returns -errno, which is logged, if the store cannot be opened. */
int donors_outcome(const struct far *far);
/* Returns true if the donor's session is ready. */
bool donors_donor_is_ready(const struct far_donor *donor);
/* Completes opening after donors_outcome() has returned 0. Donors that are not ready are marked lost, and tried again
   from time to time. */
void donors_opened(struct far *far, uint64_t now);
/* Starts to adopt a store whose tables are in place. Treats each donor as one that went away, and tries to reach it at
   once. */
void donors_adopt(struct far *far, uint64_t now);
/* Tells how donors_adopt() has ended. Returns 1 if no donor is reached yet, but some may be later. Returns 0 as soon as
   one donor is reached. Also returns 0 if all donors are lost, none of them holds anything of the store, and there is a
   backup. Returns -errno if all donors are lost otherwise, or if one rejects the key or the protocol version. */
int donors_adopt_outcome(const struct far *far);
/* Completes the adoption after donors_adopt_outcome() has returned 0. Before this call, no slab is given up. Afterwards
   the slabs of lost donors count as lost. */
void donors_adopted(struct far *far, uint64_t now);
/* Passes a fabric event of a session's connection to that session, and acts on the result. */
void donors_event(struct far *far, const struct fabric_event *event, uint64_t now);
/* Acts on what queues have reported, and on deadlines that have passed. */
void donors_tick(struct far *far, uint64_t now);
/* Returns when donors_tick() must be called next, or UINT64_MAX for never. */
uint64_t donors_due(const struct far *far);
/* Carries out the lease planner's pending actions. */
void donors_carry_out(struct far *far, uint64_t now);
/* Ends all sessions with a goodbye (BYE): the donors free the leases. */
void donors_end(struct far *far);
/* Ends all connections without a goodbye: the donors keep the leases for a while, so that another process can adopt the
   store. */
void donors_leave(struct far *far);

/* Returns the bytes that the donor could still lend, by its last figures. */
uint64_t donors_free_bytes(const struct far_donor *donor);

#endif
