/* placement: never a donor that must not be, always one that may, and nearly even. */
#include "client/far.h"
#include "client/lease/placement.h"
#include "tests/tap.h"

#include <errno.h>

static void test_allowed(void)
{
	struct random_state random;
	unsigned wrong = 0;

	random_seed(&random, 1);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t free[FAR_DONORS_MAX], excluded = random_next(&random) | random_next(&random);
		unsigned count = 1 + (unsigned)random_below(&random, FAR_DONORS_MAX), candidates = 0;
		int chosen;

		for (unsigned j = 0; j < count; j++) {
			free[j] = random_below(&random, 4);
			candidates += free[j] && !(excluded >> j & 1);
		}
		chosen = placement_choose(&random, free, count, excluded);
		if (candidates)
			wrong += chosen < 0 || (unsigned)chosen >= count || !free[chosen] || excluded >> chosen & 1;
		else
			wrong += chosen != -ENOSPC;
	}
	ok(!wrong, "always one with room that is not excluded, or none");
}

static void test_replays(void)
{
	struct random_state first, second;
	uint64_t free[8] = {5, 3, 8, 1, 9, 2, 7, 7};
	bool same = true;

	random_seed(&first, 7);
	random_seed(&second, 7);
	for (unsigned i = 0; i < 1000; i++)
		same &= placement_choose(&first, free, 8, 0) == placement_choose(&second, free, 8, 0);
	ok(same, "the same seed makes the same choices");
}

/* Two donors: always the one with more. */
static void test_two(void)
{
	struct random_state random;
	uint64_t free[2] = {10, 11};
	unsigned wrong = 0;

	random_seed(&random, 3);
	for (unsigned i = 0; i < 100; i++)
		wrong += placement_choose(&random, free, 2, 0) != 1;
	ok(!wrong, "of two the one with more free memory");
}

static void test_even(void)
{
	struct random_state random;
	uint64_t free[16];
	uint64_t least = UINT64_MAX, most = 0;

	random_seed(&random, 5);
	for (unsigned i = 0; i < 16; i++)
		free[i] = 1000;
	for (unsigned i = 0; i < 8000; i++)
		free[placement_choose(&random, free, 16, 0)]--;
	for (unsigned i = 0; i < 16; i++) {
		least = free[i] < least ? free[i] : least;
		most = free[i] > most ? free[i] : most;
	}
	ok(most - least <= 8, "8000 slabs over 16 donors: %u apart at most", (unsigned)(most - least));
	for (unsigned i = 0; i < 8000; i++)
		free[placement_choose(&random, free, 16, 0)]--;
	ok(placement_choose(&random, free, 16, 0) == -ENOSPC, "and all of it can be had");
}

int main(void)
{
	test_allowed();
	test_replays();
	test_two();
	test_even();
	return tap_done();
}
