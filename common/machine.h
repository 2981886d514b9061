/*
 * machine: how much memory there is for this process: the machine's, from /proc/meminfo, or less where a control
 * group (version 2 or 1, its own or one above) allows less, be it that it slows down who takes more (memory.high). Any
 * thread.
 */
#ifndef COMMON_MACHINE_H
#define COMMON_MACHINE_H

#include <stddef.h>
#include <stdint.h>

struct machine_memory {
	uint64_t total, available; /* bytes */
};

/* -ENOENT and the like: no /proc; -EPROTO: it does not say. A control group that cannot be read sets no limit. */
int machine_memory_read(struct machine_memory *ret_memory);
/* The same with other places for /proc and /sys/fs/cgroup; for tests. */
int machine_memory_read_at(const char *proc, const char *cgroup, struct machine_memory *ret_memory);
/* What the text of a meminfo says, 0-terminated. */
int machine_memory_parse(const char *text, struct machine_memory *ret_memory);

#endif
