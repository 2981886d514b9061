/*
 * capacity: checks whether the donors have room for a device.
 *
 * Threads. Any thread may call capacity_check().
 */
#ifndef BLOCKDEV_CAPACITY_H
#define BLOCKDEV_CAPACITY_H

#include "client/store.h"

#include <stdint.h>

/* Checks whether the donors of @store have free memory for @bytes, with each page on @replicas of them
   (client/lease/failure_domains.h). Uses the donors' last reports. @store was opened by far_open(). Returns 0, or
   -ENOSPC after one logged line. */
int capacity_check(const struct store *store, uint64_t bytes, unsigned replicas);

#endif
