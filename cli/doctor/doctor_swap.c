/*
 * doctor_swap: checks whether the daemon of a swap device could work on this host, how the kernel would use the device,
 * and how much memory the kernel keeps free (blockdev/host/watermarks.h has the reasons). doctor_safety.c draws the
 * conclusion. To find out if PR_SET_IO_FLUSHER is allowed, this file sets the flag for this process, and then clears
 * it.
 */
#include "cli/ask.h"
#include "cli/doctor/internal.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define DAEMON_BYTES (UINT64_C(64) << 20) /* the daemon's memory, without that for each page in use */
#define DAEMON_PAGE_BYTES 16
#define DAEMON_PAGE_BYTES_ENCRYPTED 32
#define PAGE 4096
#define CLUSTER_DEFAULT 3 /* the kernel's default of vm.page-cluster */

uint64_t doctor_swap_daemon_bytes(const struct host *host)
{
	return DAEMON_BYTES + host->swap / PAGE * (host->encrypt ? DAEMON_PAGE_BYTES_ENCRYPTED : DAEMON_PAGE_BYTES);
}

bool doctor_swap_locks(const struct host *host)
{
	return host_may(host, CAP_IPC_LOCK) || host->memory.lockable == UINT64_MAX;
}

struct verdict doctor_swap_rights(const struct host *host)
{
	int flusher = host->daemon.flusher;

	if (!host_may(host, CAP_SYS_ADMIN) && !host->swap)
		return SKIP("devices and swap are root's; sudo farpage doctor");
	if (!host_may(host, CAP_SYS_ADMIN))
		return FAIL("no right to make devices, nor to swap to them\n"
			    "run farpage as root (CAP_SYS_ADMIN)");
	if (!doctor_swap_locks(host))
		return FAULT("the daemon may not lock its memory: it can be swapped out itself\n"
			     "run it with CAP_IPC_LOCK, or with ulimit -l unlimited (LimitMEMLOCK=infinity)");
	if (flusher && flusher != -EPERM)
		return FAULT("no PR_SET_IO_FLUSHER in this kernel: the daemon may have to wait for pages that only it "
			     "can store\n"
			     "a kernel of Linux 5.6 or newer");
	if (flusher || !host_may(host, CAP_SYS_RESOURCE))
		return FAULT(
		    "no CAP_SYS_RESOURCE: the daemon may have to wait for pages that only it can store, and be "
		    "killed when memory runs out\n"
		    "run it with CAP_SYS_RESOURCE (root has it; containers and units may drop it: --cap-add, "
		    "CapabilityBoundingSet=)");
	if (!host_may(host, CAP_SYS_NICE))
		return WARN("no CAP_SYS_NICE: the daemon may not run in real time, so it may not use the kernel's "
			    "reserve: when other memory has run out, it may wait for itself\n"
			    "run it with CAP_SYS_NICE (root has it; containers and units may drop it, or forbid its "
			    "use: RestrictRealtime=)");
	return PASS("the daemon may lock its memory, be spared by reclaim and the OOM killer, and run in real time");
}

struct verdict doctor_swap_group(const struct host *host)
{
	uint64_t limit = host->memory.group_limit, left = host->memory.group_left;
	uint64_t need = doctor_swap_daemon_bytes(host);

	if (limit == UINT64_MAX)
		return PASS("no limit from a control group");
	if (host->daemon.own_group)
		return PASS("this one allows %s; farpage swap on gives the daemon one of its own, without a limit, and "
			    "its memory protected there",
			    SIZE(limit));
	if (left < need)
		return FAULT("the control group allows %s, and has %s left: the daemon needs %s\n"
			     "start it outside of the group (farpage-blockdev@.service does), or raise memory.max",
			     SIZE(limit), SIZE(left), SIZE(need));
	return WARN("the control group allows %s, and has %s left; others of the group can use it up", SIZE(limit),
		    SIZE(left));
}

struct verdict doctor_swap_tools(const struct host *host)
{
	if (!host->daemon.kernel)
		return FAULT("this kernel cannot swap\na kernel with CONFIG_SWAP");
	if (!host->daemon.mkswap)
		return FAULT("there is no mkswap");
	return PASS("the kernel can swap, and mkswap is installed");
}

struct verdict doctor_swap_readahead(const struct host *host)
{
	long long cluster = host->daemon.page_cluster;

	if (cluster < 0)
		return verdict_unread("vm.page-cluster", cluster);
	if (!cluster)
		return PASS("none (vm.page-cluster is 0): best for access at random");
	if (cluster <= CLUSTER_DEFAULT)
		return PASS("up to %u pages (vm.page-cluster is %lld); sysctl vm.page-cluster=0 for access at random",
			    1u << cluster, cluster);
	return WARN("up to 2^%lld pages for one (vm.page-cluster)", cluster);
}

