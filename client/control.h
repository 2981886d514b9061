/*
 * control: the far store's thread that talks with the donors: sessions, leases, heartbeats, and burying the dead.
 *
 * Theory of operation. One loop over one fabric: events and time go to the donors (peers.c) and to the lease planner
 * (leases.c). All decisions are in the machines there; here are only the thread, its clock and its wake-ups. It sleeps
 * until something happens: an idle store costs a heartbeat.
 *
 * The thread has a stack of 256 KiB, blocks all signals and allocates only until open.
 */
#ifndef CLIENT_CONTROL_H
#define CLIENT_CONTROL_H

#include "client/far_store.h"

/*
 * Starts the thread and waits until every donor is ready and the store is laid out (pages, chunks, bookkeeping), or
 * one has failed, which is logged. far->peers, id, config, state and domain are set. A store that is adopted is waited
 * for until one donor has claimed its slabs.
 */
int control_start(struct far *far);
/* Says goodbye to the donors, unless far->leave, and ends the thread. */
void control_stop(struct far *far);
/* Something waits for the thread. Any thread. */
void control_kick(struct far *far);

#endif
