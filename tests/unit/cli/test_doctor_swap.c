/* test_doctor_swap: the verdicts of farpage doctor on swapping, on invented hosts. */
#include "tests/unit/cli/doctor_says.h"

#include <errno.h>
#include <linux/capability.h>

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

#define CAPABILITY(capability) (UINT64_C(1) << (capability))
#define NO_LIMIT UINT64_MAX

/* A host without faults. Tests spoil a copy. */
static struct host good_host(void)
{
	return (struct host){
	    .client = true,
	    .capabilities = CAPABILITY(CAP_SYS_ADMIN) | CAPABILITY(CAP_IPC_LOCK) | CAPABILITY(CAP_SYS_RESOURCE) |
			    CAPABILITY(CAP_SYS_NICE),
	    .memory = {.group_limit = NO_LIMIT, .group_left = NO_LIMIT, .total = 16 * GIB},
	    .devices.ublk_recovers = true,
	    .daemon = {.mkswap = true, .kernel = true, .reserves = {{16384, 10}}},
	};
}

/* Makes FUSE the front end of the host. */
static void lose_ublk(struct host *host)
{
	host->devices.ublk = -ENOENT;
}

static void ublk_is_judged_by_recovery_rights_and_module(void)
{
	struct host host = good_host();

	host.swap = GIB;
	says("kernel.ublk", &host, PASS, "outlive", "", "doctor passes ublk with recovery");
	ok(doctor_devices_frontend(&host) == &frontend_ublk, "ublk with recovery is usable");
	host.devices.ublk_recovers = false;
	says("kernel.ublk", &host, WARN, "end with their daemon", "6.1", "doctor warns of ublk without recovery");
	host.kernel.ring = -EPERM;
	says("kernel.ublk", &host, WARN, "io_uring", "io_uring_disabled=0", "doctor warns of ublk without io_uring");
	ok(doctor_devices_frontend(&host) != &frontend_ublk, "ublk without io_uring is not usable");
	host.devices.ublk = -EACCES;
	says("kernel.ublk", &host, WARN, "Permission denied", "root",
	     "doctor warns if a user may not open ublk's control device");
	host.devices.ublk = 0;
	host.capabilities = 0;
	says("kernel.ublk", &host, WARN, "not permitted", "root",
	     "doctor warns if a user may open ublk's control device but not use it");
	ok(doctor_devices_frontend(&host) != &frontend_ublk, "ublk that the user may only open is not usable");
	host.devices.ublk = -ENOENT;
	says("kernel.ublk", &host, WARN, "this kernel has none", "CONFIG_BLK_DEV_UBLK",
	     "doctor warns of a kernel without ublk");
	host.devices.ublk_at_hand = true;
	says("kernel.ublk", &host, WARN, "not loaded", "modprobe ublk_drv",
	     "doctor warns of ublk whose module is not loaded");
	host.swap = 0;
	says("kernel.ublk", &host, SKIP, "not loaded", "modprobe",
	     "doctor skips ublk whose module is not loaded if no swap is wanted");
}

static void fuse_is_judged_beside_ublk_and_loop_devices(void)
{
	struct host host = good_host();

	host.swap = GIB;
	lose_ublk(&host);
	says("kernel.fuse", &host, PASS, "slower than ublk", "", "doctor passes FUSE without ublk");
	host.devices.ublk = 0;
	says("kernel.fuse", &host, PASS, "not needed", "", "doctor passes FUSE beside ublk");
	host.devices.fuse = -ENOENT;
	says("kernel.fuse", &host, SKIP, "no /dev/fuse", "CONFIG_FUSE_FS", "doctor skips a missing FUSE beside ublk");
	lose_ublk(&host);
	ok(!doctor_devices_frontend(&host), "FUSE without /dev/fuse is not usable");
	host.devices.fuse_at_hand = true;
	says("kernel.fuse", &host, WARN, "no /dev/fuse", "modprobe fuse",
	     "doctor warns of a host without FUSE and ublk");
	host.devices.fuse = 0;
	host.devices.loop = -ENOENT;
	says("kernel.fuse", &host, WARN, "no /dev/loop-control", "CONFIG_BLK_DEV_LOOP",
	     "doctor warns of FUSE without loop devices");
	host.devices.loop = -EACCES;
	says("kernel.fuse", &host, WARN, "loop-control: Permission", "root",
	     "doctor warns if a user may not use loop devices");
	ok(!doctor_devices_frontend(&host), "FUSE is not usable if the user may not use loop devices");
}

