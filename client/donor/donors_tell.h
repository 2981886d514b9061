/*
 * donors_tell: log lines that tell the user about the state of a donor. Each is logged once, when donors.c decides.
 *
 * Threads: the control thread.
 */
#ifndef CLIENT_DONORS_TELL_H
#define CLIENT_DONORS_TELL_H

#include "client/far_store.h"

/* After this time away, a donor is reported to the user. clock_now() measures it, because the user experiences real
   time. */
#define DONORS_TELL_NS UINT64_C(2000000000)

/* The donor has gone away. Logs this with --verbose only, because most donors are back in a moment. */
void donors_tell_broke(const struct far_donor *donor);
/* The donor has been away for DONORS_TELL_NS. Logs a warning, once. */
void donors_tell_away(const struct far *far, struct far_donor *donor);
/* A donor that the donors file has added does not answer, or refuses this client. Logs a warning, once. */
void donors_tell_not_added(struct far_donor *donor);
/* The donor is up again. A donor of an adopted store may be up for the first time. */
void donors_tell_back(const struct far_donor *donor);
/* The donor is lost. Logs the donor's own reason if it gave one. */
void donors_tell_lost(const struct far *far, const struct far_donor *donor);
/* The donor is reached for the first time. Logs a line if the donor's grace time is shorter than this process needs. */
void donors_tell_grace(const struct far *far, const struct far_donor *donor);
/* The donor has told its failure domain. Stores the name, which counts for placement from now on. Logs a warning if the
   name has changed, or if there are now too few domains for the replicas. */
void donors_tell_failure_domain(struct far *far, unsigned index);
/* If @whole is false, rebuilding of missing replicas has begun. If it is true, no chunk lacks a replica any more. */
void donors_tell_replicas(struct far *far, bool whole);

/* A chunk leaves for the backup. Logged at most once a minute. */
void donors_tell_leaving(struct far *far);
/* If more than @before pages are now on the backup alone, logs how many and wakes the rebuild thread to bring them
   back. */
void donors_tell_kept(struct far *far, uint64_t before);

#endif
