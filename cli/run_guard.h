/*
 * run_guard: the process that takes away what `farpage run --engine swap` has made, however that ends.
 *
 * Theory of operation. `farpage run` may be killed at any time, and a control group, swap space and a device would
 * stay. So a second process is forked before any of them is made. It waits at a pipe whose other end only `farpage run`
 * has. When that end closes, on purpose or by the process's end, the guard kills what is left in the group, and removes
 * group, swap space and device, as far as each is there. `farpage run` itself does that only if its guard was killed.
 *
 * The guard has a session of its own, and signals of a terminal do not reach it. If both are killed, by the end of a
 * container or service for example, `farpage swap list` shows the swap space that is left, and `farpage swap off`
 * removes it.
 *
 * Threads: one in each process.
 */
#ifndef CLI_RUN_GUARD_H
#define CLI_RUN_GUARD_H

#include <sys/types.h>

struct run_group;

struct run_guard {
	const struct run_group *group;
	const char *name; /* of the device; NULL: it stays */
	pid_t pid;
	int pipe; /* closing it is the signal */
};

/* Starts the guard of @group and of the device @name (NULL: none), neither of which needs to be there yet. Both must
   last as long as the guard. -errno after one logged line. */
int run_guard_start(const struct run_group *group, const char *name, struct run_guard *ret_guard);
/* Has the guard do its work, and waits for it. 0; -EBUSY: something is left, and a logged line tells what. */
int run_guard_end(struct run_guard *guard);

#endif
