/*
 * control_group: what control groups of either version count of memory, and allow. Nothing is allocated: the donor
 * looks while memory is short. Sources: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst.
 *
 * Threads: any.
 */
#ifndef COMMON_CONTROL_GROUP_H
#define COMMON_CONTROL_GROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define CONTROL_GROUP_ROOT "/sys/fs/cgroup"
#define CONTROL_GROUP_NO_LIMIT UINT64_MAX

enum control_group_version { CONTROL_GROUP_V1, CONTROL_GROUP_V2, CONTROL_GROUP_VERSIONS };

/* What a group may use, and uses with those below it; bytes. 0: it does not say. */
struct control_group_memory {
	uint64_t limit; /* it cannot have more; or CONTROL_GROUP_NO_LIMIT */
	uint64_t high;  /* above this each of its tasks that takes memory is slowed down; or CONTROL_GROUP_NO_LIMIT */
	uint64_t usage;
	uint64_t swapped;
	uint64_t inactive, active; /* pages of files, those used lately apart */
};

/* False: @folder is no group of that version, or has neither limit. */
bool control_group_read(enum control_group_version version, const char *folder,
			struct control_group_memory *ret_memory);

/* What it may use without being slowed down, or stopped. */
uint64_t control_group_easy(const struct control_group_memory *memory);
/* What is left of @of, the one limit or the other, where the pages of files that it would give up first count as free:
   so does the kernel estimate MemAvailable. */
uint64_t control_group_left(const struct control_group_memory *memory, uint64_t of);

/* The path of this process's group in the hierarchy of that version, below its root; empty: the root. @proc, in place
   of /proc: for tests. Returns false if the process is in none. */
bool control_group_own_path(const char *proc, enum control_group_version version, char ret_path[PATH_MAX]);

typedef void (*control_group_look)(const struct control_group_memory *memory, void *user);
/*
 * Calls @look for each group with either limit that this process is in: its own and those above. @proc and @root, in
 * place of /proc and /sys/fs/cgroup: for tests. In a container the group's path may be the host's, and not to be found
 * there; the root's files then are the own group's.
 */
void control_groups_own(const char *proc, const char *root, control_group_look look, void *user);

#endif
