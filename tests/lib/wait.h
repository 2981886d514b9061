/* wait: lets tests wait for conditions. Tests do not sleep for a fixed time instead, because such a time may be too
   short on a busy machine. */
#ifndef TESTS_LIB_WAIT_H
#define TESTS_LIB_WAIT_H

#include "common/clock.h"

#include <stdbool.h>
#include <time.h>

/* The time after which a condition counts as never true, even on a busy machine. */
#define WAIT_MS 30000u

/* Sleeps for the full time, even if signals interrupt the sleep. */
static inline void sleep_ms(unsigned ms)
{
	struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	while (nanosleep(&pause, &pause) < 0)
		;
}

/* Evaluates @condition again and again until it is true. The result is false if it is not true within @ms. */
#define wait_until_ms(ms, condition)                                                                                   \
	({                                                                                                             \
		const uint64_t wait_end = clock_now() + (ms)*UINT64_C(1000000);                                        \
		bool wait_good;                                                                                        \
		while (!(wait_good = (condition)) && clock_now() < wait_end)                                           \
			sleep_ms(2);                                                                                   \
		wait_good;                                                                                             \
	})
#define wait_until(condition) wait_until_ms(WAIT_MS, condition)

#endif
