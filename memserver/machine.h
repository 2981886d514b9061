/* machine: how much memory this machine has, from /proc/meminfo. Any thread. */
#ifndef MEMSERVER_MACHINE_H
#define MEMSERVER_MACHINE_H

#include <stddef.h>
#include <stdint.h>

struct machine_memory {
	uint64_t total, available; /* bytes */
};

/* -ENOENT and the like: no /proc; -EPROTO: it does not say. */
int machine_memory_read(struct machine_memory *ret_memory);
/* The same for the text of a meminfo, 0-terminated. */
int machine_memory_parse(const char *text, struct machine_memory *ret_memory);

#endif
