/* Unit tests of blockdev/capacity: the arithmetic; the line it logs is checked from outside, in func. */
#include "blockdev/capacity.h"
#include "tests/tap.h"

#define MIB UINT64_C(1048576)

static uint64_t most(const uint64_t (*donors)[2], unsigned count, unsigned replicas)
{
	struct capacity capacities[4];

	for (unsigned i = 0; i < count; i++)
		capacities[i] = (struct capacity){.free = donors[i][0] * MIB, .slab = donors[i][1] * MIB};
	return capacity_most(capacities, count, replicas) / MIB;
}

int main(void)
{
	ok(most((const uint64_t[][2]){{64, 16}}, 1, 1) == 64, "one donor");
	ok(most((const uint64_t[][2]){{79, 16}}, 1, 1) == 64, "whole slabs only");
	ok(most((const uint64_t[][2]){{15, 16}}, 1, 1) == 0, "less than a slab");
	ok(most((const uint64_t[][2]){{64, 16}, {32, 16}}, 2, 1) == 96, "two donors");
	ok(most((const uint64_t[][2]){{64, 16}, {32, 16}}, 2, 2) == 32, "a replica on each: the smaller decides");
	ok(most((const uint64_t[][2]){{64, 16}, {32, 16}, {32, 16}}, 3, 2) == 64, "two replicas on three donors");
	ok(most((const uint64_t[][2]){{64, 16}, {64, 16}, {64, 16}}, 3, 2) == 96, "as large as each other");
	ok(most((const uint64_t[][2]){{64, 16}, {0, 0}}, 2, 1) == 64, "a donor that is away lends nothing");
	ok(most((const uint64_t[][2]){{0, 0}}, 1, 1) == 0, "and alone neither");
	return tap_done();
}
