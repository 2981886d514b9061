/*
 * control_group: reads memory limits and use of control groups of either version. It allocates nothing, because the
 * donor calls it while memory is short. Sources: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst.
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

/* Limits and use of a group and its descendants, in bytes. A value that the kernel does not report is 0. */
struct control_group_memory {
	uint64_t limit; /* the hard limit, or CONTROL_GROUP_NO_LIMIT */
	/* The kernel slows down tasks that allocate above this limit. CONTROL_GROUP_NO_LIMIT if there is none. */
	uint64_t high;
	uint64_t usage;
	uint64_t swapped;
	uint64_t inactive, active; /* file pages: not used lately, used lately */
};

/* Reads the group at @folder. Returns false if @folder is no group of that version, or if the group has neither
   limit. */
bool control_group_read(enum control_group_version version, const char *folder,
			struct control_group_memory *ret_memory);

/* Returns the lower of both limits. Up to this, the group is neither slowed down nor stopped. */
uint64_t control_group_easy(const struct control_group_memory *memory);
/* Returns how many bytes are left below the limit @of. Inactive file pages count as free, because the kernel reclaims
   them first. The kernel estimates MemAvailable in the same way. */
uint64_t control_group_left(const struct control_group_memory *memory, uint64_t of);

/* Finds the path of this process's group in that version's hierarchy, relative to its root. The root itself is the
   empty path. @proc replaces /proc in tests. Returns false if the process is in no group. */
bool control_group_own_path(const char *proc, enum control_group_version version, char ret_path[PATH_MAX]);

typedef void (*control_group_look)(const struct control_group_memory *memory, void *user);
/*
 * Calls @look for every group with a limit that contains this process: its own and its ancestors. @proc and @root
 * replace /proc and /sys/fs/cgroup in tests.
 *
 * In a container, the group's path may be the host's and not exist below @root. The root's files then belong to the
 * container's own group.
 */
void control_groups_own(const char *proc, const char *root, control_group_look look, void *user);

#endif
