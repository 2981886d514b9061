/* doctor_memory: see doctor_memory.h. */
#include "cli/doctor/doctor_memory.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_group.h"
#include "cli/doctor/facts.h"
#include "common/size.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define MAPS_DEFAULT 65530 /* the kernel's default of vm.max_map_count */
#define MAPS_LEAST 32768

static const char *limit_text(const struct memlock_facts *facts, char text[SIZE_TEXT_MAX])
{
	return facts->limit == UINT64_MAX ? "unlimited" : size_format(facts->limit, text);
}

struct doctor_verdict doctor_judge_memlock(const struct memlock_facts *facts)
{
	static const char why[] =
	    "over rdma:// the pager's buffers are pinned, and the limit is on what a process pins";
	const uint64_t others = UINT64_C(4) << 20; /* what a client pins besides the victim buffer */
	char limit[SIZE_TEXT_MAX], need[SIZE_TEXT_MAX], local[SIZE_TEXT_MAX];
	struct doctor_verdict verdict;

	if (!facts->client)
		return doctor_judged(DOCTOR_SKIP, why, "not asked for: a donor has another need");
	size_format(DOCTOR_CLIENT_PINS, need);
	if (facts->capable)
		return doctor_judged(DOCTOR_PASS, why, "no limit counts (CAP_IPC_LOCK)");
	if (facts->limit >= DOCTOR_CLIENT_PINS)
		return doctor_judged(DOCTOR_PASS, why, "%s; a client pins at most %s", limit_text(facts, limit), need);
	if (!facts->rdma)
		return doctor_judged(DOCTOR_PASS, why, "%s; without an RDMA device nothing is pinned",
				     limit_text(facts, limit));
	if (facts->limit < 2 * others)
		verdict = doctor_judged(DOCTOR_FAIL, why, "%s; a client pins up to %s, and this is too little for any",
					limit_text(facts, limit), need);
	else
		verdict =
		    doctor_judged(DOCTOR_WARN, why, "%s is enough up to --local %s; larger ones pin up to %s",
				  limit_text(facts, limit), size_format((facts->limit - others) * 16, local), need);
	doctor_mend(&verdict, "ulimit -l unlimited (as root), or \"* - memlock unlimited\" in "
			      "/etc/security/limits.conf and a new login");
	return verdict;
}

struct doctor_verdict doctor_judge_donate(const struct memlock_facts *facts)
{
	static const char why[] = "a donor pins what it lends over rdma://, and locks it with --mlock";
	char limit[SIZE_TEXT_MAX], donate[SIZE_TEXT_MAX];
	struct doctor_verdict verdict;

	if (!facts->donate)
		return doctor_judged(DOCTOR_SKIP, why, "not asked for; --donate SIZE judges this host as a donor");
	size_format(facts->donate, donate);
	if (facts->capable)
		return doctor_judged(DOCTOR_PASS, why, "no limit counts for %s (CAP_IPC_LOCK)", donate);
	if (facts->limit >= facts->donate)
		return doctor_judged(DOCTOR_PASS, why, "%s, enough for %s", limit_text(facts, limit), donate);
	verdict =
	    doctor_judged(facts->rdma ? DOCTOR_FAIL : DOCTOR_WARN, why, "%s, less than %s%s", limit_text(facts, limit),
			  donate, facts->rdma ? "" : "; enough for tcp:// without --mlock");
	doctor_mend(&verdict, "LimitMEMLOCK=infinity in farpage-memserver's unit, or ulimit -l unlimited before it "
			      "starts");
	return verdict;
}

struct doctor_verdict doctor_judge_huge(const char *setting)
{
	static const char why[] = "donors put slabs on huge pages: fewer TLB misses, and less to pin and to map for a "
				  "device";
	struct doctor_verdict verdict;

