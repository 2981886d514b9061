/* doctor_says: tests a verdict of farpage doctor on an invented host. */
#ifndef TESTS_UNIT_CLI_DOCTOR_SAYS_H
#define TESTS_UNIT_CLI_DOCTOR_SAYS_H

#include "cli/doctor/internal.h"
#include "tests/lib/tap.h"

#include <string.h>

/* Lets the doctor's check @id judge @host. The verdict must have @status and contain @found and @mend. If @mend is
   "", it must have no remedy. @name is the text of ok(). */
__attribute__((unused)) static void says(const char *id, const struct host *host, enum verdict_status status,
					 const char *found, const char *mend, const char *name)
{
	const struct check *check = checks;
	struct verdict verdict;

	while (strcmp(check->id, id) != 0)
		check++;
	verdict = checks_judge(check, host);
	if (!ok(verdict.status == status && strstr(verdict.found, found) && strstr(verdict.mend, mend) &&
		    (*mend || !*verdict.mend) && *check->why,
		"%s", name))
		printf("# %s: %s; mend: %s\n", verdict_name(verdict.status), verdict.found, verdict.mend);
}

#endif
