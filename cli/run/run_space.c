/* run_space: see run_space.h. */
#include "cli/run/run_space.h"

#include "common/log.h"
#include "common/random.h"

#include <stdio.h>
#include <unistd.h>

int run_space_make(const struct run_options *options, const struct run_donors *donors, pid_t pid,
		   struct run_space *space)
{
	char why[RUN_GROUP_WHY_MAX] = "a shorter path of control groups", group[RUNTIME_NAME_MAX + 1];
	uint32_t number;

	/* The name has a random number, too, because processes in different PID namespaces may have the same process
	   number. The group's name differs from the device's, because the daemon's control group has the device's
	   name. */
	random_secret(&number, sizeof number);
	snprintf(space->name, sizeof space->name, RUN_DEVICE_NAME, (int)getpid(), number);
	snprintf(group, sizeof group, "job-%d-%08x", (int)getpid(), number);
	int status = run_group_place(group, pid, &space->group, why);
	if (status)
		log_error("--engine swap would need %s", why);
	if (!status && options->swap)
		status = run_device_find(options, &space->device);
	if (!status)
		status = run_guard_start(&space->group, options->swap ? NULL : space->name, &space->guard);
	if (!status)
		status = run_group_make(&space->group, options->local);
	if (!status && !options->swap)
		status = run_device_make(options, donors, space->name, &space->device);
	return status;
}

int run_space_end(struct run_space *space)
{
	return space->guard.group ? run_guard_end(&space->guard) : 0;
}
