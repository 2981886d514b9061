/*
 * run_guard: a process that removes everything that `farpage run --engine swap` has made, even if the run is killed.
 *
 * Theory of operation. `farpage run` makes a control group, swap space and a device. They would remain if `farpage run`
 * were killed, so it first forks a second process, the guard. The guard waits at a pipe whose other end only `farpage
 * run` has. When `farpage run` closes this end, or is killed, the guard kills the processes that are left in the group.
 * Then it removes the group, the swap space and the device, if they exist. If the guard itself was killed, `farpage
 * run` does this work.
 *
 * The guard has a session of its own, so a terminal's signals do not reach it. If both processes are killed, for
 * example at the end of a container or service, the swap space remains. The user can then find it with `farpage swap
 * list`, and remove it with `farpage swap off`.
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
	int pipe; /* when it is closed, the guard begins its work */
};

/* Starts the guard of @group and of the device @name (NULL for no device). Neither needs to exist yet. Both
   arguments must outlive the guard. Returns 0, or -errno after one logged line. */
int run_guard_start(const struct run_group *group, const char *name, struct run_guard *ret_guard);
/* Makes the guard begin its work, and waits for its end. Returns 0, or -EBUSY after a logged line that names what
   could not be removed. After -EBUSY it may be called again, and then tries again. */
int run_guard_end(struct run_guard *guard);

#endif
