/* placement: never a forbidden donor, always an allowed one, and a nearly even spread. */
#include "client/far.h"
#include "client/lease/placement.h"
#include "tests/lib/tap.h"

#include <errno.h>

static void only_donors_with_room_are_chosen(void)
{
	struct random_state random;
	unsigned wrong = 0;

	random_seed(&random, 1);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t free[FAR_DONORS_MAX];
		unsigned count = 1 + (unsigned)random_below(&random, FAR_DONORS_MAX), candidates = 0;
		int chosen;

		for (unsigned j = 0; j < count; j++) {
			free[j] = random_below(&random, 4);
			candidates += free[j] > 0;
		}
		chosen = placement_choose(&random, free, count);
		if (candidates)
			wrong += chosen < 0 || (unsigned)chosen >= count || !free[chosen];
		else
			wrong += chosen != -ENOSPC;
	}
	ok(!wrong, "placement chooses a donor with room, or returns -ENOSPC");
}

static void same_seed_makes_the_same_choices(void)
{
	struct random_state first, second;
	uint64_t free[8] = {5, 3, 8, 1, 9, 2, 7, 7};
	bool same = true;

	random_seed(&first, 7);
	random_seed(&second, 7);
	for (unsigned i = 0; i < 1000; i++)
		same &= placement_choose(&first, free, 8) == placement_choose(&second, free, 8);
	ok(same, "the same seed makes the same choices");
}

/* With two donors placement compares both, so the choice is certain. */
static void roomier_of_two_donors_is_chosen(void)
{
	struct random_state random;
	uint64_t free[2] = {10, 11};
	unsigned wrong = 0;

	random_seed(&random, 3);
	for (unsigned i = 0; i < 100; i++)
		wrong += placement_choose(&random, free, 2) != 1;
	ok(!wrong, "of two donors placement chooses the one with more free memory");
}

static void placement_spreads_slabs_evenly(void)
{
	struct random_state random;
	uint64_t free[16];
	uint64_t least = UINT64_MAX, most = 0;

	random_seed(&random, 5);
	for (unsigned i = 0; i < 16; i++)
		free[i] = 1000;
	for (unsigned i = 0; i < 8000; i++)
		free[placement_choose(&random, free, 16)]--;
	for (unsigned i = 0; i < 16; i++) {
		least = free[i] < least ? free[i] : least;
		most = free[i] > most ? free[i] : most;
	}
	ok(most - least <= 8, "8000 slabs placed on 16 donors leave the donors' free memory at most 8 apart (%u)",
	   (unsigned)(most - least));
	for (unsigned i = 0; i < 8000; i++)
		free[placement_choose(&random, free, 16)]--;
	ok(placement_choose(&random, free, 16) == -ENOSPC, "placement can use all slabs, and then returns -ENOSPC");
}

int main(void)
{
	only_donors_with_room_are_chosen();
	same_seed_makes_the_same_choices();
	roomier_of_two_donors_is_chosen();
	placement_spreads_slabs_evenly();
	return tap_done();
}
