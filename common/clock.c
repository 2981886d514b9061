/* clock: see clock.h. CLOCK_MONOTONIC does not advance while the machine sleeps, so no deadline passes meanwhile. */
#include "common/clock.h"

#include <time.h>

uint64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
