/* doctor_memory: checks how much memory may be pinned and lent, and the kernel's settings for memory. */
#include "cli/doctor/internal.h"
#include "common/control_group.h"
#include "common/least.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>

#define MIB (UINT64_C(1) << 20)
#define MAPS_LEAST 32768
/* CLIENT_PINS is the most memory that the pager registers with an RDMA device: the victim buffer, which is 1/16 of
   --local up to 64 MiB, and the rest. */
#define CLIENT_PINS_REST (4 * MIB)
#define CLIENT_PINS (64 * MIB + CLIENT_PINS_REST)

static const char *lockable_text(const struct host *host, char text[SIZE_TEXT_MAX])
{
	return host->memory.lockable == UINT64_MAX ? "unlimited" : size_format(host->memory.lockable, text);
}

struct verdict doctor_memory_lock(const struct host *host)
{
	char text[SIZE_TEXT_MAX];
	const char *limit = lockable_text(host, text);
	uint64_t lockable = host->memory.lockable;

	if (host_may(host, CAP_IPC_LOCK))
		return PASS("no limit counts (CAP_IPC_LOCK)");
	if (lockable >= CLIENT_PINS)
		return PASS("%s; a client pins at most %s", limit, SIZE(CLIENT_PINS));
	if (!host->rdma.count)
		return PASS("%s; without an RDMA device nothing is pinned", limit);
	if (lockable < 2 * CLIENT_PINS_REST)
		return FAIL("%s; a client pins up to %s, and this is too little for any", limit, SIZE(CLIENT_PINS));
	return WARN("%s is enough up to --local %s; larger ones pin up to %s", limit,
		    SIZE((lockable - CLIENT_PINS_REST) * 16), SIZE(CLIENT_PINS));
}

struct verdict doctor_memory_donate(const struct host *host)
{
	char limit[SIZE_TEXT_MAX];

	if (!host->donate)
		return SKIP("not requested; --donate SIZE checks whether this host can be a donor");
	if (host_may(host, CAP_IPC_LOCK))
		return PASS("no limit counts for %s (CAP_IPC_LOCK)", SIZE(host->donate));
	if (host->memory.lockable >= host->donate)
		return PASS("%s, enough for %s", lockable_text(host, limit), SIZE(host->donate));
	return verdict_of(host->rdma.count ? FAIL : WARN, "%s, less than %s%s", lockable_text(host, limit),
			  SIZE(host->donate), host->rdma.count ? "" : "; enough for tcp:// without --mlock");
}

struct verdict doctor_memory_room(const struct host *host)
{
	uint64_t total = host->memory.total, available = host->memory.available, easy = host->memory.group_easy;

	if (total < host->donate && total <= easy)
		return FAIL("this machine has %s: less than the %s to lend\nlend less", SIZE(total),
			    SIZE(host->donate));
	if (easy < host->donate)
		return FAIL("the control group allows %s: less than the %s to lend\n"
			    "raise memory.max and memory.high of the group (MemoryMax= and MemoryHigh= of the unit, "
			    "--memory of the container), or lend less",
			    SIZE(easy), SIZE(host->donate));
	if (available < host->donate)
		return WARN("%s available now: less than the %s to lend", SIZE(available), SIZE(host->donate));
	if (easy == UINT64_MAX)
		return PASS("%s available; no limit from a control group", SIZE(available));
	return PASS("%s available; the control group allows %s", SIZE(available), SIZE(easy));
}

struct verdict doctor_memory_huge(const struct host *host)
{
	const char *setting = host->memory.huge;

	if (!*setting)
		return WARN("this kernel has no transparent huge pages\n");
	if (strstr(setting, "[never]"))
		return WARN("transparent huge pages are switched off (never)");
	return PASS(strstr(setting, "[always]") ? "always" : "to those who ask (madvise), as farpage does");
}

struct verdict doctor_memory_hugetlb(const struct host *host)
{
	uint64_t page = host->memory.hugetlb_bytes, total = host->memory.hugetlb_total;
	uint64_t unused = host->memory.hugetlb_unused * page;

	if (!page)
		return SKIP("this kernel has none");
	if (!total)
		return PASS("none set aside (pages of %s): slabs go on transparent huge pages", SIZE(page));
	if (unused >= host->donate)
		return PASS("%s set aside in pages of %s, %s free", SIZE(total * page), SIZE(page), SIZE(unused));
	return WARN("%s set aside in pages of %s, %s free: less than the %s to lend\n"
		    "as root: sysctl vm.nr_hugepages=%llu",
		    SIZE(total * page), SIZE(page), SIZE(unused), SIZE(host->donate),
		    (unsigned long long)(total + (host->donate - unused + page - 1) / page));
}

struct verdict doctor_memory_overcommit(const struct host *host)
{
	int64_t mode = host->memory.overcommit;

	if (mode < 0)
		return verdict_unread("vm.overcommit_memory", mode);
	return verdict_of(mode == 2 ? WARN : PASS, "vm.overcommit_memory is %lld%s", (long long)mode,
			  mode == 2 ? " (strict)" : "");
}

struct verdict doctor_memory_maps(const struct host *host)
{
	int64_t maps = host->memory.maps;

	if (maps < 0)
		return verdict_unread("vm.max_map_count", maps);
	return verdict_of(maps < MAPS_LEAST ? WARN : PASS, "vm.max_map_count is %s%lld",
			  maps < MAPS_LEAST ? "only " : "", (long long)maps);
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

static void group_look(const struct control_group_memory *group, void *user)
{
	struct host *host = user;

	host->memory.group_limit = least(host->memory.group_limit, group->limit);
	host->memory.group_left = least(host->memory.group_left, control_group_left(group, group->limit));
	host->memory.group_easy = least(host->memory.group_easy, control_group_easy(group));
}

void doctor_memory_read(struct host *host)
{
	static const char meminfo[] = "/proc/meminfo";
	struct rlimit limit = {0};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	host->memory.lockable = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
	host->memory.total = facts_field(meminfo, "MemTotal", 10) * 1024;
	host->memory.available = facts_field(meminfo, "MemAvailable", 10) * 1024;
	host->memory.hugetlb_bytes = facts_field(meminfo, "Hugepagesize", 10) * 1024;
	host->memory.hugetlb_total = facts_field(meminfo, "HugePages_Total", 10);
	host->memory.hugetlb_unused = facts_field(meminfo, "HugePages_Free", 10);
	facts_text("/sys/kernel/mm/transparent_hugepage/enabled", host->memory.huge, sizeof host->memory.huge);
	host->memory.overcommit = facts_number("/proc/sys/vm/overcommit_memory");
	host->memory.maps = facts_number("/proc/sys/vm/max_map_count");
	host->memory.group_limit = host->memory.group_left = host->memory.group_easy = CONTROL_GROUP_NO_LIMIT;
	control_groups_own("/proc", CONTROL_GROUP_ROOT, group_look, host);
}
