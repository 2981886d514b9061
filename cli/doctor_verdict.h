/*
 * doctor_verdict: what the doctor says about one thing: how it is, what was found, why it matters, how to mend it.
 * The judging functions of doctor_*.h make them from facts alone, so that tests can make up hosts.
 */
#ifndef CLI_DOCTOR_VERDICT_H
#define CLI_DOCTOR_VERDICT_H

#include <stddef.h>

#define DOCTOR_TEXT_MAX 320

enum doctor_status {
	DOCTOR_PASS,
	DOCTOR_WARN, /* farpage works, and could work better */
	DOCTOR_FAIL, /* something that was asked for, or that every use needs, does not work */
	DOCTOR_SKIP, /* not asked for, or there is nothing to judge */
};
/* "pass", "warn", ... */
const char *doctor_status_name(enum doctor_status status);

struct doctor_verdict {
	enum doctor_status status;
	char found[DOCTOR_TEXT_MAX];
	const char *why;            /* a literal */
	char mend[DOCTOR_TEXT_MAX]; /* empty: there is nothing to mend, or no way */
};

/* The rest is what was found, as printf. */
struct doctor_verdict doctor_judged(enum doctor_status status, const char *why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void doctor_mend(struct doctor_verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
