/*
 * internal: functions that donors.c, donors_act.c (actions of the lease planner) and donors_open.c (opening and
 * adopting a store) share. donors_list.c uses some of them, too.
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_DONOR_INTERNAL_H
#define CLIENT_DONOR_INTERNAL_H

#include "client/donor/donors.h"

/* Wakes the queues whose requests wait, or all queues if @all is true. */
void donors_wake_queues(struct far *far, bool all);
/* Called when the connection to the donor has ended with @status, or must not be used any more. */
void donors_broke(struct far *far, unsigned index, int status, uint64_t now);
/* Starts a session with the donor at @uri. The session is LOST if the donor is not reached within @connect_ms. */
void donors_session_open(struct far *far, struct far_donor *donor, const char *uri, unsigned connect_ms, uint64_t now);
/* Ends the donor's current round, if any. Wakes all queues, which then end their connections to the donor. */
void donors_round_end(struct far *far, struct far_donor *donor);
/* Stores in the state file, if there is one, which incarnation of the donor has our slabs. Must be called before
   that incarnation grants us a slab. @incarnation is 0 when the donor's slabs have been given up. */
void donors_incarnation_keep(struct far *far, unsigned index, uint64_t incarnation);
/* Gives up the donor's slabs: counts the pages that are lost with them and ends the round. The donor is then tried
   again, as one that holds nothing. */
void donors_lose_donor(struct far *far, unsigned index, uint64_t now);
/* Returns how long donors of this store are waited for, with a random seed. */
struct comeback_config donors_comeback_config(const struct far *far);

#endif
