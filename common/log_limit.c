/* log_limit: see log_limit.h. */
#include "common/log_limit.h"

#include "common/log.h"

bool log_limit_take(struct log_limit *limit, uint64_t now)
{
	log_limit_tell(limit, now);
	if (now >= limit->until) {
		limit->until = now + LOG_LIMIT_NS;
		limit->lines = 0;
	}
	if (limit->lines < LOG_LIMIT_LINES) {
		limit->lines++;
		return true;
	}
	limit->more++;
	limit->more_in_all++;
	return false;
}

void log_limit_tell(struct log_limit *limit, uint64_t now)
{
	if (!limit->more || now < limit->until)
		return;
	log_warning("and %llu more %s in the last minute, which were not logged", (unsigned long long)limit->more,
		    limit->what);
	limit->more = 0;
}

uint64_t log_limit_due(const struct log_limit *limit)
{
	return limit->more ? limit->until : UINT64_MAX;
}
