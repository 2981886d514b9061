/* doctor_left: the farpage devices of this host: is each served, as safely as can be, or was it left by a crash? */
#ifndef CLI_DOCTOR_LEFT_H
#define CLI_DOCTOR_LEFT_H

#include "cli/doctor_verdict.h"

#include <stdbool.h>

struct device_facts {
	const char *name, *path; /* path: NULL: it never came to a device */
	const char *use;         /* "swap space", "mounted on /mnt"; NULL: nobody uses it */
	bool served, answers;    /* its daemon lives; and has told what follows */
	bool adoptable;          /* a new daemon could go on with it */
	const char *missing;     /* of what makes it safe to swap to: "locked, oom_exempt"; NULL: nothing */
};
struct doctor_verdict doctor_judge_device(const struct device_facts *facts);

struct doctor;
void doctor_left(struct doctor *doctor);

#endif
