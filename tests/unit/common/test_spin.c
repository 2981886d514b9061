/* spin: it grows towards what answers take, never beyond what pays, and forgets. */
#include "common/spin.h"
#include "tests/tap.h"

#define US 1000ull

static void test_fast(void)
{
	struct spin spin;

	spin_init(&spin, 50);
	ok(spin.ns == 50 * US, "it begins with what was asked for");
	for (unsigned i = 0; i < 100; i++)
		spin_learn(&spin, 9 * US);
	ok(spin.ns == 50 * US, "fast answers leave it");
}

static void test_growth(void)
{
	struct spin spin;

	spin_init(&spin, 50);
	spin_learn(&spin, 204 * US);
	spin_learn(&spin, 80 * US);
	spin_learn(&spin, 80 * US);
	ok(spin.ns == 100 * US, "answers of 80 us are polled for");
	for (unsigned i = 0; i < 100; i++)
		spin_learn(&spin, 400 * US);
	ok(spin.ns == 400 * US, "up to eight times");
	spin_learn(&spin, 401 * US);
	ok(spin.ns == 200 * US, "one that took longer halves it");
	for (unsigned i = 0; i < 100; i++)
		spin_learn(&spin, 5000 * US);
	ok(spin.ns == 50 * US, "and what takes milliseconds is slept for");
}

static void test_never(void)
{
	struct spin spin;

	spin_init(&spin, 0);
	spin_learn(&spin, 1);
	spin_learn(&spin, 100 * US);
	ok(spin.ns == 0, "never stays never");
}

int main(void)
{
	test_fast();
	test_growth();
	test_never();
	return tap_done();
}
