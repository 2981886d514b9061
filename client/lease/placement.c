#include "client/lease/placement.h"

#include "client/far.h"

#include <assert.h>
#include <errno.h>

int placement_choose(struct random_state *random, const uint64_t free[], unsigned count)
{
	unsigned candidates[FAR_DONORS_MAX], found = 0;
	unsigned first, second;

	assert(count <= FAR_DONORS_MAX);
	for (unsigned i = 0; i < count; i++)
		if (free[i])
			candidates[found++] = i;
	if (!found)
		return -ENOSPC;
	if (found == 1)
		return (int)candidates[0];
	first = (unsigned)random_below(random, found);
	second = (unsigned)random_below(random, found - 1);
	if (second >= first)
		second++;
	return (int)(free[candidates[first]] >= free[candidates[second]] ? candidates[first] : candidates[second]);
}
