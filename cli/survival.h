/*
 * survival: says which losses a device survives, for each number of copies with and without a backup, and what the
 * copies and the backup cost. The table in docs/faults.md has the same texts, and a test compares them.
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
