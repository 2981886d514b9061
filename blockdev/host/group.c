#include "blockdev/host/group.h"

#include "common/log.h"
#include "common/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"
#define PATH_SIZE 256

static const char *root(void)
{
	const char *folder = secure_getenv("FARPAGE_CGROUP");

	return folder && *folder ? folder : ROOT;
}

/* Writes the path of @file in the group of @name, or of the group's folder if @file is NULL. If @name is NULL, the
   group is the root. */
static void path_of(const char *name, const char *file, char ret_path[PATH_SIZE])
{
	snprintf(ret_path, PATH_SIZE, "%s%s%s%s%s", root(), name ? "/farpage-" : "", name ? name : "", file ? "/" : "",
		 file ? file : "");
}

static int text_write(const char *name, const char *file, const char *text)
{
	char path[PATH_SIZE];

	path_of(name, file, path);
	return text_file_write(path, text);
}

static int group_fill(const char *name)
{
	char path[PATH_SIZE];
	int status;

	path_of(name, "memory.min", path);
	if (access(path, F_OK) < 0) /* the root's children do not have the memory controller yet */
		text_write(NULL, "cgroup.subtree_control", "+memory");
	status = text_write(name, "memory.min", "max");
	return status ? status : text_write(name, "cgroup.procs", "0");
}

bool group_possible(void)
{
	char path[PATH_SIZE], text[512];

	path_of(NULL, "cgroup.controllers", path);
	return text_file_read(path, text, sizeof text) > 0 && strstr(text, "memory") && access(root(), W_OK) == 0;
}

int group_enter(const char *name)
{
	char path[PATH_SIZE];
	int status;

	path_of(NULL, "cgroup.controllers", path);
	if (access(path, F_OK) < 0)
		return -ENOTSUP; /* no cgroup v2 */
	path_of(name, NULL, path);
	if (mkdir(path, 0755) < 0 && errno != EEXIST) /* EEXIST: left by a daemon that died */
		return -errno;
	status = group_fill(name);
	if (status < 0)
		rmdir(path);
	return status;
}

void group_leave(const char *name)
{
	char path[PATH_SIZE];

	path_of(name, NULL, path);
	if (access(path, F_OK) < 0)
		return;
	if (rmdir(path) == 0)
		return;
	text_write(NULL, "cgroup.procs", "0"); /* EBUSY: this process is still in the group */
	if (rmdir(path) < 0)
		log_warning("cannot remove the control group %s: %m; run: rmdir %s", path, path);
}
