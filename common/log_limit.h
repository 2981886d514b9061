/*
 * log_limit: limits log lines that others can cause at will, such as "refused tcp://...: wrong key", so that an
 * attacker cannot fill the log.
 *
 * Theory of operation. The first line begins a minute. Up to LOG_LIMIT_LINES lines may be logged in this minute.
 * Further lines are only counted. When the minute is over, log_limit_tell() logs their number in one line. The owner
 * calls log_limit_tell() at the time that log_limit_due() returns. All times are ns of the same monotonic clock.
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
	const char *what; /* a plural noun, as a literal, such as "refused connections" */
	uint64_t until;   /* when the current minute ends, or 0 before the first one */
	unsigned lines;
	uint64_t more;        /* lines that were not logged, and whose number was not logged yet */
	uint64_t more_in_all; /* lines that were not logged since the beginning */
};

/* Returns true if a line may be logged now. Counts the line. */
bool log_limit_take(struct log_limit *limit, uint64_t now);
/* Logs the number of lines not logged, if there are any and the minute is over. */
void log_limit_tell(struct log_limit *limit, uint64_t now);
/* Returns when log_limit_tell() must be called, or UINT64_MAX if all lines were logged. */
uint64_t log_limit_due(const struct log_limit *limit);

#endif
