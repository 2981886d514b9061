/* descriptors: see descriptors.h. */
#include "common/descriptors.h"

#include <sys/resource.h>

#define ENOUGH 4096u

void descriptors_raise(void)
{
	struct rlimit limit, more;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	more = (struct rlimit){ENOUGH, ENOUGH};
	if (limit.rlim_max < ENOUGH && setrlimit(RLIMIT_NOFILE, &more) == 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

uint64_t descriptors_raise_briefly(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return 0;
	const uint64_t before = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) ? 0 : before;
}

void descriptors_restore(uint64_t before)
{
	struct rlimit limit;

	if (before == 0 || getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = before;
	setrlimit(RLIMIT_NOFILE, &limit);
}
