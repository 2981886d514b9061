/* Unit tests of client/donor_set: donors below, at and above 64. */
#include "client/donor_set.h"
#include "tests/lib/tap.h"

static void set_has_the_donors_that_were_added(void)
{
	static const unsigned added[] = {0, 63, 64, 65, 128, FAR_DONORS_MAX - 1};
	struct donor_set set = {0};
	unsigned wrong = 0, at = 0;

	ok(donor_set_is_empty(&set) && donor_set_next(&set, 0) == -1, "a set of zeroes has no donor");
	for (unsigned i = 0; i < 6; i++)
		donor_set_add(&set, added[i]);
	for (unsigned i = 0; i < FAR_DONORS_MAX; i++) {
		bool has = at < 6 && added[at] == i;

		wrong += donor_set_has(&set, i) != has;
		at += has;
	}
	ok(!wrong, "a set has the donors that were added, and no others");
	at = 0;
	for (int i = -1; (i = donor_set_next(&set, (unsigned)(i + 1))) >= 0 && at < 6; at++)
		wrong += (unsigned)i != added[at];
	ok(at == 6 && !wrong, "a walk finds each donor once, in order, and ends after the last place");
	donor_set_remove(&set, 64);
	ok(!donor_set_has(&set, 64) && donor_set_has(&set, 0) && donor_set_next(&set, 64) == 65,
	   "donor 64 is removed without donor 0 and the next donor");
	for (unsigned i = 0; i < 6; i++)
		donor_set_remove(&set, added[i]);
	ok(donor_set_is_empty(&set), "a set is empty after the last donor was removed");
}

static void few_donors_keeps_distinct_donors(void)
{
	struct few_donors few = {0};

	few_donors_add(&few, 0);
	few_donors_add(&few, 64);
	few_donors_add(&few, FAR_DONORS_MAX - 1);
	few_donors_add(&few, 64);
	ok(few.count == 3, "a donor that is added twice is kept once");
	ok(few_donors_has(&few, 64) && few_donors_has(&few, FAR_DONORS_MAX - 1) && !few_donors_has(&few, 128),
	   "donors that differ by 64 are different donors");
	few_donors_remove(&few, 0);
	ok(few.count == 2 && !few_donors_has(&few, 0) && few_donors_has(&few, 64), "only the named donor is removed");
	few_donors_remove(&few, 5);
	ok(few.count == 2, "removing an absent donor changes nothing");
}

static void few_donors_takes_no_more_than_fit(void)
{
	struct few_donors few = {0};

	for (unsigned i = 0; i < FEW_DONORS_MAX; i++)
		few_donors_add(&few, 60 + i);
	ok(few_donors_is_full(&few), "a set with as many donors as it can hold is full");
	few_donors_add(&few, 1000);
	ok(few.count == FEW_DONORS_MAX && !few_donors_has(&few, 1000), "a full set takes no further donor");
	few_donors_remove(&few, 60);
	few_donors_add(&few, 1000);
	ok(few_donors_has(&few, 1000) && few_donors_has(&few, 60 + FEW_DONORS_MAX - 1),
	   "a removed donor makes room for another");
}

int main(void)
{
	set_has_the_donors_that_were_added();
	few_donors_keeps_distinct_donors();
	few_donors_takes_no_more_than_fit();
	return tap_done();
}
