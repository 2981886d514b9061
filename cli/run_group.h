/*
 * run_group: the control group of one `farpage run --engine swap`: all processes of the command, and the most memory
 * that they may have together.
 *
 * Theory of operation. The group is made below the nearest group of this process that can have groups with limits, so
 * that limits of a slice or container go on to hold. In version 2 that is a group which passes its memory
 * controller on to its children, or the root; in version 1 it is this process's own group.
 *
 * The kernel may find no page to evict although swap space is free, and would kill a process then (seen with Linux
 * 6.18). It decides by counts that are brought up to date late: if all pages have just moved to the active list, it
 * believes that the inactive list is still long, and evicts nothing. Version 2 slows the group down a little below its
 * limit (memory.high), so that there is time. Version 1 has no such thing: its killer is off, and a task that finds no
 * memory sleeps; a system call fails, which is why it should not come to that. run_group_look() reads memory.stat,
 * which brings the counts up to date, and then lets such tasks try again. An event asks for a look at once when the
 * kernel begins to find nothing. The killer is on when swap space is nearly full, and when many tries did not help.
 *
 * Sources: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, sections 10 and 11.
 *
 * Threads: one at a time; the group itself belongs to no process, and the guard (run_guard.h) removes it.
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
	uint64_t limit;   /* bytes; version 1 only, as the rest */
	int event;        /* an eventfd: the kernel finds no memory; -1: none */
	unsigned starved; /* looks at which a task slept for want of memory */
	unsigned calm;    /* looks since the last of these */
	bool kills;       /* the kernel's killer is on */
};

/* The memory, swap space and waiting time of a group, from its making to the last look. */
struct run_group_use {
	uint64_t bytes;        /* of memory, when it was looked at last */
	uint64_t swapped;      /* in swap space, the same */
	uint64_t peak_bytes;   /* of memory; the kernel's count, or the most that was seen */
	uint64_t swapped_peak; /* bytes in swap space, the most that was seen */
	uint64_t stalled_us;   /* time in which some task of the group waited for memory; UINT64_MAX: not counted */
	uint64_t killed;       /* processes that the kernel has killed for want of memory */
};

/* Chooses where the group called @name will be, and makes nothing. -errno, and @ret_why: what is missing. */
int run_group_place(const char *name, struct run_group *ret_group, char ret_why[RUN_GROUP_WHY_MAX]);
/* Makes it, with @local bytes for all its processes. -errno after one logged line, and then there is none. */
int run_group_make(struct run_group *group, uint64_t local);
/* Waits until @fd is readable, or @timeout_ms are over (-1: without end), and helps whenever the kernel finds no
   memory. Whether @fd is readable. */
bool run_group_wait(const struct run_group *group, int fd, int timeout_ms, struct run_group_use *use);
/* Puts the calling process there. Calls nothing that a child of fork(2) must not. -errno. */
int run_group_enter(const struct run_group *group);
/* Reads how much the group uses into @use, and lets tasks go on that found no memory. @far: the bytes of swap space
   that it has. Version 1 wants this every RUN_GROUP_LOOK_MS. */
void run_group_look(struct run_group *group, uint64_t far, struct run_group_use *use);
/* What the kernel has counted itself, until now. */
void run_group_sum(const struct run_group *group, struct run_group_use *use);
/* How many processes are in it, and in groups below it; those that have ended and were not waited for do not count. */
unsigned run_group_count(const struct run_group *group);
/* Kills all these processes, and waits until they have ended, for ten seconds at most. No group: nothing to do. */
void run_group_kill(const struct run_group *group);
/* Removes it, which must be empty. No group: nothing to do. -errno after one logged line. */
int run_group_remove(const struct run_group *group);

#endif
