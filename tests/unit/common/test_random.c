/* random: a seed is a history; bounded numbers are bounded and even; secrets differ. */
#include "common/random.h"
#include "tests/tap.h"

static void test_replay(void)
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
	ok(same == 1000, "one seed, one sequence");
	ok(other == 0, "another seed, another sequence");
}

/* The first outputs of the authors' reference implementation from the state 1, 2, 3, 4. */
static void test_reference(void)
{
	static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
	struct random_state state = {{1, 2, 3, 4}};
	for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++)
		ok(random_next(&state) == expected[i], "xoshiro256** output %u", i);
	random_seed(&state, 0);
	ok(state.s[0] == 0xe220a8397b1dcdafu, "splitmix64's first output from 0");
}

static void test_below(void)
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
	ok(outside == 0, "never the bound or above");
	bool even = true;
	for (unsigned i = 0; i < 10; i++)
		even = even && counts[i] > 9500 && counts[i] < 10500; /* 5 standard deviations */
	ok(even, "each equally often");
	ok(random_below(&state, 1) == 0, "below one there is only zero");
	/* Plain scaling without rejection would give the low half of 3/4 x 2^64 twice as often as a third of it. */
	uint64_t bound = 3ull << 62;
	unsigned low = 0;
	for (unsigned i = 0; i < 30000; i++)
		low += random_below(&state, bound) % 3 == 0;
	ok(low > 9600 && low < 10400, "even for a large bound too");
}

static void test_secret(void)
{
	uint8_t a[32] = {0}, b[32] = {0}, guard[2] = {0x5a, 0x5a};
	random_secret(a, sizeof a);
	random_secret(b, sizeof b);
	ok(memcmp(a, b, sizeof a), "two secrets differ");
	random_secret(guard, 0);
	ok(guard[0] == 0x5a && guard[1] == 0x5a, "no bytes asked, none written");
}

int main(void)
{
	test_replay();
	test_reference();
	test_below();
	test_secret();
	return tap_done();
}
