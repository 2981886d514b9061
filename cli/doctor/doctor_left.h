/*
 * doctor_left: checks the farpage devices of this host. A device should be served, as safely as possible, and not be
 * left over from a crash.
 */
#ifndef CLI_DOCTOR_LEFT_H
#define CLI_DOCTOR_LEFT_H

#include "cli/doctor/doctor_verdict.h"

#include <stdbool.h>

struct device_facts {
	const char *name, *path; /* path: NULL if the device was never made */
	const char *use;         /* "swap space", "mounted on /mnt"; NULL if unused */
	bool served, answers;    /* the daemon lives; the daemon has reported `missing` */
	bool adoptable;          /* a new daemon could adopt the device */
	const char *missing;     /* safety steps not taken: "locked, oom_exempt"; NULL if none */
};
struct doctor_verdict doctor_judge_device(const struct device_facts *facts);

struct doctor;
void doctor_left(struct doctor *doctor);

#endif