struct verdict doctor_swap_space(const struct host *host)
{
	uint64_t need = doctor_swap_daemon_bytes(host), far = 0;
	unsigned donors = 0;

	if (!host->swap)
		return SKIP("not requested; --swap SIZE checks whether this host can have a swap device of that size");
	for (unsigned i = 0; i < host->probe_count; i++) {
		if (host->probes[i].status)
			continue;
		donors++;
		far += ask_free(&host->probes[i].figures);
	}
	if (host->memory.available < need)
		return FAIL("the daemon of a full device of %s takes %s here, and %s are available\n"
			    "make the device smaller, or end what uses the memory of this host",
			    SIZE(host->swap), SIZE(need), SIZE(host->memory.available));
	if (donors && far < host->swap)
		return FAIL("the donors have %s free together, less than %s", SIZE(far), SIZE(host->swap));
	return PASS("%s here for a full device of %s; %s%s", SIZE(need), SIZE(host->swap),
		    donors ? SIZE(far) : "no donor answered", donors ? " free on the donors" : "");
}

/* --- Reserves ---------------------------------------------------------------------------------------------------- */

struct watermarks doctor_swap_needed(const struct host *host)
{
	return watermarks_needed(host->memory.total / 1024, doctor_devices_flight_kib(host));
}

/* Writes the values as text: "vm.min_free_kbytes 2727, vm.watermark_scale_factor 10". */
static void values_format(const struct watermarks *values, char text[WATERMARKS_TEXT_MAX])
{
	snprintf(text, WATERMARKS_TEXT_MAX, "%s %llu, %s %llu", watermark_name(WATERMARK_MIN),
		 (unsigned long long)values->at[WATERMARK_MIN], watermark_name(WATERMARK_SCALE),
		 (unsigned long long)values->at[WATERMARK_SCALE]);
}

static bool reaches(const struct watermarks *values, const struct watermarks *wanted)
{
	return values->at[WATERMARK_MIN] >= wanted->at[WATERMARK_MIN] &&
	       values->at[WATERMARK_SCALE] >= wanted->at[WATERMARK_SCALE];
}

struct verdict doctor_swap_reserves(const struct host *host)
{
	const struct watermarks *now = &host->daemon.reserves, *set = &host->daemon.raised.set;
	struct watermarks needed = doctor_swap_needed(host);
	const char *device = host->daemon.raised_for;
	char now_text[WATERMARKS_TEXT_MAX], text[WATERMARKS_TEXT_MAX];

	if (host->daemon.reserves_error)
		return verdict_unread("the size of the memory that the kernel keeps free", host->daemon.reserves_error);
	values_format(now, now_text);
	if (device && !reaches(now, set))
		return WARN("%s: lowered since farpage swap on has raised them for %s\n"
			    "as root: sysctl vm.min_free_kbytes=%llu vm.watermark_scale_factor=%llu",
			    now_text, device, (unsigned long long)set->at[WATERMARK_MIN],
			    (unsigned long long)set->at[WATERMARK_SCALE]);
	if (device && watermarks_changes(&host->daemon.raised, text))
		return PASS("raised for as long as %s is there: %s", device, text);
	if (reaches(now, &needed))
		return PASS("%s: enough", now_text);
	/* A value that is higher already stays as it is. */
	for (int i = 0; i < WATERMARKS; i++)
		if (needed.at[i] < now->at[i])
			needed.at[i] = now->at[i];
	values_format(&needed, text);
	return PASS("%s; farpage swap on raises that while its device is there, to %s", now_text, text);
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

static int flusher_try(void)
{
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) < 0)
		return -errno;
	prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0);
	return 0;
}

void doctor_swap_read(struct host *host)
{
	host->daemon.flusher = flusher_try();
	host->daemon.own_group = group_possible();
	/* `farpage swap on` looks for mkswap in these two folders, and in PATH. */
	host->daemon.mkswap = access("/usr/sbin/mkswap", X_OK) == 0 || access("/sbin/mkswap", X_OK) == 0;
	host->daemon.kernel = access("/proc/swaps", F_OK) == 0;
	host->daemon.page_cluster = facts_number("/proc/sys/vm/page-cluster");
	host->daemon.reserves_error = watermarks_read(&host->daemon.reserves);
	for (unsigned i = 0; i < host->devices.left_count && !host->daemon.raised_for; i++)
		if (watermarks_record_read(host->devices.left[i], &host->daemon.raised) == 0)
			host->daemon.raised_for = host->devices.left[i];
}
