/* doctor_group: see doctor_group.h. */
#include "cli/doctor/doctor_group.h"

#include "common/control_group.h"

struct allowed {
	uint64_t limit, unused, easy;
};

static void group_look(const struct control_group_memory *memory, void *user)
{
	struct allowed *allowed = user;
	uint64_t left = control_group_left(memory, memory->limit), easy = control_group_easy(memory);

	if (memory->limit < allowed->limit)
		allowed->limit = memory->limit;
	if (left < allowed->unused)
		allowed->unused = left;
	if (easy < allowed->easy)
		allowed->easy = easy;
}

uint64_t doctor_group_limit(uint64_t *ret_unused)
{
	struct allowed allowed = {UINT64_MAX, UINT64_MAX, UINT64_MAX};

	control_groups_own("/proc", CONTROL_GROUP_ROOT, group_look, &allowed);
	*ret_unused = allowed.unused;
	return allowed.limit;
}

uint64_t doctor_group_easy(void)
{
	struct allowed allowed = {UINT64_MAX, UINT64_MAX, UINT64_MAX};

	control_groups_own("/proc", CONTROL_GROUP_ROOT, group_look, &allowed);
	return allowed.easy;
}
