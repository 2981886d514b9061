/*
 * capacity: checks whether the donors have room for a device.
 *
 * Threads. Any thread may call it.
 */
#ifndef BLOCKDEV_CAPACITY_H
#define BLOCKDEV_CAPACITY_H

#include "client/store.h"

#include <stdint.h>

/*
 * Checks that the donors of @store can lend enough for a device of @bytes with each page on @replicas donors
 * (client/lease/failure_domains.h). The last reports of the donors are used. @store was opened by far_open(). Returns
 * 0, or -ENOSPC after one logged line with the figures.
 */
int capacity_check(const struct store *store, uint64_t bytes, unsigned replicas);

#endif
