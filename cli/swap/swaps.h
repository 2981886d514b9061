/*
 * swaps: reads the swap spaces of this machine from /proc/swaps, and how much memory could take the pages of a swap
 * space.
 *
 * Threads: any.
 */
#ifndef CLI_SWAPS_H
#define CLI_SWAPS_H

#include <stdint.h>

#define SWAPS_MAX 64 /* the kernel allows 32 */

struct swap_area {
	char path[128];
	uint64_t size, used; /* bytes */
	int priority;
};

/* Reads up to @max swap spaces. Returns their number, or -errno. */
int swaps_read(struct swap_area *ret_areas, unsigned max);
/* Finds the swap space at @path. Returns 0, -ENOENT if there is none, or another -errno. */
int swaps_find(const char *path, struct swap_area *ret_area);
/* Reads where the pages of the swap space @path could go: *@ret_memory gets the available memory, *@ret_swap the free
   space of other swap spaces, in bytes. Returns 0 or -errno. */
int swaps_room_beside(const char *path, uint64_t *ret_memory, uint64_t *ret_swap);

/* Parses a line of /proc/swaps (public for tests). Returns 0, or -EINVAL if it does not describe a swap space. */
int swaps_parse(const char *line, struct swap_area *ret_area);

#endif
