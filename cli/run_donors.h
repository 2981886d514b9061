/* run_donors: are the donors of `farpage run` there, and what do they have? */
#ifndef CLI_RUN_DONORS_H
#define CLI_RUN_DONORS_H
#include "client/far.h"

struct run_donors {
	uint64_t
	    free_bytes; /* what they can still lend together, with each page on as many donors as it has replicas */
	uint64_t slab_bytes; /* of the first */
};

/*
 * Asks all donors of @config at once. Returns 0; or the first -errno, after one line for each donor that did not
 * answer; or -EINVAL, after one line: they are in too few failure domains.
 */
int run_donors_check(const struct far_config *config, struct run_donors *ret_donors);
#endif
