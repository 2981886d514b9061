/* Unit tests of blockdev/group, with a folder of files in place of the kernel's control groups. */
#include "blockdev/host/group.h"
#include "common/log.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/farpage-group.XXXXXX";

static void put(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "w");
	fputs(text, file);
	fclose(file);
}

static bool has(const char *name, const char *text)
{
	char path[128], line[64] = "";
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "r");
	if (!file)
		return !text;
	if (!fgets(line, sizeof line, file))
		line[0] = 0;
	fclose(file);
	return text && !strcmp(line, text);
}

static void drop(const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	remove(path);
}

int main(void)
{
	char path[128];

	log_setup("test_group", LOG_LEVEL_ERROR);
	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	setenv("FARPAGE_CGROUP", folder, 1);
	ok(!group_possible() && group_enter("swap") == -ENOTSUP, "entering a group without cgroup v2 gets -ENOTSUP");
	put("cgroup.controllers", "cpu io\n");
	ok(!group_possible(), "no group is possible without the memory controller");
	put("cgroup.controllers", "cpu memory io\n");
	ok(group_possible(), "a group is possible with cgroup v2 and its memory controller");
	put("cgroup.subtree_control", "");
	put("cgroup.procs", "");
	ok(group_enter("swap") == -ENOENT && has("cgroup.subtree_control", "+memory"),
	   "entering a group asks the root to delegate the memory controller");
	snprintf(path, sizeof path, "%s/farpage-swap", folder);
	ok(access(path, F_OK) < 0 && has("cgroup.procs", ""),
	   "a group without the memory controller is removed, and the process does not move");
	mkdir(path, 0755);
	put("farpage-swap/memory.min", "0");
	put("farpage-swap/cgroup.procs", "");
	put("cgroup.subtree_control", "");
	ok(group_enter("swap") == 0 && has("farpage-swap/memory.min", "max") && has("farpage-swap/cgroup.procs", "0") &&
	       has("cgroup.subtree_control", ""),
	   "entering a group protects all of its memory and moves the process there");
	drop("farpage-swap/memory.min");
	drop("farpage-swap/cgroup.procs");
	group_leave("swap");
	ok(access(path, F_OK) < 0, "leaving a group removes it");
	group_leave("swap");
	ok(has("cgroup.procs", ""), "leaving a group that does not exist moves no process");
	drop("cgroup.controllers");
	drop("cgroup.subtree_control");
	drop("cgroup.procs");
	ok(rmdir(folder) == 0, "the test leaves no file in its folder");
	return tap_done();
}