	if (!setting)
		return doctor_judged(DOCTOR_WARN, why, "this kernel has no transparent huge pages");
	if (!strstr(setting, "[never]"))
		return doctor_judged(DOCTOR_PASS, why, "%s",
				     strstr(setting, "[always]") ? "always"
								 : "to those who ask (madvise), as farpage does");
	verdict = doctor_judged(DOCTOR_WARN, why, "transparent huge pages are switched off (never)");
	doctor_mend(&verdict, "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
	return verdict;
}

struct doctor_verdict doctor_judge_hugetlb(const struct hugetlb_facts *facts)
{
	static const char why[] = "with --huge a donor takes pages from this pool, which are huge for certain; when it "
				  "is used up, others";
	uint64_t unused = facts->unused * facts->page_bytes, total = facts->total * facts->page_bytes, pages;
	char total_text[SIZE_TEXT_MAX], unused_text[SIZE_TEXT_MAX], page[SIZE_TEXT_MAX], donate[SIZE_TEXT_MAX];
	struct doctor_verdict verdict;

	if (!facts->page_bytes)
		return doctor_judged(DOCTOR_SKIP, why, "this kernel has none");
	size_format(facts->page_bytes, page);
	if (!facts->total)
		return doctor_judged(DOCTOR_PASS, why,
				     "none set aside (pages of %s): slabs go on transparent huge pages", page);
	size_format(total, total_text);
	size_format(unused, unused_text);
	if (unused >= facts->donate)
		return doctor_judged(DOCTOR_PASS, why, "%s set aside in pages of %s, %s free", total_text, page,
				     unused_text);
	verdict = doctor_judged(DOCTOR_WARN, why, "%s set aside in pages of %s, %s free: less than the %s to lend",
				total_text, page, unused_text, size_format(facts->donate, donate));
	pages = facts->total + (facts->donate - unused + facts->page_bytes - 1) / facts->page_bytes;
	doctor_mend(&verdict, "as root: sysctl vm.nr_hugepages=%llu", (unsigned long long)pages);
	return verdict;
}

struct doctor_verdict doctor_judge_overcommit(int64_t mode)
{
	static const char why[] = "under strict accounting far memory counts as if it were here, and programs are "
				  "refused it at the limit of this host";
	struct doctor_verdict verdict;

	if (mode < 0)
		return doctor_judged(DOCTOR_WARN, why, "vm.overcommit_memory cannot be read: %s", strerror((int)-mode));
	if (mode != 2)
		return doctor_judged(DOCTOR_PASS, why, "vm.overcommit_memory is %lld", (long long)mode);
	verdict = doctor_judged(DOCTOR_WARN, why, "vm.overcommit_memory is 2 (strict)");
	doctor_mend(&verdict, "as root: sysctl vm.overcommit_memory=0 (or 1)");
	return verdict;
}

struct doctor_verdict doctor_judge_maps(int64_t max_map_count)
{
	static const char why[] =
	    "each stretch of a program's memory with rights of its own is a mapping, and a process "
	    "that may have no more gets ENOMEM";
	struct doctor_verdict verdict;

	if (max_map_count < 0)
		return doctor_judged(DOCTOR_WARN, why, "vm.max_map_count cannot be read: %s",
				     strerror((int)-max_map_count));
	if (max_map_count >= MAPS_LEAST)
		return doctor_judged(DOCTOR_PASS, why, "vm.max_map_count is %lld", (long long)max_map_count);
	verdict = doctor_judged(DOCTOR_WARN, why, "vm.max_map_count is only %lld", (long long)max_map_count);
	doctor_mend(&verdict, "as root: sysctl vm.max_map_count=%d", MAPS_DEFAULT);
	return verdict;
}

struct doctor_verdict doctor_judge_room(uint64_t limit, uint64_t total, uint64_t available, uint64_t donate)
{
	static const char why[] = "a donor lends what is idle, within its control group, and never what the host needs";
	char limit_size[SIZE_TEXT_MAX], available_size[SIZE_TEXT_MAX], donate_size[SIZE_TEXT_MAX];
	char group[64] = "no limit from a control group";
	struct doctor_verdict verdict;

