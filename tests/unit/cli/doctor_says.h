/* doctor_says: one test of what a judging function says of a host that is made up. */
#ifndef TESTS_UNIT_CLI_DOCTOR_SAYS_H
#define TESTS_UNIT_CLI_DOCTOR_SAYS_H

#include "cli/doctor/doctor_verdict.h"
#include "tests/tap.h"

#include <string.h>

/* Everybody who is told of something wrong is told what to do, unless @mend is "". */
__attribute__((unused)) static void says(struct doctor_verdict verdict, enum doctor_status status, const char *found,
					 const char *mend, const char *name)
{
	if (!ok(verdict.status == status && strstr(verdict.found, found) && strstr(verdict.mend, mend) &&
		    (*mend || !*verdict.mend) && verdict.why,
		"%s", name))
		printf("# %s: %s; mend: %s\n", doctor_status_name(verdict.status), verdict.found, verdict.mend);
}

#endif
