/*
 * machine: reads how much memory this process may use. The result is the machine's memory from /proc/meminfo, or less
 * if a control group allows less. The process's own group and its ancestors count, in versions 1 and 2. The limit
 * memory.high, which only slows down allocations, counts too. Any thread.
 */
#ifndef COMMON_MACHINE_H
#define COMMON_MACHINE_H

#include <stddef.h>
#include <stdint.h>

struct machine_memory {
	uint64_t total, available; /* bytes */
};

/* Reads /proc and /sys/fs/cgroup. Returns 0, -ENOENT or another -errno if /proc/meminfo cannot be read, or -EPROTO if
   it lacks a field. A control group that cannot be read sets no limit. */
int machine_memory_read(struct machine_memory *ret_memory);
/* Does the same with other paths for /proc and /sys/fs/cgroup, for tests. */
int machine_memory_read_at(const char *proc, const char *cgroup, struct machine_memory *ret_memory);
/* Parses the zero-terminated text of a meminfo file. Returns 0 or -EPROTO. */
int machine_memory_parse(const char *text, struct machine_memory *ret_memory);

#endif
