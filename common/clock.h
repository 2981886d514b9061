/* clock: the only place that reads time. State machines take `now` as an argument instead (seam 3). */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H
#include <stdint.h>
/* Monotonic, ns. Any thread. */
uint64_t clock_now(void);
#endif
