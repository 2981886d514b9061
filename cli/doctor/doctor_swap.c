/* doctor_swap: see doctor_swap.h. PR_SET_IO_FLUSHER is tried on this process alone, and undone. */
#include "cli/doctor/doctor_swap.h"
#include "blockdev/host/group.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_group.h"
#include "cli/doctor/facts.h"
#include "common/size.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define DAEMON_BYTES (64 * MIB) /* in addition to DAEMON_PAGE_BYTES for each page in use */
#define DAEMON_PAGE_BYTES 16
#define PAGE 4096
#define CLUSTER_DEFAULT 3 /* the kernel's default of vm.page-cluster */

uint64_t doctor_daemon_bytes(uint64_t bytes)
{
	return DAEMON_BYTES + bytes / PAGE * DAEMON_PAGE_BYTES;
}

static enum doctor_status severity(uint64_t wanted)
{
	return wanted ? DOCTOR_FAIL : DOCTOR_WARN;
}

/* --- Rights ------------------------------------------------------------------------------------------------------ */

static const char why_rights[] =
    "a daemon that is swapped out, killed for lack of memory, or made to wait for pages to "
    "leave takes the device, and all that is swapped to it, with it";

struct doctor_verdict doctor_judge_swap_rights(const struct swap_rights *rights)
{
	struct doctor_verdict verdict;

	if (!rights->admin && !rights->wanted)
		return doctor_judged(DOCTOR_SKIP, why_rights, "devices and swap are root's; sudo farpage doctor");
	if (!rights->admin) {
		verdict = doctor_judged(DOCTOR_FAIL, why_rights, "no right to make devices, nor to swap to them");
		doctor_mend(&verdict, "run farpage as root (CAP_SYS_ADMIN)");
	} else if (!rights->locks) {
		verdict = doctor_judged(severity(rights->wanted), why_rights,
					"the daemon may not lock its memory: it can be swapped out itself");
		doctor_mend(&verdict, "run it with CAP_IPC_LOCK, or with ulimit -l unlimited (LimitMEMLOCK=infinity)");
	} else if (rights->flusher && rights->flusher != -EPERM) {
		verdict = doctor_judged(severity(rights->wanted), why_rights,
					"no PR_SET_IO_FLUSHER in this kernel: the "
					"daemon may be made to wait for pages to leave by itself");
		doctor_mend(&verdict, "a kernel of Linux 5.6 or newer");
	} else if (rights->flusher || !rights->spared) {
		verdict = doctor_judged(severity(rights->wanted), why_rights,
					"no CAP_SYS_RESOURCE: the daemon may be made to wait for pages to leave by "
					"itself, and be killed when memory runs out");
		doctor_mend(&verdict, "run it with CAP_SYS_RESOURCE (root has it; containers and units may drop it: "
				      "--cap-add, CapabilityBoundingSet=)");
	} else if (!rights->realtime) {
		verdict = doctor_judged(DOCTOR_WARN, why_rights,
					"no CAP_SYS_NICE: the daemon may not run in real time, and so not use what the "
					"kernel keeps free: when all else is used up it may wait for itself");
		doctor_mend(&verdict, "run it with CAP_SYS_NICE (root has it; containers and units may drop it, or "
				      "forbid its use: RestrictRealtime=)");
	} else
		verdict =
		    doctor_judged(DOCTOR_PASS, why_rights,
				  "the daemon may lock its memory, be spared by reclaim and the OOM killer, and run "
				  "in real time");
	return verdict;
}

/* --- Memory ------------------------------------------------------------------------------------------------------ */

struct doctor_verdict doctor_judge_swap_group(const struct swap_group *group)
{
	static const char why[] = "a daemon in a control group that is full waits until pages of the group have left, "
				  "which they do through it";
	char limit[SIZE_TEXT_MAX], unused[SIZE_TEXT_MAX], need[SIZE_TEXT_MAX];
	uint64_t bytes = doctor_daemon_bytes(group->wanted);
	struct doctor_verdict verdict;

