/* verdict: makes verdicts: a status, a finding, and the next step. See internal.h. */
#include "cli/doctor/internal.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

const char *verdict_name(enum verdict_status status)
{
	static const char *const names[] = {[PASS] = "pass", [WARN] = "warn", [FAIL] = "fail", [SKIP] = "skip"};

	assert(status < sizeof names / sizeof names[0]);
	return names[status];
}

struct verdict verdict_of(enum verdict_status status, const char *format, ...)
{
	struct verdict verdict = {.status = status};
	char text[2 * VERDICT_TEXT_MAX], *mend = text;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	snprintf(verdict.found, sizeof verdict.found, "%s", strsep(&mend, "\n"));
	if (mend)
		snprintf(verdict.mend, sizeof verdict.mend, "%s", mend);
	verdict.mend_is_usual = !mend;
	return verdict;
}

struct verdict verdict_unread(const char *what, int64_t error)
{
	return WARN("%s cannot be read: %s\n", what, strerror((int)-error));
}
