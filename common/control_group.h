/*
 * control_group: reads memory limits and memory use of control groups, of version 1 and 2. The functions allocate
 * nothing, because the donor calls them when memory is short. See the kernel's Documentation/admin-guide/cgroup-v2.rst
 * and cgroup-v1/memory.rst.
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

/* Limits and memory use of a group with its descendants, in bytes. A use that the kernel does not report is 0. */
struct control_group_memory {
	uint64_t limit; /* the limit that allocations cannot exceed, or CONTROL_GROUP_NO_LIMIT */
	/* The limit above which the kernel slows down tasks that allocate, or CONTROL_GROUP_NO_LIMIT. */
	uint64_t high;
	uint64_t usage;
	uint64_t swapped;
	uint64_t inactive, active; /* pages of files: those not used recently, and those used recently */
};

/* Reads the group whose directory is @folder. Returns false if the group has neither limit (`limit`, `high`), or if
   @folder is not a group of this version. */
bool control_group_read(enum control_group_version version, const char *folder,
			struct control_group_memory *ret_memory);

/* Returns the lower of the two limits. While the group uses less, it runs at full speed. */
uint64_t control_group_easy(const struct control_group_memory *memory);
/* Returns how many more bytes the group can allocate below the limit @of. Inactive file pages count as free, because
   the kernel reclaims them first. (The kernel estimates MemAvailable in the same way.) */
uint64_t control_group_left(const struct control_group_memory *memory, uint64_t of);

/* Writes the path of this process's group, relative to the root of the version's hierarchy. The root itself is "".
   @proc is "/proc", or another directory in tests. Returns false if the process has no group there. */
bool control_group_own_path(const char *proc, enum control_group_version version, char ret_path[PATH_MAX]);
/* Does the same for the process whose folder is @process, such as "/proc/7". */
bool control_group_path(const char *process, enum control_group_version version, char ret_path[PATH_MAX]);

/* For version 2. Returns true if the kernel may swap pages of the group @folder. This needs a vm.swappiness above 0,
   and no memory.swap.max of 0 in the group or above it. In version 1 each group has a swappiness of its own. */
bool control_group_swaps(const char *folder);

typedef void (*control_group_look)(const struct control_group_memory *memory, void *user);
/*
 * Calls @look for every group with a limit that contains this process: its own group, and all groups above it. @proc
 * and @root are "/proc" and CONTROL_GROUP_ROOT, or other directories in tests.
 *
 * In a container, /proc may show the group's path on the host, which does not exist in the container. The function
 * skips directories that do not exist. The root directory has the limits of the container's own group.
 */
void control_groups_own(const char *proc, const char *root, control_group_look look, void *user);

#endif
