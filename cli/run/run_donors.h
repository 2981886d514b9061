/* run_donors: checks whether the donors of `farpage run` answer, and how much memory they have. */
#ifndef CLI_RUN_DONORS_H
#define CLI_RUN_DONORS_H
#include "client/far.h"

struct run_donors {
	/* Bytes of pages for which all donors together have room, if each page has all its replicas. */
	uint64_t free_bytes;
	uint64_t slab_bytes; /* slab size of the first donor */
};

/* Asks all donors of @config at once. Returns 0, or the first donor's -errno after one logged line for each donor
   that did not answer. Returns -EINVAL after one logged line if the donors are in too few failure domains. */
int run_donors_check(const struct far_config *config, struct run_donors *ret_donors);
#endif
