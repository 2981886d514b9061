/* clock: the only place that reads the time. State machines take the time as an argument `now` instead. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H
#include <stdint.h>
/* Returns the time of CLOCK_MONOTONIC in ns. Any thread. */
uint64_t clock_now(void);
#endif
