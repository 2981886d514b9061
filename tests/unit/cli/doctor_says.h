/* doctor_says: a check of a judging function's verdict on an invented host. */
#ifndef TESTS_UNIT_CLI_DOCTOR_SAYS_H
#define TESTS_UNIT_CLI_DOCTOR_SAYS_H

#include "cli/doctor/doctor_verdict.h"
#include "tests/lib/tap.h"

#include <string.h>

/* Checks a verdict. @found and @mend must occur in its texts. If @mend is "", the verdict must have no remedy. @name is
   the text of the check. */
__attribute__((unused)) static void says(struct doctor_verdict verdict, enum doctor_status status, const char *found,
					 const char *mend, const char *name)
{
	if (!ok(verdict.status == status && strstr(verdict.found, found) && strstr(verdict.mend, mend) &&
		    (*mend || !*verdict.mend) && verdict.why,
		"%s", name))
		printf("# %s: %s; mend: %s\n", doctor_status_name(verdict.status), verdict.found, verdict.mend);
}

#endif
