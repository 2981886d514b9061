/*
 * swaps: swap spaces of this machine, from /proc/swaps, and whether what is in one fits elsewhere.
 *
 * Threads: any.
 */
#ifndef CLI_SWAPS_H
#define CLI_SWAPS_H

#include <stdint.h>

#define SWAPS_MAX 64 /* the kernel takes 32 */

struct swap_area {
	char path[128];
	uint64_t size, used; /* bytes */
	int priority;
};

/* How many there are, at most @max; -errno. */
int swaps_read(struct swap_area *ret_areas, unsigned max);
/* The one at @path; -ENOENT. */
int swaps_find(const char *path, struct swap_area *ret_area);
/* Bytes that could take what is in @path: memory available and free room of other swap spaces. -errno. */
int swaps_room_beside(const char *path, uint64_t *ret_memory, uint64_t *ret_swap);

/* The parts of it, for tests. A line of /proc/swaps: -EINVAL: it is none. */
int swaps_parse(const char *line, struct swap_area *ret_area);

#endif
