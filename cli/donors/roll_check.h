/*
 * roll_check: checks, before `farpage donors roll` drains a donor, that all donors are ready for a roll.
 *
 * Theory of operation. All donors are asked at the same time (ask.h). A donor is ready if it answers, accepts the key,
 * lets this key list its holders (which needs the same right as a drain), and is not drained already. A donor before
 * --from need not be ready, because the roll passes over it.
 *
 * Threads: the command's only thread.
 */
#ifndef CLI_ROLL_CHECK_H
#define CLI_ROLL_CHECK_H

#include "client/far.h"
#include "common/config.h"

#include <stdbool.h>

struct roll_donor {
	const char *uri;
	bool passed_over; /* the donor stands before --from */
	bool answers;
	struct far_donor_info figures; /* valid if it answers */
	uint64_t incarnation;          /* operate_incarnation(), valid if it answers */
};

struct roll_donors {
	struct roll_donor of[CONFIG_LIST_MAX];
	unsigned count, start; /* @start is the index of the first donor to roll */
	bool from;             /* --from is given, so the first donor may be drained already */
};

/* Asks all donors, before the donor with index @at is drained. Logs a line for each donor that is not ready. Returns
   the number of such donors. */
unsigned roll_check(struct roll_donors *donors, unsigned at, const struct far_config *config);
/* Warns in one line if a donor leases more than the other donors have free. The caller calls roll_check() first.
   @timeout is true if the drains have a timeout. */
void roll_check_space(const struct roll_donors *donors, bool timeout);

#endif
