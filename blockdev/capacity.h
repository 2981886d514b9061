/*
 * capacity: whether donors have room for a device.
 *
 * Threads: any.
 */
#ifndef BLOCKDEV_CAPACITY_H
#define BLOCKDEV_CAPACITY_H

#include "farpage/store.h"

#include <stdint.h>

/* -ENOSPC after one logged line with the figures: a device of @bytes, each page on @replicas donors, is larger than
   what the donors of @store (far_open()'s) can lend: see client/domains.h, as last heard. */
int capacity_check(const struct store *store, uint64_t bytes, unsigned replicas);

#endif