	if (group->limit == UINT64_MAX)
		return doctor_judged(DOCTOR_PASS, why, "no limit from a control group");
	size_format(group->limit, limit);
	if (group->own)
		return doctor_judged(DOCTOR_PASS, why,
				     "this one allows %s; farpage swap on gives the daemon one of its own, without a "
				     "limit, and its memory protected there",
				     limit);
	size_format(group->unused, unused);
	size_format(bytes, need);
	if (group->unused < bytes) {
		verdict = doctor_judged(severity(group->wanted), why,
					"the control group allows %s, and has %s left: the daemon needs %s", limit,
					unused, need);
		doctor_mend(&verdict, "start it outside of the group (farpage-blockdev@.service does), or raise "
				      "memory.max");
		return verdict;
	}
	verdict = doctor_judged(DOCTOR_WARN, why,
				"the control group allows %s, and has %s left; others of the group can "
				"use it up",
				limit, unused);
	doctor_mend(&verdict, "start the daemon outside of the group (farpage-blockdev@.service does)");
	return verdict;
}

struct doctor_verdict doctor_judge_swap_tools(bool mkswap, bool kernel, uint64_t wanted)
{
	static const char why[] = "farpage swap on has mkswap write the signature, and the kernel swap";
	struct doctor_verdict verdict;

	if (mkswap && kernel)
		return doctor_judged(DOCTOR_PASS, why, "the kernel can swap, and mkswap is there");
	verdict = doctor_judged(severity(wanted), why, kernel ? "there is no mkswap" : "this kernel cannot swap");
	doctor_mend(&verdict, kernel ? "apt install util-linux" : "a kernel with CONFIG_SWAP");
	return verdict;
}

struct doctor_verdict doctor_judge_swap_readahead(int64_t cluster)
{
	static const char why[] =
	    "around a page that is swapped in, the kernel may read others, up to 2^vm.page-cluster "
	    "together: a gain for those who go through memory in order, and lost room and time "
	    "for those who do not";
	struct doctor_verdict verdict;

	if (cluster < 0)
		return doctor_judged(DOCTOR_WARN, why, "vm.page-cluster cannot be read: %s", strerror((int)-cluster));
	if (!cluster)
		return doctor_judged(DOCTOR_PASS, why, "none (vm.page-cluster is 0): best for access at random");
	if (cluster <= CLUSTER_DEFAULT)
		return doctor_judged(DOCTOR_PASS, why,
				     "up to %u pages (vm.page-cluster is %lld); sysctl "
				     "vm.page-cluster=0 for access at random",
				     1u << cluster, (long long)cluster);
	verdict = doctor_judged(DOCTOR_WARN, why, "up to 2^%lld pages for one (vm.page-cluster)", (long long)cluster);
	doctor_mend(&verdict, "as root: sysctl vm.page-cluster=%d, or 0 for access at random", CLUSTER_DEFAULT);
	return verdict;
}

struct doctor_verdict doctor_judge_swap_space(const struct swap_space *space)
{
	static const char why[] =
	    "a device larger than what its donors have free is refused (but with --overcommit), and "
	    "its daemon's own memory is locked";
	char wanted[SIZE_TEXT_MAX], far[SIZE_TEXT_MAX], need[SIZE_TEXT_MAX], available[SIZE_TEXT_MAX];
	uint64_t bytes = doctor_daemon_bytes(space->wanted);
	struct doctor_verdict verdict;

