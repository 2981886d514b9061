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
   what the donors of @store (far_open()'s) can lend: whole slabs, as last heard. */
int capacity_check(const struct store *store, uint64_t bytes, unsigned replicas);

/* The sum of it, apart from any store: the most bytes that fit in @count donors' free slabs with each chunk on
   @replicas different ones. */
struct capacity {
	uint64_t free, slab; /* bytes; slab 0: it lends nothing */
};
uint64_t capacity_most(const struct capacity *donors, unsigned count, unsigned replicas);

#endif