static void rights_of_the_daemon_are_judged(void)
{
	struct host host = good_host();

	says("swap.rights", &host, PASS, "spared", "", "doctor passes a daemon with all rights");
	host.capabilities &= ~CAPABILITY(CAP_SYS_NICE);
	host.swap = GIB;
	says("swap.rights", &host, WARN, "no CAP_SYS_NICE", "RestrictRealtime",
	     "doctor warns of a daemon that may not run in real time");
	host.swap = 0;
	host.daemon.flusher = -EPERM;
	host.capabilities &= ~CAPABILITY(CAP_SYS_RESOURCE);
	says("swap.rights", &host, WARN, "CAP_SYS_RESOURCE", "--cap-add",
	     "doctor warns of a daemon without CAP_SYS_RESOURCE");
	host.daemon.flusher = -EINVAL;
	says("swap.rights", &host, WARN, "no PR_SET_IO_FLUSHER", "5.6",
	     "doctor warns of a kernel without PR_SET_IO_FLUSHER");
	host.capabilities &= ~CAPABILITY(CAP_IPC_LOCK);
	host.swap = GIB;
	says("swap.rights", &host, FAIL, "lock its memory", "CAP_IPC_LOCK",
	     "doctor fails a wanted daemon that may not lock its memory");
	host.capabilities &= ~CAPABILITY(CAP_SYS_ADMIN);
	says("swap.rights", &host, FAIL, "no right", "as root", "doctor fails a user who wants swap");
	host.swap = 0;
	says("swap.rights", &host, SKIP, "root's", "", "doctor skips the rights of a user who wants no swap");
}

static void memory_and_tools_for_swap_are_judged(void)
{
	struct host host = good_host();

	ok(doctor_swap_daemon_bytes(&host) == 64 * MIB, "a daemon takes 64M for an empty device");
	host.swap = 16 * GIB;
	host.memory.available = GIB;
	host.probe_count = 2;
	host.probes[0].figures = host.probes[1].figures = (struct far_donor_info){.donated = 8 * GIB};
	ok(doctor_swap_daemon_bytes(&host) == 128 * MIB, "a daemon takes 16 bytes more for each page of its device");
	host.encrypt = true;
	ok(doctor_swap_daemon_bytes(&host) == 192 * MIB, "a daemon that encrypts takes 32 bytes more for each page");
	host.encrypt = false;
	says("swap.group", &host, PASS, "no limit", "", "doctor passes a daemon without a limit from a control group");
	host.memory.group_limit = GIB;
	host.memory.group_left = 128 * MIB;
	says("swap.group", &host, WARN, "allows 1G, and has 128M left", "outside",
	     "doctor warns of a control group with just enough room for the daemon");
	host.memory.group_left--;
	says("swap.group", &host, FAIL, "needs 128M", "memory.max",
	     "doctor fails a control group with a byte too little room for the daemon");
	host.daemon.own_group = true;
	says("swap.group", &host, PASS, "one of its own", "",
	     "doctor passes a full control group if the daemon gets its own group");
	host.daemon.own_group = false;
	host.swap = 0;
	says("swap.group", &host, WARN, "allows 1G", "outside",
	     "doctor warns of a control group with a limit if no swap is wanted");
	host.swap = 16 * GIB;
	says("swap.space", &host, PASS, "128M here", "", "doctor passes enough memory here and on the donors");
	host.probes[1].figures.leased = 1;
	says("swap.space", &host, FAIL, "less than 16G", "add donors",
	     "doctor fails donors with a byte less than the device");
	host.probe_count = 0;
	says("swap.space", &host, PASS, "no donor answered", "",
	     "doctor passes enough memory here if no donor answered");
	host.memory.available = 127 * MIB;
	says("swap.space", &host, FAIL, "127M are available", "smaller",
	     "doctor fails a host without room for the daemon");
	host.swap = 0;
	says("swap.space", &host, SKIP, "not requested", "", "doctor skips swap space without a size");
	says("swap.tools", &host, PASS, "mkswap is installed", "",
	     "doctor passes a host with mkswap and a kernel that swaps");
	host.daemon.mkswap = false;
	says("swap.tools", &host, WARN, "no mkswap", "util-linux", "doctor warns of a host without mkswap");
	host.daemon.kernel = false;
	host.swap = GIB;
	says("swap.tools", &host, FAIL, "cannot swap", "CONFIG_SWAP",
	     "doctor fails a kernel that cannot swap if swap is wanted");
	host.daemon.page_cluster = 0;
	says("swap.readahead", &host, PASS, "none", "", "doctor passes swap without readahead");
	host.daemon.page_cluster = 3;
	says("swap.readahead", &host, PASS, "up to 8 pages", "", "doctor passes the kernel's default readahead");
	host.daemon.page_cluster = 6;
	says("swap.readahead", &host, WARN, "2^6", "page-cluster=3",
	     "doctor warns of readahead above the kernel's default");
	host.daemon.page_cluster = -EACCES;
	says("swap.readahead", &host, WARN, "denied", "", "doctor warns if the readahead cannot be read");
}

