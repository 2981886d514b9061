/* pressure: what a machine can spare, in steps and in seeded histories. */
#include "memserver/pressure.h"

#include "common/random.h"
#include "tests/tap.h"

#define MIB UINT64_C(1048576)
#define SECOND UINT64_C(1000000000)

/* Slabs of 64 MiB; the reserve is 16 of them, the margin two. */
static const struct pressure_config config = {.slabs = 64, .slab_bytes = 64 * MIB, .reserve = 1024 * MIB};
static struct pressure pressure;

/* @available in slabs above the reserve. */
static uint32_t read_at(uint64_t now, int available, uint32_t in_use, uint32_t going, bool stalls)
{
	const struct pressure_reading reading = {
	    .available = (uint64_t)(16 + available) * 64 * MIB, .in_use = in_use, .going = going, .stalls = stalls};

	return pressure_read(&pressure, now, &reading);
}

static void test_calm(void)
{
	pressure_init(&pressure, &config);
	ok(read_at(0, 100, 0, 0, false) == 64, "plenty: all there is");
	ok(read_at(SECOND, 12, 0, 0, false) == 10, "less: what leaves the reserve and a margin");
	ok(read_at(2 * SECOND, 2, 10, 0, false) == 10, "all of it in use");
	ok(read_at(3 * SECOND, 0, 10, 0, false) == 10, "some of the margin gone: nothing more, nothing less");
	ok(read_at(4 * SECOND, 22, 10, 0, false) == 30 && pressure.state == PRESSURE_CALM, "more: at once");
	ok(pressure.read_at == 4 * SECOND + PRESSURE_READ_NS, "read now and then while there is plenty");
	read_at(5 * SECOND, 5, 10, 0, false);
	ok(pressure.read_at == 5 * SECOND + PRESSURE_READ_SHORT_NS, "more often while there is not");
}

static void test_short(void)
{
	pressure_init(&pressure, &config);
	read_at(0, 22, 20, 0, false);
	ok(read_at(SECOND, -3, 20, 0, false) == 17 && pressure.state == PRESSURE_PRESSED,
	   "three slabs short: three less");
	ok(read_at(2 * SECOND, -3, 20, 3, false) == 17, "the same while they are on their way");
	ok(read_at(2 * SECOND, -5, 20, 3, false) == 15, "two more if it gets worse");
	ok(read_at(3 * SECOND, 0, 15, 0, false) == 15, "they are back: just enough");
	ok(read_at(3 * SECOND, 40, 15, 0, false) == 15, "much more: but not at once");
	ok(read_at(32 * SECOND - 1, 40, 15, 0, false) == 15 && pressure.state == PRESSURE_PRESSED, "nor soon");
	ok(read_at(32 * SECOND, 40, 15, 0, false) == 19 && pressure.state == PRESSURE_GROWING, "later, a step");
	ok(read_at(33 * SECOND, 40, 15, 0, false) == 19, "no two at a time");
	ok(read_at(34 * SECOND, 40, 15, 0, false) == 23, "then the next");
	ok(read_at(36 * SECOND, 3, 18, 0, false) == 19, "as far as there is");
	ok(pressure.state == PRESSURE_CALM, "and that is calm");
	ok(read_at(37 * SECOND, -1, 19, 0, false) == 18 && read_at(38 * SECOND, -16, 16, 0, false) == 0,
	   "from all of it to nothing");
	ok(read_at(68 * SECOND - 1, 50, 0, 0, false) == 0 && read_at(68 * SECOND, 50, 0, 0, false) == 4 &&
	       read_at(69 * SECOND, -1, 4, 0, false) == 3 && pressure.state == PRESSURE_PRESSED,
	   "pressure while it grows begins anew");
}

static void test_stalls(void)
{
	pressure_init(&pressure, &config);
	ok(read_at(0, 100, 20, 0, true) == 64 && pressure.state == PRESSURE_CALM,
	   "stalls with plenty of memory are somebody else's");
	ok(read_at(SECOND, 10, 20, 0, true) == 16 && pressure.state == PRESSURE_PRESSED,
	   "with little to spare: a step");
	ok(read_at(2 * SECOND, 10, 20, 4, true) == 16, "the next when that one is done");
	pressure_init(&pressure, &config);
	ok(read_at(SECOND, 10, 20, 6, true) == 14, "and none while as much is on its way back anyway");
	pressure_init(&pressure, &config);
	read_at(SECOND, 10, 20, 0, true);
	ok(read_at(3 * SECOND, 14, 16, 0, true) == 12, "is a step more");
	ok(read_at(4 * SECOND, 14, 1, 0, true) == 0 && read_at(5 * SECOND, 14, 0, 0, true) == 0, "down to nothing");
}

/*
 * A machine whose own use goes up and down, clients that take all they may, slabs that come back within ten seconds.
 * Once its own use has stood still for that long, the reserve is there if giving all back can make it.
 */
static const char *history(uint64_t seed)
{
	const uint64_t total = 5120 * MIB;
	struct random_state random;
	uint64_t own = 1024 * MIB, now = 0, still = 0;
	uint32_t in_use = 0, going = 0;

	random_seed(&random, seed);
	pressure_init(&pressure, &config);
	for (int i = 0; i < 2000; i++) {
		struct pressure_reading reading = {.in_use = in_use, .going = going};
		uint64_t used = own + in_use * config.slab_bytes;
		uint32_t target;

		reading.available = used < total ? total - used : 0;
		reading.stalls = !random_below(&random, 20);
		target = pressure_read(&pressure, now, &reading);
		if (target > config.slabs)
			return "more than there is";
		if (target > in_use && reading.available < config.reserve + (target - in_use) * config.slab_bytes)
			return "more than the reserve leaves";
		if (now - still > 12 * SECOND && own + config.reserve <= total && reading.available < config.reserve)
			return "the reserve was not made up for";
		if (pressure.read_at <= now)
			return "never read again";
		going = in_use > target ? in_use - target : 0;
		if (in_use < target)
			in_use += (uint32_t)random_below(&random, target - in_use + 1);
		if (going && !random_below(&random, 10)) {
			in_use -= going;
			going = 0;
		}
		if (!random_below(&random, 100)) {
			own = random_below(&random, total - in_use * config.slab_bytes);
			still = now;
		}
		if (now - still > 10 * SECOND && going) {
			in_use -= going;
			going = 0;
		}
		now += random_below(&random, 2 * SECOND);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, last = argc > 1 ? first : 1000, seed;
	const char *wrong = NULL;

	test_calm();
	test_short();
	test_stalls();
	for (seed = first; seed <= last && !wrong; seed++)
		wrong = history(seed);
	ok(!wrong, "%llu histories", (unsigned long long)(last - first + 1));
	if (wrong)
		printf("# seed %llu: %s\n", (unsigned long long)seed - 1, wrong);
	ok(!strcmp(pressure_state_name(PRESSURE_GROWING), "growing"), "states have names");
	return tap_done();
}
