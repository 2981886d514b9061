/*
 * doctor_reserves: checks how much memory the kernel keeps free, and what `farpage swap on` would change.
 * blockdev/host/watermarks.h has the reasons.
 */
#ifndef CLI_DOCTOR_RESERVES_H
#define CLI_DOCTOR_RESERVES_H

#include "blockdev/host/watermarks.h"
#include "cli/doctor/doctor_verdict.h"

struct reserve_facts {
	int error; /* 0 or -errno of reading the kernel's values */
	struct watermarks now, needed;
	const char *device; /* a device that has raised them, with its record; NULL if none has */
	struct watermarks_record record;
};
struct doctor_verdict doctor_judge_reserves(const struct reserve_facts *facts);

struct doctor;
void doctor_reserves(struct doctor *doctor);

#endif
