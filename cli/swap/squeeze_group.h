/*
 * squeeze_group: the files of a control group that `farpage swap squeeze` reads and writes. Only version 2 of control
 * groups has memory.reclaim. See the kernel's Documentation/admin-guide/cgroup-v2.rst and accounting/psi.rst.
 *
 * Threads: the command's only thread.
 */
#ifndef CLI_SQUEEZE_GROUP_H
#define CLI_SQUEEZE_GROUP_H

#include <limits.h>
#include <stdint.h>

struct squeeze_group {
	char folder[PATH_MAX];
};

/* Sizes are in bytes. */
struct squeeze_use {
	uint64_t stalled_us; /* since the group was made: the time in which some task of the group waited for memory */
	uint64_t size;       /* of its memory */
	uint64_t swapped;
	uint64_t reserved; /* memory.min or memory.low of the group, whichever is more; UINT64_MAX for "max" */
	uint64_t room;     /* swap space that the group can still use */
};

/*
 * Finds the group @name, for example "system.slice/backup.service". @name can also be the path of the group's folder,
 * which then begins with "/" or ".". Checks that the group can be squeezed: it has the memory controller, pressure and
 * memory.reclaim, and the machine has swap space that the group may use. Returns 0, or -errno after one logged line.
 */
int squeeze_group_open(const char *name, struct squeeze_group *ret_group);
/* Returns 0, -ENOENT if the group no longer exists, or another -errno. */
int squeeze_group_read(const struct squeeze_group *group, struct squeeze_use *ret_use);
/* Makes the kernel reclaim @bytes of the group. Returns 0, -EAGAIN if the kernel found less to reclaim, -ENOENT if the
   group no longer exists, or another -errno. */
int squeeze_group_reclaim(const struct squeeze_group *group, uint64_t bytes);

#endif
