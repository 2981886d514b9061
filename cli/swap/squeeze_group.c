/* squeeze_group: see squeeze_group.h. */
#include "cli/swap/squeeze_group.h"

#include "cli/swap/swaps.h"
#include "common/control_group.h"
#include "common/group_file.h"
#include "common/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_file(const struct squeeze_group *group, const char *file, int mode)
{
	char path[PATH_MAX];

	return group_file_path(group->folder, file, path) == 0 && access(path, mode) == 0;
}

/* Returns the number in @file, or @otherwise if there is none. */
static uint64_t number_or(const struct squeeze_group *group, const char *file, uint64_t otherwise)
{
	group_file_number(group->folder, file, "", &otherwise);
	return otherwise;
}

static int pressure_read(const struct squeeze_group *group, uint64_t *ret_stalled_us)
{
	/* The first line, "some", has the first "total=". */
	return group_file_number(group->folder, "memory.pressure", "total=", ret_stalled_us);
}

/* --- Opening ---------------------------------------------------------------------------------------------- */

static int folder_find(const char *name, char ret_folder[PATH_MAX])
{
	char path[PATH_MAX];
	struct stat status;

	if ((*name == '/' || *name == '.') && realpath(name, ret_folder) && stat(ret_folder, &status) == 0 &&
	    S_ISDIR(status.st_mode))
		return 0;
	if (snprintf(path, sizeof path, "%s/%s", CONTROL_GROUP_ROOT, name) < PATH_MAX && realpath(path, ret_folder) &&
	    stat(ret_folder, &status) == 0 && S_ISDIR(status.st_mode))
		return 0;
	log_error("swap squeeze: there is no control group %s: name it as systemd-cgls does, like "
		  "system.slice/backup.service",
		  name);
	return -ENOENT;
}

/* Returns what is missing in the group's folder, and what to do, or NULL if all files exist. */
static const char *lacking(const struct squeeze_group *group)
{
	uint64_t stalled_us;

	if (!has_file(group, "cgroup.controllers", F_OK))
		return has_file(group, "cgroup.procs", F_OK)
			   ? "is a control group of version 1: boot with systemd.unified_cgroup_hierarchy=1"
			   : "is no control group: name one below " CONTROL_GROUP_ROOT;
	if (strcmp(group->folder, CONTROL_GROUP_ROOT) == 0)
		return "is the root of all control groups: name a group below it";
	if (!has_file(group, "memory.current", F_OK))
		return "lacks the memory controller: write +memory to cgroup.subtree_control in the folder above it";
	if (!has_file(group, "memory.reclaim", F_OK))
		return "has no memory.reclaim: boot Linux 5.19 or later";
	if (!has_file(group, "memory.reclaim", W_OK))
		return "belongs to another user: run this with sudo";
	if (pressure_read(group, &stalled_us) < 0)
		return "has no figures of memory pressure: boot with psi=1, on a kernel with CONFIG_PSI";
	return NULL;
}

/* Returns why the kernel would only drop pages of files, and what to do, or NULL if it can swap. */
static const char *swapless(const struct squeeze_group *group)
{
	struct swap_area areas[SWAPS_MAX];

	if (swaps_read(areas, SWAPS_MAX) <= 0)
		return "this machine has no swap space: make some with farpage swap on";
	if (!control_group_swaps(group->folder))
		return "it may not swap: set vm.swappiness above 0, and no memory.swap.max of 0 in or above it";
	return NULL;
}

/* Warns if this process is in the group: reclaiming makes this process wait, and the kernel counts that
   in its group. */
static void own_group_warn(const struct squeeze_group *group)
{
	char path[PATH_MAX], own[PATH_MAX];
	size_t length = strlen(group->folder);

	if (control_group_own_path("/proc", CONTROL_GROUP_V2, path) &&
	    snprintf(own, sizeof own, "%s%s", CONTROL_GROUP_ROOT, path) < PATH_MAX &&
	    strncmp(own, group->folder, length) == 0 && (own[length] == '/' || !own[length]))
		log_warning("swap squeeze: this command runs in %s itself, so its own waiting counts, too: start it "
			    "with systemd-run",
			    group->folder);
}

int squeeze_group_open(const char *name, struct squeeze_group *ret_group)
{
	int status = folder_find(name, ret_group->folder);
	const char *why;

	if (status < 0)
		return status;
	why = lacking(ret_group);
	if (why) {
		log_error("swap squeeze: %s %s", ret_group->folder, why);
		return -EOPNOTSUPP;
	}
	why = swapless(ret_group);
	if (why) {
		log_error("swap squeeze: %s would only lose pages of files, because %s", ret_group->folder, why);
		return -EOPNOTSUPP;
	}
	own_group_warn(ret_group);
	return 0;
}

/* --- Reading and reclaiming ------------------------------------------------------------------------------- */

/* Returns @status, or -ENOENT if it is the error of a group that no longer exists. The kernel answers -ENODEV for a
   file that was opened just before its group was removed. A missing file of an existing group is -ENODATA. */
static int or_gone(const struct squeeze_group *group, int status)
{
	if (status == -ENODEV || (status < 0 && access(group->folder, F_OK) < 0))
		return -ENOENT;
	return status == -ENOENT ? -ENODATA : status;
}

int squeeze_group_read(const struct squeeze_group *group, struct squeeze_use *ret_use)
{
	struct squeeze_use use = {0};
	uint64_t memory, least = number_or(group, "memory.min", 0), low = number_or(group, "memory.low", 0);
	uint64_t limit = number_or(group, "memory.swap.max", UINT64_MAX);
	int status = pressure_read(group, &use.stalled_us);

	if (status == 0)
		status = group_file_number(group->folder, "memory.current", "", &use.size);
	if (status == 0)
		status = swaps_room_beside("", &memory, &use.room);
	if (status < 0)
		return or_gone(group, status);
	use.reserved = least > low ? least : low;
	use.swapped = number_or(group, "memory.swap.current", 0);
	limit = limit > use.swapped ? limit - use.swapped : 0;
	if (limit < use.room)
		use.room = limit;
	*ret_use = use;
	return 0;
}

int squeeze_group_reclaim(const struct squeeze_group *group, uint64_t bytes)
{
	return or_gone(group, group_file_write_number(group->folder, "memory.reclaim", bytes));
}
