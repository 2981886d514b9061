/*
 * control: the thread of a far store that talks with the donors: sessions, leases, heartbeats.
 *
 * Theory of operation. The thread first opens the store: it connects to the donors and lays out the tables, or adopts
 * the store of an ended process. Then control_step() runs in a loop. The thread sleeps until an event arrives or
 * something is due. It passes events and the time to donors.c and to the lease planner (leases.c), which make all
 * decisions. The thread also carries out the planner's actions. An idle store costs only heartbeats.
 *
 * The thread has a stack of 256 KiB and blocks all signals. It allocates memory only until the store is open.
 */
#ifndef CLIENT_CONTROL_H
#define CLIENT_CONTROL_H

#include "client/far_store.h"

/*
 * Starts the thread, and waits until the store is open. A new store needs all donors, but see config.go_without. For
 * an adopted store, one donor that has confirmed its slabs is enough (donors_adopt_outcome()). The caller has set
 * far->donors, id, config, state and domain. Returns 0, or an error, which is logged.
 */
int control_start(struct far *far);
/* Ends the thread and its sessions, with a goodbye to the donors unless far->leave is set. */
void control_stop(struct far *far);

#endif
