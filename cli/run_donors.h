/* run_donors: are the donors of `farpage run` there, and what do they have? */
#ifndef CLI_RUN_DONORS_H
#define CLI_RUN_DONORS_H
#include "client/far.h"
/*
 * Asks all donors of @config at once. Returns 0 and what they can still lend together, bytes, with each page
 * on as many donors as it has replicas; or the first -errno, after one line for each donor that did not answer;
 * or -EINVAL, after one line: they are in too few failure domains.
 */
int run_donors_check(const struct far_config *config, uint64_t *ret_free);
#endif
