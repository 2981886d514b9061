/* Unit tests of blockdev/group, with a folder of files in place of the kernel's control groups. */
#include "blockdev/host/group.h"
#include "common/log.h"
#include "tests/lib/folder.h"

#include <errno.h>
#include <unistd.h>

static bool has(const char *name, const char *text)
{
	char line[64] = "";
	FILE *file = fopen(folder_path(name), "r");

	if (!file)
		return !text;
	if (!fgets(line, sizeof line, file))
		line[0] = 0;
	fclose(file);
	return text && !strcmp(line, text);
}

int main(void)
{
	const char *path = folder_path("farpage-swap");

	log_setup("test_group", LOG_LEVEL_ERROR);
	setenv("FARPAGE_CGROUP", folder(), 1);
	ok(!group_possible() && group_enter("swap") == -ENOTSUP, "entering a group without cgroup v2 gets -ENOTSUP");
	folder_put("cgroup.controllers", "cpu io\n");
	ok(!group_possible(), "no group is possible without the memory controller");
	folder_put("cgroup.controllers", "cpu memory io\n");
	ok(group_possible(), "a group is possible with cgroup v2 and its memory controller");
	folder_put("cgroup.subtree_control", "");
	folder_put("cgroup.procs", "");
	ok(group_enter("swap") == -ENOENT && has("cgroup.subtree_control", "+memory"),
	   "entering a group asks the root to delegate the memory controller");
	ok(access(path, F_OK) < 0 && has("cgroup.procs", ""),
	   "a group without the memory controller is removed, and the process does not move");
	folder_put("farpage-swap/memory.min", "0");
	folder_put("farpage-swap/cgroup.procs", "");
	folder_put("cgroup.subtree_control", "");
	ok(group_enter("swap") == 0 && has("farpage-swap/memory.min", "max") && has("farpage-swap/cgroup.procs", "0") &&
	       has("cgroup.subtree_control", ""),
	   "entering a group protects all of its memory and moves the process there");
	remove(folder_path("farpage-swap/memory.min"));
	remove(folder_path("farpage-swap/cgroup.procs"));
	group_leave("swap");
	ok(access(path, F_OK) < 0, "leaving a group removes it");
	group_leave("swap");
	ok(has("cgroup.procs", ""), "leaving a group that does not exist moves no process");
	return tap_done();
}