static void reserves_are_judged_by_what_is_needed(void)
{
	struct host host = good_host();

	host.memory.total = UINT64_C(473100) << 10; /* needs min_free_kbytes 35519, scale factor 347 */
	host.daemon.reserves = (struct watermarks){{2727, 10}};

	says("swap.reserves", &host, PASS,
	     "2727, vm.watermark_scale_factor 10; farpage swap on raises that while its device is there, to "
	     "vm.min_free_kbytes 35519, vm.watermark_scale_factor 347",
	     "", "doctor passes low reserves and says what farpage would set");
	host.daemon.raised_for = "swap";
	host.daemon.raised =
	    (struct watermarks_record){.found = host.daemon.reserves, .set = doctor_swap_needed(&host)};
	says("swap.reserves", &host, WARN, "lowered since",
	     "sysctl vm.min_free_kbytes=35519 vm.watermark_scale_factor=347",
	     "doctor warns of reserves that somebody lowered after farpage set them");
	host.daemon.reserves = doctor_swap_needed(&host);
	says("swap.reserves", &host, PASS, "as long as swap is there: vm.min_free_kbytes 2727 -> 35519", "",
	     "doctor passes reserves as farpage set them and says what they were");
	host.daemon.raised_for = NULL;
	says("swap.reserves", &host, PASS, "347: enough", "",
	     "doctor passes reserves that are high enough without farpage");
	host.daemon.reserves.at[WATERMARK_SCALE]--;
	says("swap.reserves", &host, PASS, "raises that", "",
	     "doctor passes reserves of which one is low and says that farpage raises it");
	host.daemon.reserves.at[WATERMARK_MIN] = 45056;
	says("swap.reserves", &host, PASS, "raises that while its device is there, to vm.min_free_kbytes 45056, vm.",
	     "", "doctor says that farpage leaves the reserve that is high enough as it is");
	host.daemon.reserves_error = -EACCES;
	says("swap.reserves", &host, WARN, "denied", "", "doctor warns if the reserves cannot be read");
}

static void swap_is_safe_only_over_an_rdma_device(void)
{
	struct host host = good_host();

	says("swap.safety", &host, PASS, "safe: ", "", "doctor calls ublk over an RDMA device safe");
	host.devices.ublk_recovers = false;
	says("swap.safety", &host, WARN, "best effort: ", "6.1", "doctor calls ublk without recovery best effort");
	host = good_host();
	host.way = WAY_SOFT_RDMA;
	says("swap.safety", &host, WARN, "vm.min_free_kbytes is 16384, where 49152 are needed",
	     "sysctl vm.min_free_kbytes=49152", "doctor warns of soft-RoCE without the reserve that it needs");
	host.daemon.reserves.at[WATERMARK_MIN] = 49152;
	says("swap.safety", &host, WARN, "49152, is enough (49152)", "an RDMA device (Inf",
	     "doctor warns of soft-RoCE with enough reserve and advises an RDMA device");
	host.way = WAY_TCP;
	says("swap.safety", &host, WARN, "best effort: each page sent or received over TCP", "RDMA device",
	     "doctor calls ublk over TCP best effort");
	lose_ublk(&host);
	says("swap.safety", &host, WARN, "the swapped pages are lost", "and ublk",
	     "doctor warns of FUSE over TCP and advises ublk");
	host.way = WAY_RDMA;
	says("swap.safety", &host, WARN, "best effort: the loop device and FUSE", "ublk",
	     "doctor calls FUSE over an RDMA device best effort");
}

