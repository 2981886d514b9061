/*
 * stall: hears from the kernel when tasks stall for lack of memory (PSI, Documentation/accounting/psi.rst): those of
 * this machine, and where control groups of version 2 tell, those of this process's own group.
 *
 * Theory of operation. A trigger is a descriptor that is ready for POLLPRI when tasks have stalled for 150 ms within
 * two seconds (windows of two seconds are what the kernel grants without privilege). Looking whether it is ready is
 * what acknowledges it, so it cannot be watched through another descriptor that looks twice; a thread of its own sleeps
 * in poll() and passes what it hears on to an eventfd.
 *
 * Threads. stall_open(), stall_take() and stall_close() belong to one thread; "stall" is its own.
 */
#ifndef MEMSERVER_STALL_H
#define MEMSERVER_STALL_H

#include <stdbool.h>

struct stall;

/* What only one of the two tells of is told by a line in the log. -ENOENT, -EOPNOTSUPP: this kernel has no PSI, or it
   is off; -EACCES, -EPERM: it may not be asked; -ENOMEM, ... The thread inherits the caller's signal mask, which should
   block everything. */
int stall_open(struct stall **ret_stall);
/* Takes NULL. */
void stall_close(struct stall *stall);
/* Readable when there was a stall. */
int stall_fd(const struct stall *stall);
/* Whether there was one since the last call. */
bool stall_take(struct stall *stall);

#endif
