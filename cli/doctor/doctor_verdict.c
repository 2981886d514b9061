/* doctor_verdict: see doctor_verdict.h. */
#include "cli/doctor/doctor_verdict.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

const char *doctor_status_name(enum doctor_status status)
{
	static const char *const names[] = {
	    [DOCTOR_PASS] = "pass", [DOCTOR_WARN] = "warn", [DOCTOR_FAIL] = "fail", [DOCTOR_SKIP] = "skip"};

	assert(status < sizeof names / sizeof names[0]);
	return names[status];
}

struct doctor_verdict doctor_judged(enum doctor_status status, const char *why, const char *format, ...)
{
	struct doctor_verdict verdict = {.status = status, .why = why};
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(verdict.found, sizeof verdict.found, format, arguments);
	va_end(arguments);
	return verdict;
}

void doctor_mend(struct doctor_verdict *verdict, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(verdict->mend, sizeof verdict->mend, format, arguments);
	va_end(arguments);
}
