/*
 * swap_groups: checks before swapoff(2) whether each control group has room for its own swapped pages.
 *
 * Theory of operation. swapoff(2) returns each page to its control group. If the group then exceeds its limit and there
 * is no other swap space, the OOM killer kills one of the group's programs, even if the machine has free memory. So
 * this file computes for each group with a limit the memory after swapoff(2): the memory in use, minus file pages that
 * can be dropped, plus the swapped pages. Both versions of control groups count the memory of a child group in its
 * parent, too.
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
	uint64_t limit, needed, swapped; /* in bytes; `needed` is its memory after swapoff(2) */
};

/* Finds the group under @root (NULL for /sys/fs/cgroup) that would exceed its limit the most if up to @used bytes of
   swapped pages were returned to it. Returns false if no group would exceed its limit, or if this cannot be found
   out. */
bool swap_groups_overflow(const char *root, uint64_t used, struct swap_group *ret_group);

#endif
