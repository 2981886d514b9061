/*
 * upgrade: replaces the running donor by the present contents of its program file, while clients keep their leases. The
 * program file is the one that the donor's path leads to now. So a symbolic link in the path may have been replaced.
 *
 * Theory of operation. A package manager has written a new program file, or the operator has changed settings that need
 * a start. SIGUSR2 asks for the upgrade:
 *
 * 1. Trial. The donor starts the program file as a child, with its own command line and the list of leases
 *    (handover.h). The child reads all settings and the list, logs what is wrong, and ends without serving. The donor
 *    serves meanwhile.
 * 2. If the trial succeeded, the donor sends SUSPEND to its clients, so that they do not take the donor for dead. It
 *    then waits at most UPGRADE_PATIENCE_NS until the clients have disconnected.
 * 3. The donor lists its leases again and replaces itself by execve(2). It keeps its process id, so a service manager
 *    sees no restart.
 * 4. The new program adopts the leases and listens. Clients return as after a broken connection, within tens of ms.
 *
 * If the trial fails, or the file cannot be executed, the donor continues as before.
 *
 * Threads. All functions run in the donor's thread.
 */
#ifndef MEMSERVER_UPGRADE_H
#define MEMSERVER_UPGRADE_H

#include "memserver/handover.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define UPGRADE_TRIAL_VARIABLE "FARPAGE_TRIAL"

/* The longest wait for clients to end their connections. */
#define UPGRADE_PATIENCE_NS UINT64_C(500000000)
/* The longest time for a trial. A trial may wait for a resolver. */
#define UPGRADE_TRIAL_NS UINT64_C(60000000000)

struct upgrade {
	char path[PATH_MAX];           /* the absolute path of the program file, or "" if unknown */
	char *const *argv;             /* lives as long as the program */
	pid_t trial;                   /* the child, or 0 */
	uint64_t give_up_at;           /* time of the donor's clock at which the trial is killed if it still runs */
	struct handover_extent extent; /* the leases that the trial has accepted */
};

/* Remembers the path by which this program was started, which may go through symbolic links. Call it at the start,
   because the path may be relative to the current folder. The caller has blocked SIGCHLD and given it the default
   action. */
void upgrade_open(struct upgrade *upgrade, char *const *argv);
/* Ends a trial that is in progress. */
void upgrade_close(struct upgrade *upgrade);
/* Starts a trial for @donor, unless one is in progress. Logs one line if it starts none. */
void upgrade_try(struct upgrade *upgrade, const struct donor *donor);
/* Kills a trial that takes longer than UPGRADE_TRIAL_NS, after one logged line. */
void upgrade_expire(struct upgrade *upgrade, uint64_t now);
/* Returns when to call upgrade_expire(), in ns of the donor's clock, or UINT64_MAX for never. */
uint64_t upgrade_due(const struct upgrade *upgrade);
/* Returns true if the donor now has leases that the trial has not seen. The next program might refuse these leases. */
bool upgrade_is_outdated(const struct upgrade *upgrade, const struct donor *donor);
/* Call it at SIGCHLD. Returns true if the trial has ended and succeeded. Logs one line if the trial failed. */
bool upgrade_has_succeeded(struct upgrade *upgrade);
/* Replaces the program by the program file. Returns only if that failed, after one logged line. */
void upgrade_replace(struct upgrade *upgrade, const struct donor *donor);
/* Returns true if this process is a trial. */
bool upgrade_is_trial(void);

#endif
