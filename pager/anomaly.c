#include "pager/anomaly.h"

#include "common/log.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

void anomaly_dropped(struct core *core)
{
	if (__atomic_fetch_add(&core->counters->dropped, 1, __ATOMIC_RELAXED) == 0)
		log_warning(
		    "process %d drops memory by system calls of its own, as Go programs do: dropped pages that are "
		    "here read as zeroes, but far pages keep their contents",
		    getpid());
}

void anomaly_stop(struct core *core, uint64_t page, const char *what)
{
	log_error(
	    "memory at %p of process %d %s: the process is stopped before it reads something wrong; please report this",
	    (void *)core_address(core, page), getpid(), what);
	kill(getpid(), SIGKILL); /* the program cannot handle SIGKILL and continue */
	abort();
}
