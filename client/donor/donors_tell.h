/*
 * donors_tell: the log lines that tell the user about donors. The files donors*.c decide when.
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_DONORS_TELL_H
#define CLIENT_DONORS_TELL_H

#include "client/far_store.h"

/* A donor that has been away for this long is reported to the user. This is real time (clock_now()), because the user
   experiences real time. The store notices a silence within a second of its own time, so users hear of a dead donor
   within three seconds even if the store's machine is slow. */
#define DONORS_TELL_NS UINT64_C(1500000000)

/* The donor has gone away. Logs this only with --verbose, because most donors are back in a moment. */
void donors_tell_broke(const struct far_donor *donor);
/* Patience with the donor is over, but it has the last copy of a page, so the store continues to wait. Logs a
   warning. */
void donors_tell_needed(const struct far *far, const struct far_donor *donor);
/* The donor has been away for DONORS_TELL_NS. Logs a warning, once. */
void donors_tell_away(const struct far *far, struct far_donor *donor);
/* A donor that the donors file has added does not answer, or refuses this client. Logs a warning, once. */
void donors_tell_not_added(struct far_donor *donor);
/* The donor is up again. If the store was adopted, or opened without this donor, it is up for the first time. */
void donors_tell_back(const struct far_donor *donor);
/* The donor is lost. Logs an error. If the donor is gone, the line says why: the donor's own reason, or how the
   connection failed. */
void donors_tell_lost(const struct far *far, unsigned index);
/* The donor is reached for the first time. Logs a line if its grace time is shorter than this process needs. */
void donors_tell_grace(const struct far *far, const struct far_donor *donor);
/* The donor has reported its failure domain. Stores the name for placement. Logs a warning if the name has changed,
   or if there are now too few failure domains for the replicas. */
void donors_tell_failure_domain(struct far *far, unsigned index);
/* @whole is false when missing replicas begin to be rebuilt, and true when no chunk lacks a replica any more. */
void donors_tell_replicas(struct far *far, bool whole);

/* A chunk begins to leave for the backup. Logged at most once a minute. */
void donors_tell_leaving(struct far *far);
/* If more than @before pages are now only on the backup, logs how many, and wakes the rebuild thread, which brings
   them back. */
void donors_tell_kept(struct far *far, uint64_t before);

#endif
