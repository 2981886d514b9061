#include "pager/loop.h"

#define WEIGHT 256 /* a depth changes the mean by this part of the difference */
/* Depths are alike if NARROW times their deviation is less than their mean plus a NARROW_BUDGET-th of the budget. */
#define NARROW 4
#define NARROW_BUDGET 16
#define NEIGHBOURS 32 /* pages chosen together */

void loop_open(struct loop *loop, uint64_t budget)
{
	int64_t units = (int64_t)budget * LOOP_UNIT;

	*loop = (struct loop){.budget = units, .deviation = units};
}

bool loop_note(struct loop *loop, uint64_t depth)
{
	int64_t difference = (int64_t)depth * LOOP_UNIT - loop->mean;
	int64_t distance = difference < 0 ? -difference : difference;

	loop->mean += difference / WEIGHT;
	loop->deviation += (distance - loop->deviation) / WEIGHT;
	return NARROW * loop->deviation < loop->mean + loop->budget / NARROW_BUDGET;
}

bool loop_keeps(uint64_t page, uint32_t stamp)
{
	/* Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4), of two numbers one after the other. */
	const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t hash = page / NEIGHBOURS * golden;

	hash = (hash ^ hash >> 32 ^ stamp) * golden;
	return (hash >> 32) % LOOP_SHARE == 0;
}
