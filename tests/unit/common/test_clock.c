/* clock: clock_now() never goes back, and shows the system's monotonic clock. */
#include "common/clock.h"
#include "tests/lib/tap.h"

#include <time.h>

static uint64_t system_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(void)
{
	uint64_t last = clock_now(), first = last;
	bool forward = true, moved = false;

	for (unsigned i = 0; i < 100000; i++) {
		uint64_t now = clock_now();

		forward = forward && now >= last;
		moved = moved || now > first;
		last = now;
	}
	ok(forward, "the clock never goes back");
	ok(moved, "the clock moves");
	uint64_t before = system_now(), now = clock_now(), after = system_now();
	ok(before <= now && now <= after, "the clock shows the nanoseconds of CLOCK_MONOTONIC");
	return tap_done();
}
