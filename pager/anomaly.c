#include "pager/anomaly.h"

#include "common/log.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

void anomaly_dropped(struct core *core, uint64_t page)
{
	uint64_t before = __atomic_fetch_add(&core->counters->dropped, 1, __ATOMIC_RELAXED);

	if (before & (before + 1))
		return; /* only powers of two are logged */
	log_warning(
	    "memory at %p of process %d was dropped by something farpage did not see, and reads as zeroes (%llu "
	    "pages so far)",
	    (void *)core_address(core, page), getpid(), (unsigned long long)before + 1);
}

void anomaly_stop(struct core *core, uint64_t page, const char *what)
{
	log_error(
	    "memory at %p of process %d %s: the process is stopped before it reads something wrong; please report this",
	    (void *)core_address(core, page), getpid(), what);
	kill(getpid(), SIGKILL); /* the program cannot handle SIGKILL and continue */
	abort();
}
