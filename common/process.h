/*
 * process: reads what the kernel reports about a process in /proc/PID (proc_pid_stat(5)). Allocates nothing.
 *
 * Threads: any.
 */
#ifndef COMMON_PROCESS_H
#define COMMON_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t parent;
	bool ended;       /* the main thread has ended. Other threads may still run, see `threads` */
	unsigned threads; /* threads that have not been waited for, 1 or more */
	uint64_t user_ns; /* processor time in user mode, of the process and of its children that have ended */
};

/* Returns 0, or -errno: -ESRCH if there is no such process. */
int process_look(pid_t pid, struct process *ret_process);
/* Returns true if there is no such process, or if all its threads have ended. Its parent may not have waited for it
   yet. */
bool process_has_ended(pid_t pid);
/* Returns true if the process is in the same namespace of @kind as this process, or if the kernel has no such
   namespaces. @kind is a file of /proc/PID/ns: "pid", "user" (namespaces(7)). */
bool process_shares_namespace(pid_t pid, const char *kind);

#endif
