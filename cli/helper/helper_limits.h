/*
 * helper_limits: decides whether a user may have one more device. This file does no I/O, and is fuzzed.
 *
 * Threads: any.
 */
#ifndef CLI_HELPER_LIMITS_H
#define CLI_HELPER_LIMITS_H

#include "cli/helper/helper_message.h"

#include <stdint.h>

#define HELPER_GRANTS_MAX 64

/* The administrator's limits. */
struct helper_limits {
	uint64_t swap, user_swap;       /* bytes on all devices together, and on those of one user */
	unsigned devices, user_devices; /* number of devices, at most HELPER_GRANTS_MAX, and of those of one user */
};

/* A device that exists or is being made. */
struct helper_grant {
	uint64_t swap; /* bytes */
	uint32_t uid;
	uint32_t zero;
};

/* Decides whether the user @uid may have a device of @swap bytes, or of the largest possible size if @swap is 0.
   @grants are the @count devices of all users. Returns HELPER_OK and the size, or HELPER_FULL, HELPER_USER_DEVICES or
   HELPER_USER_SWAP. */
enum helper_status helper_limits_judge(const struct helper_limits *limits, const struct helper_grant *grants,
				       unsigned count, uint32_t uid, uint64_t swap, uint64_t *ret_swap);

/* Writes the cause of @status, and what the user can do next. */
void helper_limits_text(const struct helper_limits *limits, enum helper_status status, char ret_text[HELPER_TEXT_MAX]);

#endif
