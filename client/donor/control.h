/*
 * control: the far store's thread that talks with the donors: sessions, leases, heartbeats, and the loss of donors.
 *
 * Theory of operation. One loop runs over one fabric. Events and time go to the donors (donors.c) and to the lease
 * planner (leases.c), whose state machines take all decisions. This file has only the thread, its clock and its
 * wake-ups. The thread sleeps until something happens: an idle store costs only heartbeats.
 *
 * The thread has a stack of 256 KiB and blocks all signals. It allocates memory only until the store is open.
 */
#ifndef CLIENT_CONTROL_H
#define CLIENT_CONTROL_H

#include "client/far_store.h"

/*
 * Starts the thread. Waits until the donors are ready (all, unless config.go_without) and the store is laid out: pages,
 * chunks, bookkeeping. An adopted store needs only one donor that has confirmed its slabs, see donors_adopt_outcome().
 * The caller has set far->donors, id, config, state and domain. Returns 0, or an error, which is logged.
 */
int control_start(struct far *far);
/* Ends the thread and its sessions. The donors get a goodbye, unless far->leave is set. */
void control_stop(struct far *far);

#endif
