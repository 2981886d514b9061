/*
 * run_group: the control group of one `farpage run --engine swap`. It limits the memory of all processes of the command
 * together.
 *
 * Theory of operation. The group is made below the nearest group of this process that can have child groups with
 * limits. So the limits of a slice or a container still apply. In version 2 the parent is a group that passes its
 * memory controller on to its children, or the root. In version 1 the parent is this process's own group.
 *
 * The kernel may find no page to evict although swap space is free, and then it would kill a process (seen with Linux
 * 6.18). The kernel decides by counts that are updated late. If all pages have just moved to the active list, the
 * kernel believes that the inactive list is still long, and evicts nothing.
 * - In version 2 the kernel slows the group's tasks when they use more than memory.high, which is a little below the
 *   limit. Meanwhile the kernel updates its counts.
 * - Version 1 cannot slow a group down. The kernel's OOM killer is switched off for it, and a task that finds no memory
 *   sleeps. In a system call such a task fails instead of sleeping, so this should be rare.
 *
 * In version 1 run_group_look() reads memory.stat, which updates the counts. Then it lets the sleeping tasks try again.
 * When the kernel begins to find no memory, an event wakes run_group_wait(), which helps at once. The killer is
 * switched on when swap space is nearly full, or when many tries did not help.
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

#define RUN_GROUP_LOOK_MS 10
#define RUN_GROUP_WHY_MAX 256

struct run_group {
	enum control_group_version version;
	char folder[PATH_MAX];
	uint64_t limit;   /* bytes; this field and all below are for version 1 only */
	int event;        /* an eventfd that signals that the kernel finds no memory, or -1 */
	unsigned starved; /* number of looks that found a task asleep for want of memory */
	unsigned calm;    /* number of looks since a task last slept for want of memory */
	bool kills;       /* the kernel's killer is switched on */
};

/* The memory, swap space and waiting time of a group from its creation to the last look. */
struct run_group_use {
	uint64_t bytes;        /* memory at the last look */
	uint64_t swapped;      /* bytes in swap space at the last look */
	uint64_t peak_bytes;   /* the most memory that was seen, or the kernel's own peak */
	uint64_t swapped_peak; /* highest number of bytes in swap space that was seen */
	uint64_t stalled_us;   /* time in which some task waited for memory, or UINT64_MAX if not counted */
	uint64_t killed;       /* processes that the kernel killed for want of memory */
};

/* Chooses where the group @name will be. Makes nothing. Returns 0, or -errno. In that case @ret_why says what is
   missing. */
int run_group_place(const char *name, struct run_group *ret_group, char ret_why[RUN_GROUP_WHY_MAX]);
/* Makes the group, with @local bytes for all its processes together. Returns 0, or -errno after one logged line;
   then there is no group. */
int run_group_make(struct run_group *group, uint64_t local);
/* Waits until @fd is readable or @timeout_ms have passed (-1: no limit). Meanwhile it wakes tasks when the kernel
   finds no memory. Returns true if @fd is readable. */
bool run_group_wait(const struct run_group *group, int fd, int timeout_ms, struct run_group_use *use);
/* Moves the calling process into the group. May be called in a child after fork(2). Returns 0 or -errno. */
int run_group_enter(const struct run_group *group);
/* Updates @use, and in version 1 lets tasks that found no memory try again. @far is the swap space for the group in
   bytes. Version 1 needs this call every RUN_GROUP_LOOK_MS. */
void run_group_look(struct run_group *group, uint64_t far, struct run_group_use *use);
/* Adds the totals that the kernel keeps to @use: peaks of memory and swap, killed tasks, and stalls. */
void run_group_sum(const struct run_group *group, struct run_group_use *use);
/* Returns the number of processes in the group and in groups below it. Ended processes that were not waited for do
   not count. */
unsigned run_group_count(const struct run_group *group);
/* Kills all processes in the group and below it, and waits up to ten seconds until they have ended. Does nothing if
   there is no group. */
void run_group_kill(const struct run_group *group);
/* Removes the group, which must be empty. Does nothing if there is no group. Returns 0, or -errno after one logged
   line. */
int run_group_remove(const struct run_group *group);

#endif
