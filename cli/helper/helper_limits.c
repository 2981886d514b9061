/* helper_limits: see helper_limits.h. */
#include "cli/helper/helper_limits.h"

#include "blockdev/devices.h"
#include "common/least.h"
#include "common/size.h"

#include <stdio.h>

enum helper_status helper_limits_judge(const struct helper_limits *limits, const struct helper_grant *grants,
				       unsigned count, uint32_t uid, uint64_t swap, uint64_t *ret_swap)
{
	uint64_t left = limits->swap, user_left = limits->user_swap;
	unsigned user_devices = 0;

	for (unsigned i = 0; i < count; i++) {
		left -= least(left, grants[i].swap);
		if (grants[i].uid != uid)
			continue;
		user_left -= least(user_left, grants[i].swap);
		user_devices++;
	}
	uint64_t wanted = swap ? swap : SETTINGS_SIZE_MIN;
	if (user_devices >= limits->user_devices)
		return HELPER_USER_DEVICES;
	if (wanted > user_left)
		return HELPER_USER_SWAP;
	if (count >= limits->devices || count >= HELPER_GRANTS_MAX || wanted > left)
		return HELPER_FULL;
	*ret_swap = swap ? swap : least(left, user_left);
	return HELPER_OK;
}

void helper_limits_text(const struct helper_limits *limits, enum helper_status status, char ret_text[HELPER_TEXT_MAX])
{
	static const char *const texts[HELPER_STATUSES] = {
	    [HELPER_OK] = "",
	    [HELPER_SHORT] = "the request has a wrong length: use farpage of the same version",
	    [HELPER_OTHER] = "the request has another version: use farpage of the same version",
	    [HELPER_LOCAL] = "--local is out of bounds: give 4M to 64T",
	    [HELPER_SWAP] = "--far is out of bounds: give 1M to 64T",
	    [HELPER_FULL] = "the users of this machine have all swap space that the administrator allows: try later",
	    [HELPER_PEER] = "the process has ended, is traced, has a new user or user namespace, or has no account",
	    [HELPER_DONORS] = "the administrator's donors do not answer or have too little room: try later",
	    [HELPER_SPACE] = "the control group or the device cannot be made: the helper's log says why",
	};
	char size[SIZE_TEXT_MAX];

	if (status == HELPER_USER_DEVICES)
		snprintf(ret_text, HELPER_TEXT_MAX, "a user may have %u runs at a time: wait until another one ends",
			 limits->user_devices);
	else if (status == HELPER_USER_SWAP)
		snprintf(ret_text, HELPER_TEXT_MAX,
			 "a user's runs may have %s of swap space together: give less with --far, or wait until "
			 "another one ends",
			 size_format(limits->user_swap, size));
	else
		snprintf(ret_text, HELPER_TEXT_MAX, "%s", texts[status]);
}
