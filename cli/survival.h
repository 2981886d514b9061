/*
 * survival: tells which losses a device with copies or a backup survives, and what these cost. The words are those of
 * the table in docs/faults.md.
 *
 * Threads: any.
 */
#ifndef CLI_SURVIVAL_H
#define CLI_SURVIVAL_H

#include <stdbool.h>

struct survival {
	const char *survives, *costs;
};

/* Returns the texts for a device with @copies, 1 to FAR_REPLICAS_MAX. */
struct survival survival_of(unsigned copies, bool backup);

#endif
