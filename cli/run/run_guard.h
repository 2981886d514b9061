/*
 * run_guard: a process that removes everything that `farpage run --engine swap` has made, however the run ends.
 *
 * Theory of operation. `farpage run` may be killed at any time. A control group, swap space and a device would remain.
 * So a second process is forked before any of them is made. It waits at a pipe whose other end only `farpage run` has.
 * `farpage run` closes that end on purpose, or by ending. Then the guard kills the processes that are left in the
 * group, and removes the group, the swap space and the device, if they exist. `farpage run` does that itself only if
 * its guard was killed.
 *
 * The guard has a session of its own, so signals of a terminal do not reach it. If both processes are killed, for
 * example by the end of a container or service, the swap space remains. `farpage swap list` shows it, and `farpage swap
 * off` removes it.
 *
 * Threads: one in each process.
 */
#ifndef CLI_RUN_GUARD_H
#define CLI_RUN_GUARD_H

#include <sys/types.h>

struct run_group;

struct run_guard {
	const struct run_group *group;
	const char *name; /* the device to remove, or NULL for none */
	pid_t pid;
	int pipe; /* closing it makes the guard work */
};

/* Starts the guard of @group and of the device @name (NULL for no device). Neither needs to exist yet. Both
   arguments must outlive the guard. Returns 0, or -errno after one logged line. */
int run_guard_start(const struct run_group *group, const char *name, struct run_guard *ret_guard);
/* Makes the guard do its work and waits for its end. Returns 0. If something could not be removed, logs a line that
   names it and returns -EBUSY. */
int run_guard_end(struct run_guard *guard);

#endif
