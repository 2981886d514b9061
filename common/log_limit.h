/*
 * log_limit: limits log lines that others can cause at will, such as "refused tcp://...: wrong key".
 *
 * Theory of operation. The first line begins a minute. Within this minute, LOG_LIMIT_LINES lines may be logged. Further
 * lines are only counted. When the minute is over, one line tells their number. The caller asks log_limit_due() for
 * that time and then calls log_limit_tell(). All times are ns of any one monotonic clock.
 *
 * Threads: one owner thread for each limit.
 */
#ifndef COMMON_LOG_LIMIT_H
#define COMMON_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_LINES 60u
#define LOG_LIMIT_NS UINT64_C(60000000000)

struct log_limit {
	const char *what;     /* a plural noun, as a literal: "refused connections" */
	uint64_t until;       /* the end of the current minute, or 0 before the first */
	unsigned lines;       /* lines logged in the current minute */
	uint64_t more;        /* lines suppressed and not yet reported */
	uint64_t more_in_all; /* lines suppressed since the beginning */
};

/* Counts one line. Returns true if it may be logged now. */
bool log_limit_take(struct log_limit *limit, uint64_t now);
/* Logs the number of suppressed lines, if there are such lines and the minute is over. */
void log_limit_tell(struct log_limit *limit, uint64_t now);
/* Returns when log_limit_tell() has something to log, or UINT64_MAX if no line is suppressed. */
uint64_t log_limit_due(const struct log_limit *limit);

#endif
