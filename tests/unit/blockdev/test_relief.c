/* Unit tests of blockdev/relief: when the reserve is given up, and when not. */
#include "blockdev/relief.h"
#include "tests/tap.h"

int main(void)
{
	struct relief_sight sight = {.inflight = 64, .free_kib = 35000, .kept_kib = 35520};
	struct relief relief;
	unsigned step = 0;

	for (unsigned i = 1; i <= RELIEF_MOST; i++) {
		step = relief_step(step, &sight);
		ok(step == i, "look %u without an answer, and no memory: another step", i);
	}
	ok(relief_step(step, &sight) == RELIEF_MOST && step < WATERMARKS_STEPS, "no further than to half");
	sight.answered = 1;
	ok(relief_step(step, &sight) == 0, "an answer: as before");
	sight.answered = 0;
	sight.free_kib = 2 * 35520 + 1;
	ok(relief_step(0, &sight) == 0 && relief_step(3, &sight) == 3,
	   "a donor that is slow, and memory enough: no step");
	sight.free_kib = 35000;
	sight.inflight = 0;
	ok(relief_step(0, &sight) == 0 && relief_step(3, &sight) == 0, "nothing was asked for: none, and as before");
	setenv("FARPAGE_RUNTIME", "/nowhere", 1);
	relief_open(&relief, "swap", "/dev/ublkb0");
	relief_tick(&relief, UINT64_C(1) << 40, 1);
	ok(relief.step == 0, "a device without a record has nothing to give");
	return tap_done();
}