	if (!space->wanted)
		return doctor_judged(DOCTOR_SKIP, why,
				     "not asked for; --swap SIZE judges this host for a device of that");
	size_format(space->wanted, wanted);
	size_format(space->far, far);
	size_format(bytes, need);
	size_format(space->available, available);
	if (space->available < bytes) {
		verdict = doctor_judged(DOCTOR_FAIL, why,
					"the daemon of a full device of %s takes %s here, and %s are "
					"available",
					wanted, need, available);
		doctor_mend(&verdict, "make the device smaller, or end what uses the memory of this host");
		return verdict;
	}
	if (space->donors && space->far < space->wanted) {
		verdict =
		    doctor_judged(DOCTOR_FAIL, why, "the donors have %s free together, less than %s", far, wanted);
		doctor_mend(&verdict, "make the device smaller, add donors, or let them lend more (--donate)");
		return verdict;
	}
	if (!space->donors)
		return doctor_judged(DOCTOR_PASS, why, "%s here for a full device of %s; no donor answered", need,
				     wanted);
	return doctor_judged(DOCTOR_PASS, why, "%s here for a full device of %s; %s free on the donors", need, wanted,
			     far);
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

static int flusher_try(void)
{
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) < 0)
		return -errno;
	prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0);
	return 0;
}

void doctor_rights_read(const struct doctor *doctor, struct swap_rights *ret_rights)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	*ret_rights = (struct swap_rights){.admin = facts_capable(CAP_SYS_ADMIN),
					   .locks = facts_capable(CAP_IPC_LOCK) || limit.rlim_cur == RLIM_INFINITY,
					   .flusher = flusher_try(),
					   .spared = facts_capable(CAP_SYS_RESOURCE),
					   .realtime = facts_capable(CAP_SYS_NICE),
					   .wanted = doctor->swap};
}

void doctor_group_read(const struct doctor *doctor, struct swap_group *ret_group)
{
	ret_group->limit = doctor_group_limit(&ret_group->unused);
	ret_group->own = group_possible();
	ret_group->wanted = doctor->swap;
}

/* --- The checks -------------------------------------------------------------------------------------------------- */

static void add(struct doctor *doctor, const char *subject, struct doctor_verdict verdict)
{
	doctor_add(doctor, subject, &verdict);
}

bool doctor_skip_donor(struct doctor *doctor)
{
	if (!doctor->client)
		add(doctor, NULL, doctor_judged(DOCTOR_SKIP, "", "not asked for: a donor does without"));
	return !doctor->client;
}

void doctor_swap_rights(struct doctor *doctor)
{
	struct swap_rights rights;

	if (doctor_skip_donor(doctor))
		return;
	doctor_rights_read(doctor, &rights);
	add(doctor, NULL, doctor_judge_swap_rights(&rights));
}

void doctor_swap_group(struct doctor *doctor)
{
	struct swap_group group;

	if (doctor_skip_donor(doctor))
		return;
	doctor_group_read(doctor, &group);
	add(doctor, NULL, doctor_judge_swap_group(&group));
}

/* Looks for mkswap where farpage swap on does, except in PATH. */
void doctor_swap_tools(struct doctor *doctor)
{
	bool mkswap = access("/usr/sbin/mkswap", X_OK) == 0 || access("/sbin/mkswap", X_OK) == 0;

	if (!doctor_skip_donor(doctor))
		add(doctor, NULL, doctor_judge_swap_tools(mkswap, access("/proc/swaps", F_OK) == 0, doctor->swap));
}

void doctor_swap_readahead(struct doctor *doctor)
{
	uint64_t cluster = 0;
	int error = facts_number("/proc/sys/vm/page-cluster", &cluster);

	if (!doctor_skip_donor(doctor))
		add(doctor, NULL, doctor_judge_swap_readahead(error ? error : (int64_t)cluster));
}

void doctor_swap_space(struct doctor *doctor)
{
	struct swap_space space = {.wanted = doctor->swap};

	if (!facts_field("/proc/meminfo", "MemAvailable", &space.available))
		space.available *= KIB;
	for (unsigned i = 0; i < doctor->probe_count; i++) {
		const struct wire_capacity *capacity = &doctor->probes[i].capacity;

		if (doctor->probes[i].status)
			continue;
		space.donors++;
		space.far += capacity->donated > capacity->leased ? capacity->donated - capacity->leased : 0;
	}
	add(doctor, NULL, doctor_judge_swap_space(&space));
}
