/*
 * doctor_verdict: the doctor's verdict about one thing: its status, what was found, why it matters, and how to mend it.
 * The judging functions of doctor_*.h compute verdicts from facts alone. So tests can invent hosts.
 */
#ifndef CLI_DOCTOR_VERDICT_H
#define CLI_DOCTOR_VERDICT_H

#include <stddef.h>

#define DOCTOR_TEXT_MAX 320

enum doctor_status {
	DOCTOR_PASS,
	DOCTOR_WARN, /* farpage works, but could work better */
	DOCTOR_FAIL, /* something requested, or needed by every use, does not work */
	DOCTOR_SKIP, /* not requested, or nothing to judge */
};
/* "pass", "warn", ... */
const char *doctor_status_name(enum doctor_status status);

struct doctor_verdict {
	enum doctor_status status;
	char found[DOCTOR_TEXT_MAX];
	const char *why;            /* a literal */
	char mend[DOCTOR_TEXT_MAX]; /* empty if nothing needs mending, or no way is known */
};

/* Returns a verdict. @format and the arguments after it are the text for `found`, as for printf(3). */
struct doctor_verdict doctor_judged(enum doctor_status status, const char *why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void doctor_mend(struct doctor_verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
