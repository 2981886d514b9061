/* random: a seed repeats its sequence. Bounded numbers stay below the bound and are evenly distributed. Secrets
   differ. */
#include "common/random.h"
#include "tests/lib/tap.h"

static void a_seed_replays_its_sequence(void)
{
	struct random_state a, b, c;

	random_seed(&a, 42);
	random_seed(&b, 42);
	random_seed(&c, 43);
	unsigned same = 0, other = 0;
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t number = random_next(&a);

		same += number == random_next(&b);
		other += number == random_next(&c);
	}
	ok(same == 1000, "equal seeds give equal sequences");
	ok(other == 0, "another seed gives another sequence");
}

/* The expected numbers are the first outputs of the authors' reference implementation from the state 1, 2, 3, 4. */
static void outputs_are_those_of_the_reference_implementation(void)
{
	static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
	struct random_state state = {{1, 2, 3, 4}};

	for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++)
		ok(random_next(&state) == expected[i],
		   "output %u of xoshiro256** is that of the reference implementation", i);
	random_seed(&state, 0);
	ok(state.s[0] == 0xe220a8397b1dcdafu, "seed 0 gives the first output of splitmix64");
}

static void bounded_numbers_are_below_the_bound_and_even(void)
{
	struct random_state state;
	unsigned counts[10] = {0}, outside = 0;

	random_seed(&state, 7);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t number = random_below(&state, 10);

		if (number < 10)
			counts[number]++;
		else
			outside++;
	}
	ok(outside == 0, "random_below() never returns the bound or more");
	bool even = true;
	for (unsigned i = 0; i < 10; i++)
		even = even && counts[i] > 9500 && counts[i] < 10500; /* 5 standard deviations */
	ok(even, "random_below() returns each number equally often");
	ok(random_below(&state, 1) == 0, "random_below() of 1 returns 0");
	/* Plain scaling without rejection would give each multiple of 3 twice as often as the other numbers. */
	uint64_t bound = 3ull << 62;
	unsigned low = 0;
	for (unsigned i = 0; i < 30000; i++)
		low += random_below(&state, bound) % 3 == 0;
	ok(low > 9600 && low < 10400, "random_below() of a large bound returns each number equally often");
}

static void secrets_differ_and_keep_to_their_size(void)
{
	uint8_t a[32] = {0}, b[32] = {0}, guard[2] = {0x5a, 0x5a};

	random_secret(a, sizeof a);
	random_secret(b, sizeof b);
	ok(memcmp(a, b, sizeof a), "two secrets differ");
	random_secret(guard, 0);
	ok(guard[0] == 0x5a && guard[1] == 0x5a, "a secret of 0 bytes writes nothing");
}

int main(void)
{
	a_seed_replays_its_sequence();
	outputs_are_those_of_the_reference_implementation();
	bounded_numbers_are_below_the_bound_and_even();
	secrets_differ_and_keep_to_their_size();
	return tap_done();
}
