/*
 * run_group: the control group of one `farpage run --engine swap`. It limits the memory of all processes of the command
 * together.
 *
 * Theory of operation. The group is made below a group that this process is in, so that the limits of a slice or a
 * container still apply. In version 1 of control groups the parent is this process's own group. In version 2 the parent
 * is the nearest group, from this process's group upwards, whose children can have limits. Such a group enables the
 * memory controller for its children, or is the root. A group for another process is made below a group of
 * that process, and only where nobody but root can rename or remove it.
 *
 * The kernel may kill a process of the group although swap space is free (seen with Linux 6.18). It evicts pages of
 * the inactive list, and uses counts that are updated late. If all pages have just moved to the active list, the
 * kernel still believes that the inactive list is long, finds no page there, and runs out of memory. The two versions
 * need different remedies:
 * - Version 2: memory.high is set a little below the limit. When the group exceeds it, the kernel slows the group's
 *   tasks, and has time to update its counts.
 * - Version 1 cannot slow a group. So the kernel's OOM killer is disabled for the group, and a task that finds no
 *   memory sleeps until it is woken. If a task finds no memory in a system call, the call fails instead. So tasks
 *   should rarely find no memory.
 *
 * In version 1 run_group_look() reads memory.stat, which makes the kernel update its counts, and then wakes the
 * sleeping tasks, so that they try again. When a task begins to sleep, the kernel signals an event, so that
 * run_group_wait() can wake the task at once. When swap space is nearly full or many tries have failed, the group is
 * really out of memory. Then run_group_look() enables the killer.
 *
 * Sources: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, sections 10 and 11.
 *
 * Threads: one at a time. The group itself belongs to no process, and the guard (run_guard.h) removes it.
 */
#ifndef CLI_RUN_GROUP_H
#define CLI_RUN_GROUP_H

#include "common/control_group.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_GROUP_LOOK_MS 10
#define RUN_GROUP_WHY_MAX 256

struct run_group {
	enum control_group_version version;
	char folder[PATH_MAX];
	uint64_t limit;   /* bytes; this field and all below are for version 1 only */
	int event;        /* an eventfd that signals that the kernel finds no memory, or -1 */
	unsigned starved; /* calls of run_group_look() that found a task asleep for lack of memory */
	unsigned calm;    /* calls of run_group_look() since a task last slept for lack of memory */
	bool kills;       /* the kernel's OOM killer is enabled */
	bool is_attended; /* another process makes the changes of run_group_look(), and this one only reads */
};

/* The memory, swap space and waiting time of a group, from its creation to the last run_group_look(). */
struct run_group_use {
	uint64_t bytes;        /* memory at the last run_group_look() */
	uint64_t swapped;      /* bytes in swap space at the last run_group_look() */
	uint64_t peak_bytes;   /* the most memory that was seen, or the kernel's own peak */
	uint64_t swapped_peak; /* highest number of bytes in swap space that was seen */
	uint64_t stalled_us;   /* time in which some task waited for memory, or UINT64_MAX if not counted */
	uint64_t killed;       /* processes that the kernel killed for lack of memory */
};

/* Chooses the folder of the group @name for the process @pid, and does not make it. If @pid is 0, the group is for this
   process. Returns 0, or -errno with the missing requirement in @ret_why. */
int run_group_place(const char *name, pid_t pid, struct run_group *ret_group, char ret_why[RUN_GROUP_WHY_MAX]);
/* Describes a group in @folder that another process has made and makes changes to. This process only reads it. */
void run_group_attended(enum control_group_version version, const char *folder, struct run_group *ret_group);
/* Makes the group, with a limit of @local bytes for all its processes together. Returns 0, or -errno after one logged
   line. After an error no group remains. */
int run_group_make(struct run_group *group, uint64_t local);
/* Waits until @fd is readable or @timeout_ms have passed (-1 for no limit). Meanwhile, in version 1, wakes tasks that
   sleep for lack of memory. Returns true if @fd is readable. */
bool run_group_wait(const struct run_group *group, int fd, int timeout_ms, struct run_group_use *use);
/* Moves the calling process into the group. May be called in a child after fork(2). Returns 0 or -errno. */
int run_group_enter(const struct run_group *group);
/* Moves the process @pid into the group. The caller makes sure that no other process gets this number meanwhile.
   Returns 0 or -errno. */
int run_group_move(const struct run_group *group, pid_t pid);
/* Updates @use, and in version 1 wakes tasks that sleep for lack of memory. @far is the swap space for the group in
   bytes. Version 1 needs this call every RUN_GROUP_LOOK_MS. */
void run_group_look(struct run_group *group, uint64_t far, struct run_group_use *use);
/* Adds the kernel's totals to @use: peaks of memory and swap, killed tasks, and stalls. */
void run_group_sum(const struct run_group *group, struct run_group_use *use);
/* Returns the number of processes in the group and in groups below it. A process that has ended does not count, even if
   its parent has not waited for it yet. */
unsigned run_group_count(const struct run_group *group);
/* Kills all processes in the group and below it, and waits up to ten seconds until they have ended. Does nothing if
   there is no group. */
void run_group_kill(const struct run_group *group);
/* Removes the group, which must be empty. Does nothing if there is no group. Returns 0, or -errno after one logged
   line. */
int run_group_remove(const struct run_group *group);

#endif
