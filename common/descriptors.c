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
