/*
 * swap_groups: whether what control groups have swapped out fits into them.
 *
 * Theory of operation. swapoff(2) brings each page back into the control group that it belongs to. One that is at its
 * limit then is told to give up memory that has nowhere to go, and loses a program to the OOM killer, although the
 * machine has room. So for each group with a limit: what it uses, without file pages that can be dropped, and what is
 * swapped out of it must fit. Both versions of control groups count children with their parents.
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
	uint64_t limit, needed, swapped; /* bytes; needed: for what it has in memory and on the device */
};

/* The group under @root (NULL: /sys/fs/cgroup) that would be furthest beyond its limit when up to @used bytes of
   swapped pages came home; false: all fit, or nothing can be told. */
bool swap_groups_overflow(const char *root, uint64_t used, struct swap_group *ret_group);

#endif
