/*
 * swap_groups: checks whether the pages that control groups have swapped out fit into these groups.
 *
 * Theory of operation. swapoff(2) brings each page back into its control group. A group at its limit must then give up
 * other memory, for which there is no swap space. So the OOM killer kills one of its programs, although the machine has
 * room. So each group with a limit must have room for its memory in use, without file pages that can be dropped, plus
 * its swapped pages. Both versions of control groups count children with their parents.
 *
 * Threads: one.
 */
#ifndef CLI_SWAP_GROUPS_H
#define CLI_SWAP_GROUPS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct swap_group {
	char path[PATH_MAX];             /* its folder */
	uint64_t limit, needed, swapped; /* in bytes; `needed` is the size of its memory and of its swapped pages */
};

/* Finds the group under @root (NULL for /sys/fs/cgroup) that would exceed its limit the most if up to @used bytes of
   swapped pages came back. Returns false if no group would exceed its limit, or if this is unknown. */
bool swap_groups_overflow(const char *root, uint64_t used, struct swap_group *ret_group);

#endif
