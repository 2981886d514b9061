/*
 * doctor_reserves: how much memory does the kernel keep free, and what would `farpage swap on` make of that? See
 * blockdev/watermarks.h for the why.
 */
#ifndef CLI_DOCTOR_RESERVES_H
#define CLI_DOCTOR_RESERVES_H

#include "blockdev/watermarks.h"
#include "cli/doctor_verdict.h"

struct reserve_facts {
	int error; /* -errno of reading what the kernel has; 0 */
	struct watermarks now, needed;
	const char *device; /* one that has raised them, and its record; NULL: none */
	struct watermarks_record record;
};
struct doctor_verdict doctor_judge_reserves(const struct reserve_facts *facts);

struct doctor;
void doctor_reserves(struct doctor *doctor);

#endif
