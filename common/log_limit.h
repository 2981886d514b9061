/*
 * log_limit: lines of one kind that others can cause as often as they like, such as "refused tcp://...: wrong key".
 *
 * Theory of operation. The first line begins a minute, in which LOG_LIMIT_LINES lines are said. Further ones are only
 * counted, and when the minute is over one line says how many they were. Whoever uses this asks log_limit_due() when
 * that is, and calls log_limit_tell() then.
 *
 * Threads. One owner thread for each limit.
 */
#ifndef COMMON_LOG_LIMIT_H
#define COMMON_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_LINES 60u
#define LOG_LIMIT_NS UINT64_C(60000000000)

struct log_limit {
	const char *what;     /* in the plural, a literal: "refused connections" */
	uint64_t until;       /* the end of the minute; 0: none has begun */
	unsigned lines;       /* said in it */
	uint64_t more;        /* not said in it */
	uint64_t more_in_all; /* not said since the beginning */
};

/* Returns true if a line may be said now; counts it. @now: ns, of any monotonic clock, as everywhere here. */
bool log_limit_take(struct log_limit *limit, uint64_t now);
/* Says how many lines were not said, if the minute is over and there were any. */
void log_limit_tell(struct log_limit *limit, uint64_t now);
/* When log_limit_tell() has something to say; UINT64_MAX: never, until another line is counted. */
uint64_t log_limit_due(const struct log_limit *limit);

#endif
