/* doctor_group: see doctor_group.h. */
#include "cli/doctor_group.h"

#include "common/control_group.h"

struct allowed {
	uint64_t limit, unused;
};

static void group_look(const struct control_group_memory *memory, void *user)
{
	struct allowed *allowed = user;
	uint64_t left = control_group_left(memory);

	if (memory->limit < allowed->limit)
		allowed->limit = memory->limit;
	if (left < allowed->unused)
		allowed->unused = left;
}

uint64_t doctor_group_limit(uint64_t *ret_unused)
{
	struct allowed allowed = {UINT64_MAX, UINT64_MAX};

	control_groups_own("/proc", CONTROL_GROUP_ROOT, group_look, &allowed);
	if (ret_unused)
		*ret_unused = allowed.unused;
	return allowed.limit;
}
