/* control_group: see control_group.h. */
#include "cli/control_group.h"

#include "cli/facts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of files, and words of memory.stat: in version 1 what a group uses includes its children, what memory.stat says
   only with "total_". */
static const struct {
	const char *mount, *limit, *usage, *swapped, *swapped_word, *inactive_word, *active_word;
} versions[CONTROL_GROUP_VERSIONS] = {
    [CONTROL_GROUP_V1] =
	{
	    .mount = "/sys/fs/cgroup/memory",
	    .limit = "memory.limit_in_bytes",
	    .usage = "memory.usage_in_bytes",
	    .swapped_word = "total_swap",
	    .inactive_word = "total_inactive_file",
	    .active_word = "total_active_file",
	},
    [CONTROL_GROUP_V2] =
	{
	    .mount = "/sys/fs/cgroup",
	    .limit = "memory.max",
	    .usage = "memory.current",
	    .swapped = "memory.swap.current",
	    .inactive_word = "inactive_file",
	    .active_word = "active_file",
	},
};

static bool number_read(const char *folder, const char *name, uint64_t *ret_number)
{
	char path[PATH_MAX + NAME_MAX];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return facts_number(path, ret_number) == 0;
}

struct word {
	const char *name; /* NULL: not asked for */
	uint64_t *number;
};

/* Words of memory.stat, in one go; what it does not say stays as it is. */
static void stat_read(const char *folder, const struct word *words, unsigned count)
{
	char path[PATH_MAX + NAME_MAX], line[256];
	FILE *file;

	snprintf(path, sizeof path, "%s/memory.stat", folder);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof line, file)) {
		char *space = strchr(line, ' ');

		if (!space)
			continue;
		*space = '\0';
		for (unsigned i = 0; i < count; i++)
			if (words[i].name && strcmp(line, words[i].name) == 0)
				*words[i].number = strtoull(space + 1, NULL, 10);
	}
	fclose(file);
}

const char *control_group_mount(enum control_group_version version)
{
	return versions[version].mount;
}

bool control_group_read(enum control_group_version version, const char *folder, struct control_group_memory *ret_memory)
{
	struct control_group_memory memory = {0};
	const struct word words[] = {{versions[version].swapped_word, &memory.swapped},
				     {versions[version].inactive_word, &memory.inactive},
				     {versions[version].active_word, &memory.active}};

	/* "max" is no number, and no limit; version 1 writes the largest number of whole pages. */
	if (!number_read(folder, versions[version].limit, &memory.limit) || memory.limit >= (uint64_t)INT64_MAX / 2)
		return false;
	number_read(folder, versions[version].usage, &memory.usage);
	if (versions[version].swapped)
		number_read(folder, versions[version].swapped, &memory.swapped);
	stat_read(folder, words, sizeof words / sizeof *words);
	*ret_memory = memory;
	return true;
}
