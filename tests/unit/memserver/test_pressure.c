/* pressure: computes how many slabs a machine can spare. The tests take single steps and play seeded histories. */
#include "common/random.h"
#include "memserver/pressure.h"
#include "tests/lib/tap.h"

#define MIB UINT64_C(1048576)
#define SECOND UINT64_C(1000000000)

/* Slabs of 64 MiB. The reserve is 16 slabs, and the margin is two. */
static const struct pressure_config config = {.slabs = 64, .slab_bytes = 64 * MIB, .reserve = 1024 * MIB};
static struct pressure pressure;

/* Takes a reading. @available counts slabs beyond the reserve. Returns the target. */
static uint32_t read_at(uint64_t now, int available, uint32_t in_use, uint32_t going, bool stalls)
{
	const struct pressure_reading reading = {
	    .available = (uint64_t)(16 + available) * 64 * MIB, .in_use = in_use, .going = going, .stalls = stalls};

	return pressure_read(&pressure, now, &reading);
}

static void the_target_follows_available_memory_in_state_calm(void)
{
	pressure_init(&pressure, &config);
	ok(read_at(0, 100, 0, 0, false) == 64, "plentiful memory allows all slabs");
	ok(read_at(SECOND, 12, 0, 0, false) == 10,
	   "scarcer memory allows the slabs that leave the reserve and the margin");
	ok(read_at(2 * SECOND, 2, 10, 0, false) == 10, "the target stays while all allowed slabs are in use");
	ok(read_at(3 * SECOND, 0, 10, 0, false) == 10,
	   "available memory inside the margin allows just the slabs in use");
	ok(read_at(4 * SECOND, 22, 10, 0, false) == 30 && pressure.state == PRESSURE_CALM,
	   "more available memory raises the target at once in state calm");
	ok(pressure.read_at == 4 * SECOND + PRESSURE_READ_NS,
	   "memory is read at the long interval while it is plentiful");
	read_at(5 * SECOND, 5, 10, 0, false);
	ok(pressure.read_at == 5 * SECOND + PRESSURE_READ_SHORT_NS,
	   "memory is read at the short interval while it is scarce");
}

static void the_target_falls_at_once_and_rises_in_steps(void)
{
	pressure_init(&pressure, &config);
	read_at(0, 22, 20, 0, false);
	ok(read_at(SECOND, -3, 20, 0, false) == 17 && pressure.state == PRESSURE_PRESSED,
	   "a lack of three slabs lowers the target by three");
	ok(read_at(2 * SECOND, -3, 20, 3, false) == 17,
	   "a lack does not lower the target if slabs on their way back make up for it");
	ok(read_at(2 * SECOND, -5, 20, 3, false) == 15, "a lack that grows by two slabs lowers the target by two more");
	ok(read_at(3 * SECOND, 0, 15, 0, false) == 15,
	   "the target stays when returned slabs have just restored the reserve");
	ok(read_at(3 * SECOND, 40, 15, 0, false) == 15, "memory that is free again does not raise the target at once");
	ok(read_at(32 * SECOND - 1, 40, 15, 0, false) == 15 && pressure.state == PRESSURE_PRESSED,
	   "the target does not rise before PRESSURE_CALM_NS without pressure");
	ok(read_at(32 * SECOND, 40, 15, 0, false) == 19 && pressure.state == PRESSURE_GROWING,
	   "the target rises by one step after PRESSURE_CALM_NS without pressure");
	ok(read_at(33 * SECOND, 40, 15, 0, false) == 19, "the target does not rise again before PRESSURE_STEP_NS");
	ok(read_at(34 * SECOND, 40, 15, 0, false) == 23, "the target rises by the next step after PRESSURE_STEP_NS");
	ok(read_at(36 * SECOND, 3, 18, 0, false) == 19, "a growing target stops at what available memory allows");
	ok(pressure.state == PRESSURE_CALM, "a growing target that reaches what memory allows ends in state calm");
	ok(read_at(37 * SECOND, -1, 19, 0, false) == 18 && read_at(38 * SECOND, -16, 16, 0, false) == 0,
	   "a lack of all slabs lowers the target to 0");
	ok(read_at(68 * SECOND - 1, 50, 0, 0, false) == 0 && read_at(68 * SECOND, 50, 0, 0, false) == 4 &&
	       read_at(69 * SECOND, -1, 4, 0, false) == 3 && pressure.state == PRESSURE_PRESSED,
	   "pressure while the target grows leads back to state pressed");
}

static void stalls_lower_the_target_while_memory_is_scarce(void)
{
	pressure_init(&pressure, &config);
	ok(read_at(0, 100, 20, 0, true) == 64 && pressure.state == PRESSURE_CALM,
	   "stalls while memory is plentiful change nothing");
	ok(read_at(SECOND, 10, 20, 0, true) == 16 && pressure.state == PRESSURE_PRESSED,
	   "stalls while memory is scarce lower the target by one step");
	ok(read_at(2 * SECOND, 10, 20, 4, true) == 16,
	   "stalls while the slabs of a step are on their way back keep the target");
	pressure_init(&pressure, &config);
	ok(read_at(SECOND, 10, 20, 6, true) == 14,
	   "stalls do not lower the target further while more slabs than a step are on their way back");
	pressure_init(&pressure, &config);
	read_at(SECOND, 10, 20, 0, true);
	ok(read_at(3 * SECOND, 14, 16, 0, true) == 12,
	   "stalls after the slabs of a step are back lower the target by one more step");
	ok(read_at(4 * SECOND, 14, 1, 0, true) == 0 && read_at(5 * SECOND, 14, 0, 0, true) == 0,
	   "repeated stalls lower the target to 0");
}

/*
 * Simulates a machine whose own use of memory varies. Its clients take all they may, and slabs come back within ten
 * seconds. When the machine's own use has not changed for 12 s, the reserve must be available if returning all slabs
 * can make it so. Returns what went wrong, or NULL.
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
			return "the target is above the number of slabs";
		if (target > in_use && reading.available < config.reserve + (target - in_use) * config.slab_bytes)
			return "the target is above what the reserve leaves";
		if (now - still > 12 * SECOND && own + config.reserve <= total && reading.available < config.reserve)
			return "the reserve is not restored in time";
		if (pressure.read_at <= now)
			return "no further reading is due";
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

	the_target_follows_available_memory_in_state_calm();
	the_target_falls_at_once_and_rises_in_steps();
	stalls_lower_the_target_while_memory_is_scarce();
	for (seed = first; seed <= last && !wrong; seed++)
		wrong = history(seed);
	ok(!wrong, "%llu random histories keep the reserve", (unsigned long long)(last - first + 1));
	if (wrong)
		printf("# seed %llu: %s\n", (unsigned long long)seed - 1, wrong);
	return tap_done();
}
