/*
 * stall: reports when tasks stall for lack of memory (PSI, Documentation/accounting/psi.rst). The module watches this
 * machine and, where cgroup v2 reports pressure, this process's own control group.
 *
 * Theory of operation. A trigger is a descriptor that is ready for POLLPRI when tasks have stalled for 150 ms within
 * two seconds. A window of two seconds needs no privilege. A poll that finds the trigger ready also acknowledges it. So
 * the loop cannot watch the trigger through another descriptor, which would poll the trigger twice. Instead, a separate
 * thread sleeps in poll() and signals an eventfd.
 *
 * Threads. stall_open(), stall_take() and stall_close() belong to one thread. The thread "stall" polls.
 */
#ifndef MEMSERVER_STALL_H
#define MEMSERVER_STALL_H

#include <stdbool.h>

struct stall;

/*
 * Starts the thread "stall", which inherits the caller's signal mask; the mask should block all signals. If only one of
 * the two sources works, logs one line. Returns 0 or -errno:
 *
 *   -ENOENT, -EOPNOTSUPP   this kernel has no PSI, or it is off
 *   -EACCES, -EPERM        this process may not use PSI
 *   -ENOMEM, ...
 */
int stall_open(struct stall **ret_stall);
/* Accepts NULL. */
void stall_close(struct stall *stall);
/* Returns a descriptor that is readable after a stall. */
int stall_fd(const struct stall *stall);
/* Takes a report of stalls. Returns true if there was a stall since the last call. */
bool stall_take(struct stall *stall);

#endif
