/* clock: reads the time. State machines do not call it, but take the time as an argument, so that tests can simulate
   it. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H
#include <stdint.h>
/* Returns the time of CLOCK_MONOTONIC in ns. Any thread. */
uint64_t clock_now(void);
#endif
