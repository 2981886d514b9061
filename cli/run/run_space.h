/*
 * run_space: the control group and the swap space of one run, and the guard that removes both.
 *
 * Theory of operation. `farpage run` as root makes them for itself. The helper (cli/helper) makes them for a process of
 * an ordinary user. The control group is made first, because it needs no donor.
 *
 * Threads: one.
 */
#ifndef CLI_RUN_SPACE_H
#define CLI_RUN_SPACE_H

#include "cli/run/run_device.h"
#include "cli/run/run_group.h"
#include "cli/run/run_guard.h"

struct run_space {
	struct run_group group;
	struct run_device device;
	struct run_guard guard;
	char name[RUNTIME_NAME_MAX + 1]; /* name of the device, if it is made for the run */
};

/* Makes the control group of the process @pid (0 for this process) with a limit of options->local bytes, and its swap
   space according to @options. @space is all zero before, and must outlive the guard. Returns 0, or -errno after a
   logged line. In both cases the caller calls run_space_end() at last. */
int run_space_make(const struct run_options *options, const struct run_donors *donors, pid_t pid,
		   struct run_space *space);
/* Ends all processes in the control group, and removes everything that was made. Returns 0, or -EBUSY after a logged
   line that names what remains. After -EBUSY it may be called again, and then tries again. */
int run_space_end(struct run_space *space);

#endif