static void dangers_of_swap_are_named(void)
{
	struct host host = good_host();

	host.capabilities &= ~CAPABILITY(CAP_SYS_RESOURCE);
	says("swap.safety", &host, WARN, "unsafe: the daemon lacks rights", "rights",
	     "doctor calls a daemon without rights unsafe");
	host.swap = GIB;
	says("swap.safety", &host, FAIL, "unsafe: ", "rights",
	     "doctor fails a daemon without rights if swap is wanted");
	host = good_host();
	host.memory.group_left = 64 * MIB - 1;
	says("swap.safety", &host, WARN, "unsafe: ", "control group",
	     "doctor calls a daemon in a full control group unsafe");
	host = good_host();
	host.way_is_local = true;
	says("swap.safety", &host, WARN, "unsafe: the donor is this very machine", "other machines",
	     "doctor calls a donor on the same machine unsafe");
	host = good_host();
	lose_ublk(&host);
	host.devices.fuse = -ENOENT;
	says("swap.safety", &host, SKIP, "neither ublk nor FUSE", "Kernel", "doctor skips a host without a front end");
	host.swap = GIB;
	says("swap.safety", &host, FAIL, "neither ublk nor FUSE", "Kernel",
	     "doctor fails a host without a front end if swap is wanted");
	host = good_host();
	host.capabilities &= ~CAPABILITY(CAP_SYS_ADMIN);
	says("swap.safety", &host, SKIP, "root's", "", "doctor skips the safety of swap for a user");
}

static void a_device_and_its_daemon_are_judged(void)
{
	struct host host = {.left = {.name = "scratch", .path = "/dev/ublkb0", .served = true, .answers = true}};

	says("swap.device", &host, PASS, "/dev/ublkb0 is served", "", "doctor passes a device that is served");
	host.left.use = "swap space";
	says("swap.device", &host, PASS, "served: swap space", "", "doctor passes a served device and names its use");
	strcpy(host.left.missing, "locked, oom_exempt");
	says("swap.device", &host, WARN, "safety steps are missing: locked, oom_exempt", "rights",
	     "doctor warns of a daemon that lacks safety steps and names them");
	host.left.answers = false;
	says("swap.device", &host, WARN, "does not answer", "", "doctor warns of a daemon that does not answer");
	host.left.served = false;
	says("swap.device", &host, WARN, "the contents of /dev/ublkb0 are lost; in use: swap space",
	     "end what uses it, then farpage disk detach scratch",
	     "doctor warns of a dead daemon whose device is lost but in use");
	host.left.adoptable = true;
	says("swap.device", &host, WARN, "/dev/ublkb0 waits for another, and in use: swap space",
	     "farpage disk adopt scratch", "doctor warns of a dead daemon whose device waits, and advises adoption");
	host.left.path = host.left.use = NULL;
	says("swap.device", &host, WARN, "before there was a device", "farpage disk detach scratch",
	     "doctor warns of a daemon that died before there was a device");
}

int main(void)
{
	ublk_is_judged_by_recovery_rights_and_module();
	fuse_is_judged_beside_ublk_and_loop_devices();
	rights_of_the_daemon_are_judged();
	memory_and_tools_for_swap_are_judged();
	reserves_are_judged_by_what_is_needed();
	swap_is_safe_only_over_an_rdma_device();
	dangers_of_swap_are_named();
	a_device_and_its_daemon_are_judged();
	return tap_done();
}
