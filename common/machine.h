/*
 * machine: reads how much memory this process may use: the machine's memory (/proc/meminfo), or less if a control group
 * of the process has a lower limit. The process's own group and all groups above it count, in both versions of control
 * groups. The limit memory.high counts, too, although it only slows down allocations.
 *
 * Threads: any.
 */
#ifndef COMMON_MACHINE_H
#define COMMON_MACHINE_H

#include <stddef.h>
#include <stdint.h>

struct machine_memory {
	uint64_t total, available; /* bytes */
};

/* Returns 0, -EPROTO if /proc/meminfo lacks a field, or -errno if it cannot be read. Control groups that cannot be
   read set no limit. */
int machine_memory_read(struct machine_memory *ret_memory);
/* Does the same with other directories than /proc and /sys/fs/cgroup, for tests. */
int machine_memory_read_at(const char *proc, const char *cgroup, struct machine_memory *ret_memory);
/* @text is the text of /proc/meminfo. Returns 0 or -EPROTO. */
int machine_memory_parse(const char *text, struct machine_memory *ret_memory);

#endif