	size_format(available, available_size);
	size_format(donate, donate_size);
	if (limit != UINT64_MAX)
		snprintf(group, sizeof group, "the control group allows %s", size_format(limit, limit_size));
	if (total < donate && total <= limit) {
		verdict = doctor_judged(DOCTOR_FAIL, why, "this machine has %s: less than the %s to lend",
					size_format(total, available_size), donate_size);
		doctor_mend(&verdict, "lend less");
		return verdict;
	}
	if (limit < donate) {
		verdict = doctor_judged(DOCTOR_FAIL, why, "%s: less than the %s to lend", group, donate_size);
		doctor_mend(&verdict,
			    "raise memory.max and memory.high of the group (MemoryMax= and MemoryHigh= of the unit, "
			    "--memory of the container), or lend less");
		return verdict;
	}
	if (available < donate) {
		verdict = doctor_judged(DOCTOR_WARN, why, "%s available now: less than the %s to lend", available_size,
					donate_size);
		doctor_mend(&verdict, "lend less, or end what uses the memory; slabs are leased only while there is "
				      "room");
		return verdict;
	}
	return doctor_judged(DOCTOR_PASS, why, "%s available; %s", available_size, group);
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

static void memlock_read(const struct doctor *doctor, struct memlock_facts *facts)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	*facts = (struct memlock_facts){.limit = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur,
					.capable = facts_capable(CAP_IPC_LOCK),
					.rdma = doctor->devices.count > 0,
					.client = doctor->client,
					.donate = doctor->donate};
}

/* Returns the number in the file at @path, or -errno. */
static int64_t sysctl_read(const char *path)
{
	uint64_t number = 0;
	int error = facts_number(path, &number);

	return error ? error : number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

/* --- The checks -------------------------------------------------------------------------------------------------- */

static void add(struct doctor *doctor, struct doctor_verdict verdict)
{
	doctor_add(doctor, NULL, &verdict);
}

void doctor_memory_lock(struct doctor *doctor)
{
	struct memlock_facts facts;

	memlock_read(doctor, &facts);
	add(doctor, doctor_judge_memlock(&facts));
}

void doctor_memory_donate(struct doctor *doctor)
{
	struct memlock_facts facts;

	memlock_read(doctor, &facts);
	add(doctor, doctor_judge_donate(&facts));
}

void doctor_memory_huge(struct doctor *doctor)
{
	char setting[128];
	int error = facts_text("/sys/kernel/mm/transparent_hugepage/enabled", setting, sizeof setting);

	add(doctor, doctor_judge_huge(error ? NULL : setting));
}

void doctor_memory_hugetlb(struct doctor *doctor)
{
	struct hugetlb_facts facts = {.donate = doctor->donate};

	facts_field("/proc/meminfo", "HugePages_Total", &facts.total);
	facts_field("/proc/meminfo", "HugePages_Free", &facts.unused);
	if (!facts_field("/proc/meminfo", "Hugepagesize", &facts.page_bytes))
		facts.page_bytes *= 1024;
	add(doctor, doctor_judge_hugetlb(&facts));
}

void doctor_memory_overcommit(struct doctor *doctor)
{
	add(doctor, doctor_judge_overcommit(sysctl_read("/proc/sys/vm/overcommit_memory")));
}

void doctor_memory_maps(struct doctor *doctor)
{
	add(doctor, doctor_judge_maps(sysctl_read("/proc/sys/vm/max_map_count")));
}

void doctor_memory_room(struct doctor *doctor)
{
	uint64_t available = 0, total = UINT64_MAX / 1024;

	facts_field("/proc/meminfo", "MemAvailable", &available);
	facts_field("/proc/meminfo", "MemTotal", &total);
	add(doctor, doctor_judge_room(doctor_group_easy(), total * 1024, available * 1024, doctor->donate));
}
