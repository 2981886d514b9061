#include "cli/beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool beside_find(const char *const folders[], unsigned count, const char *name, char ret_path[PATH_MAX])
{
	char own[PATH_MAX], candidate[2 * PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);

	own[length > 0 ? length : 0] = 0;
	if (strrchr(own, '/'))
		strrchr(own, '/')[1] = 0;
	for (unsigned i = 0; i < count; i++) {
		snprintf(candidate, sizeof candidate, "%s%s%s", *folders[i] == '/' ? "" : own, folders[i], name);
		if (realpath(candidate, ret_path))
			return true;
	}
	return false;
}
