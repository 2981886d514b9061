/*
 * control_group: where each version of control groups keeps what it counts of memory. Sources:
 * Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst.
 *
 * Threads: any.
 */
#ifndef CLI_CONTROL_GROUP_H
#define CLI_CONTROL_GROUP_H

#include <stdbool.h>
#include <stdint.h>

enum control_group_version { CONTROL_GROUP_V1, CONTROL_GROUP_V2, CONTROL_GROUP_VERSIONS };

/* What a group may use, and uses with those below it; bytes. 0: it does not say. */
struct control_group_memory {
	uint64_t limit;
	uint64_t usage;
	uint64_t swapped;
	uint64_t inactive, active; /* pages of files, those used lately apart */
};

/* "/sys/fs/cgroup..." */
const char *control_group_mount(enum control_group_version version);
/* False: @folder is no group of that version, or has no limit. */
bool control_group_read(enum control_group_version version, const char *folder,
			struct control_group_memory *ret_memory);

#endif
