/* swap_groups: see swap_groups.h. */
#include "cli/swap/swap_groups.h"

#include "common/control_group.h"

#include <ftw.h>
#include <stdio.h>

#define FOLDERS_OPEN 32 /* folders that nftw() has open at a time */

/* The context of folder_look(), because nftw() has no argument for it. */
static struct {
	uint64_t used, excess; /* the largest excess found so far */
	struct swap_group worst;
} walk;

static void group_look(enum control_group_version version, const char *folder)
{
	struct control_group_memory memory;
	uint64_t files, needed;

	if (!control_group_read(version, folder, &memory))
		return;
	/* Some of the group's pages may be in other swap spaces. At most `used` bytes are in the swap space that
	   ends. */
	if (memory.swapped > walk.used)
		memory.swapped = walk.used;
	files = memory.inactive + memory.active;
	needed = memory.usage - (files < memory.usage ? files : memory.usage) + memory.swapped;
	if (!memory.swapped || needed <= memory.limit || needed - memory.limit <= walk.excess)
		return;
	walk.excess = needed - memory.limit;
	walk.worst = (struct swap_group){.limit = memory.limit, .needed = needed, .swapped = memory.swapped};
	snprintf(walk.worst.path, sizeof walk.worst.path, "%s", folder);
}

static int folder_look(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)status;
	(void)place;
	for (unsigned i = 0; kind == FTW_D && i < CONTROL_GROUP_VERSIONS; i++)
		group_look((enum control_group_version)i, path);
	return 0;
}

bool swap_groups_overflow(const char *root, uint64_t used, struct swap_group *ret_group)
{
	walk.used = used;
	walk.excess = 0;
	nftw(root ? root : CONTROL_GROUP_ROOT, folder_look, FOLDERS_OPEN, FTW_PHYS);
	if (walk.excess)
		*ret_group = walk.worst;
	return walk.excess;
}
