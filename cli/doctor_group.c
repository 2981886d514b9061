/* doctor_group: see doctor_group.h. */
#include "cli/doctor_group.h"
#include "cli/control_group.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* From @group up to the root of the mount. */
static void limits_read(enum control_group_version version, char *group, uint64_t *limit, uint64_t *unused)
{
	char folder[2 * PATH_MAX];

	for (;;) {
		char *slash = strrchr(group, '/');
		struct control_group_memory memory;

		snprintf(folder, sizeof folder, "%s%s", control_group_mount(version), group);
		if (control_group_read(version, folder, &memory)) {
			uint64_t used =
			    memory.usage - (memory.inactive < memory.usage ? memory.inactive : memory.usage);
			uint64_t left = used < memory.limit ? memory.limit - used : 0;

			*limit = memory.limit < *limit ? memory.limit : *limit;
			*unused = left < *unused ? left : *unused;
		}
		if (!slash)
			return;
		*slash = '\0';
	}
}

/* In a container the group's path may be the host's, and not to be found here; the root's file then is the own group's.
 */
uint64_t doctor_group_limit(uint64_t *ret_unused)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	uint64_t limit = UINT64_MAX, unused = UINT64_MAX;
	char line[PATH_MAX];

	while (file && fgets(line, sizeof line, file)) {
		char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!group)
			continue;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (!controllers[1])
			limits_read(CONTROL_GROUP_V2, group, &limit, &unused);
		else if (strcmp(controllers + 1, "memory") == 0)
			limits_read(CONTROL_GROUP_V1, group, &limit, &unused);
	}
	if (file)
		fclose(file);
	if (ret_unused)
		*ret_unused = unused;
	return limit;
}
