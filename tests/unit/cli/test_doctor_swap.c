/* test_doctor_swap: the verdicts of farpage doctor on swapping, on invented hosts. */
#include "cli/doctor/doctor_devices.h"
#include "cli/doctor/doctor_left.h"
#include "cli/doctor/doctor_reserves.h"
#include "cli/doctor/doctor_safety.h"
#include "cli/doctor/doctor_swap.h"
#include "tests/unit/cli/doctor_says.h"

#include <errno.h>
#include <stdint.h>

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

/* A host without faults. Tests spoil a copy. */
static const struct swap_rights good_rights = {.admin = true, .locks = true, .spared = true, .realtime = true};
static const struct swap_facts good = {.frontend = SWAP_FRONTEND_UBLK,
				       .recovers = true,
				       .fabric = SWAP_FABRIC_RDMA,
				       .rights = {.admin = true, .locks = true, .spared = true, .realtime = true},
				       .group = {.limit = UINT64_MAX, .unused = UINT64_MAX},
				       .memory_kib = 16 << 20,
				       .min_free_kib = 16384,
				       .flight_kib = 8192};

static void ublk_is_judged_by_recovery_rights_and_module(void)
{
	struct ublk_facts facts = {.recovers = true, .permitted = true, .wanted = true};

	says(doctor_judge_ublk(&facts), DOCTOR_PASS, "outlive", "", "doctor passes ublk with recovery");
	ok(doctor_ublk_usable(&facts), "ublk with recovery is usable");
	facts.recovers = false;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "end with their daemon", "6.1",
	     "doctor warns of ublk without recovery");
	facts.ring = -EPERM;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "io_uring", "io_uring_disabled=0",
	     "doctor warns of ublk without io_uring");
	ok(!doctor_ublk_usable(&facts), "ublk without io_uring is not usable");
	facts.open = -EACCES;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "Permission denied", "root",
	     "doctor warns if a user may not open ublk's control device");
	facts.open = 0;
	facts.permitted = false;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "not permitted", "root",
	     "doctor warns if a user may open ublk's control device but not use it");
	ok(!doctor_ublk_usable(&facts), "ublk that the user may only open is not usable");
	facts.open = -ENOENT;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "this kernel has none", "CONFIG_BLK_DEV_UBLK",
	     "doctor warns of a kernel without ublk");
	facts.at_hand = true;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "not loaded", "modprobe ublk_drv",
	     "doctor warns of ublk whose module is not loaded");
	facts.wanted = false;
	says(doctor_judge_ublk(&facts), DOCTOR_SKIP, "not loaded", "modprobe",
	     "doctor skips ublk whose module is not loaded if no swap is wanted");
}

static void fuse_is_judged_beside_ublk_and_loop_devices(void)
{
	struct fuse_facts facts = {.permitted = true, .wanted = true};

	says(doctor_judge_fuse(&facts), DOCTOR_PASS, "slower than ublk", "", "doctor passes FUSE without ublk");
	facts.ublk = true;
	says(doctor_judge_fuse(&facts), DOCTOR_PASS, "not needed", "", "doctor passes FUSE beside ublk");
	facts.fuse = -ENOENT;
	says(doctor_judge_fuse(&facts), DOCTOR_SKIP, "no /dev/fuse", "CONFIG_FUSE_FS",
	     "doctor skips a missing FUSE beside ublk");
	ok(!doctor_fuse_usable(&facts), "FUSE without /dev/fuse is not usable");
	facts.ublk = false;
	facts.fuse_at_hand = true;
	says(doctor_judge_fuse(&facts), DOCTOR_WARN, "no /dev/fuse", "modprobe fuse",
	     "doctor warns of a host without FUSE and ublk");
	facts.fuse = 0;
	facts.loop = -ENOENT;
	says(doctor_judge_fuse(&facts), DOCTOR_WARN, "no /dev/loop-control", "CONFIG_BLK_DEV_LOOP",
	     "doctor warns of FUSE without loop devices");
	facts.loop = -EACCES;
	says(doctor_judge_fuse(&facts), DOCTOR_WARN, "loop-control: Permission", "root",
	     "doctor warns if a user may not use loop devices");
	ok(!doctor_fuse_usable(&facts), "FUSE is not usable if the user may not use loop devices");
}

static void rights_of_the_daemon_are_judged(void)
{
	struct swap_rights rights = good_rights;

	says(doctor_judge_swap_rights(&rights), DOCTOR_PASS, "spared", "", "doctor passes a daemon with all rights");
	rights.realtime = false;
	rights.wanted = GIB;
	says(doctor_judge_swap_rights(&rights), DOCTOR_WARN, "no CAP_SYS_NICE", "RestrictRealtime",
	     "doctor warns of a daemon that may not run in real time");
	rights.wanted = 0;
	rights.flusher = -EPERM;
	rights.spared = false;
	says(doctor_judge_swap_rights(&rights), DOCTOR_WARN, "CAP_SYS_RESOURCE", "--cap-add",
	     "doctor warns of a daemon without CAP_SYS_RESOURCE");
	rights.flusher = -EINVAL;
	says(doctor_judge_swap_rights(&rights), DOCTOR_WARN, "no PR_SET_IO_FLUSHER", "5.6",
	     "doctor warns of a kernel without PR_SET_IO_FLUSHER");
	rights.locks = false;
	rights.wanted = GIB;
	says(doctor_judge_swap_rights(&rights), DOCTOR_FAIL, "lock its memory", "CAP_IPC_LOCK",
	     "doctor fails a wanted daemon that may not lock its memory");
	rights.admin = false;
	says(doctor_judge_swap_rights(&rights), DOCTOR_FAIL, "no right", "as root",
	     "doctor fails a user who wants swap");
	rights.wanted = 0;
	says(doctor_judge_swap_rights(&rights), DOCTOR_SKIP, "root's", "",
	     "doctor skips the rights of a user who wants no swap");
}

static void memory_and_tools_for_swap_are_judged(void)
{
	struct swap_group group = {.limit = UINT64_MAX, .unused = UINT64_MAX, .wanted = 16 * GIB};
	struct swap_space space = {.wanted = 16 * GIB, .available = GIB, .donors = 2, .far = 16 * GIB};

	ok(doctor_daemon_bytes(0) == 64 * MIB && doctor_daemon_bytes(16 * GIB) == 128 * MIB,
	   "a daemon takes 64M and 16 bytes for each page of its device");
	says(doctor_judge_swap_group(&group), DOCTOR_PASS, "no limit", "",
	     "doctor passes a daemon without a limit from a control group");
	group.limit = GIB;
	group.unused = 128 * MIB;
	says(doctor_judge_swap_group(&group), DOCTOR_WARN, "allows 1G, and has 128M left", "outside",
	     "doctor warns of a control group with just enough room for the daemon");
	group.unused--;
	says(doctor_judge_swap_group(&group), DOCTOR_FAIL, "needs 128M", "memory.max",
	     "doctor fails a control group with a byte too little room for the daemon");
	group.own = true;
	says(doctor_judge_swap_group(&group), DOCTOR_PASS, "one of its own", "",
	     "doctor passes a full control group if the daemon gets its own group");
	group.own = false;
	group.wanted = 0;
	says(doctor_judge_swap_group(&group), DOCTOR_WARN, "allows 1G", "outside",
	     "doctor warns of a control group with a limit if no swap is wanted");
	says(doctor_judge_swap_space(&space), DOCTOR_PASS, "128M here", "",
	     "doctor passes enough memory here and on the donors");
	space.far--;
	says(doctor_judge_swap_space(&space), DOCTOR_FAIL, "less than 16G", "add donors",
	     "doctor fails donors with a byte less than the device");
	space.donors = 0;
	says(doctor_judge_swap_space(&space), DOCTOR_PASS, "no donor answered", "",
	     "doctor passes enough memory here if no donor answered");
	space.available = 127 * MIB;
	says(doctor_judge_swap_space(&space), DOCTOR_FAIL, "127M are available", "smaller",
	     "doctor fails a host without room for the daemon");
	space.wanted = 0;
	says(doctor_judge_swap_space(&space), DOCTOR_SKIP, "not asked", "", "doctor skips swap space without a size");
	says(doctor_judge_swap_tools(true, true, 0), DOCTOR_PASS, "mkswap is there", "",
	     "doctor passes a host with mkswap and a kernel that swaps");
	says(doctor_judge_swap_tools(false, true, 0), DOCTOR_WARN, "no mkswap", "util-linux",
	     "doctor warns of a host without mkswap");
	says(doctor_judge_swap_tools(true, false, GIB), DOCTOR_FAIL, "cannot swap", "CONFIG_SWAP",
	     "doctor fails a kernel that cannot swap if swap is wanted");
	says(doctor_judge_swap_readahead(0), DOCTOR_PASS, "none", "", "doctor passes swap without readahead");
	says(doctor_judge_swap_readahead(3), DOCTOR_PASS, "up to 8 pages", "",
	     "doctor passes the kernel's default readahead");
	says(doctor_judge_swap_readahead(6), DOCTOR_WARN, "2^6", "page-cluster=3",
	     "doctor warns of readahead above the kernel's default");
	says(doctor_judge_swap_readahead(-EACCES), DOCTOR_WARN, "denied", "",
	     "doctor warns if the readahead cannot be read");
}

static void reserves_are_judged_by_what_is_needed(void)
{
	struct reserve_facts facts = {.now = {{2727, 10}}, .needed = {{35519, 347}}};

	says(doctor_judge_reserves(&facts), DOCTOR_PASS,
	     "2727, vm.watermark_scale_factor 10; farpage swap on raises that while its device is there, to "
	     "vm.min_free_kbytes 35519, vm.watermark_scale_factor 347",
	     "", "doctor passes low reserves and says what farpage would set");
	facts.device = "swap";
	facts.record = (struct watermarks_record){.found = facts.now, .set = facts.needed};
	says(doctor_judge_reserves(&facts), DOCTOR_WARN, "lowered since",
	     "sysctl vm.min_free_kbytes=35519 vm.watermark_scale_factor=347",
	     "doctor warns of reserves that somebody lowered after farpage set them");
	facts.now = facts.needed;
	says(doctor_judge_reserves(&facts), DOCTOR_PASS, "as long as swap is there: vm.min_free_kbytes 2727 -> 35519",
	     "", "doctor passes reserves as farpage set them and says what they were");
	facts.device = NULL;
	says(doctor_judge_reserves(&facts), DOCTOR_PASS, "347: enough", "",
	     "doctor passes reserves that are high enough without farpage");
	facts.now.at[WATERMARK_SCALE]--;
	says(doctor_judge_reserves(&facts), DOCTOR_PASS, "raises that", "",
	     "doctor passes reserves of which one is low and says that farpage raises it");
	facts.error = -EACCES;
	says(doctor_judge_reserves(&facts), DOCTOR_WARN, "denied", "", "doctor warns if the reserves cannot be read");
}

static void swap_is_safe_only_over_an_rdma_device(void)
{
	struct swap_facts facts = good;

	says(doctor_judge_safety(&facts), DOCTOR_PASS, "safe: ", "", "doctor calls ublk over an RDMA device safe");
	facts.recovers = false;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "best effort: ", "6.1",
	     "doctor calls ublk without recovery best effort");
	facts = good;
	facts.fabric = SWAP_FABRIC_SOFT_RDMA;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "vm.min_free_kbytes is 16384, where 32768 are needed",
	     "sysctl vm.min_free_kbytes=32768", "doctor warns of soft-RoCE without the reserve that it needs");
	facts.min_free_kib = 32768;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "32768, is enough (32768)", "an RDMA device (Inf",
	     "doctor warns of soft-RoCE with enough reserve and advises an RDMA device");
	facts.fabric = SWAP_FABRIC_TCP;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "best effort: each page sent or received over TCP",
	     "RDMA device", "doctor calls ublk over TCP best effort");
	facts.frontend = SWAP_FRONTEND_FUSE;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "so does what is swapped", "and ublk",
	     "doctor warns of FUSE over TCP and advises ublk");
	facts.fabric = SWAP_FABRIC_RDMA;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "best effort: the loop device and FUSE", "ublk",
	     "doctor calls FUSE over an RDMA device best effort");
}

static void dangers_of_swap_are_named(void)
{
	struct swap_facts facts = good;

	facts.rights.spared = false;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "unsafe: the daemon may not", "rights",
	     "doctor calls a daemon without rights unsafe");
	facts.rights.wanted = GIB;
	says(doctor_judge_safety(&facts), DOCTOR_FAIL, "unsafe: ", "rights",
	     "doctor fails a daemon without rights if swap is wanted");
	facts = good;
	facts.group.unused = 64 * MIB - 1;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "unsafe: ", "control group",
	     "doctor calls a daemon in a full control group unsafe");
	facts = good;
	facts.local = true;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "unsafe: the donor is this very machine", "other machines",
	     "doctor calls a donor on the same machine unsafe");
	facts = good;
	facts.frontend = SWAP_FRONTEND_NONE;
	says(doctor_judge_safety(&facts), DOCTOR_SKIP, "neither ublk nor FUSE", "Kernel",
	     "doctor skips a host without a front end");
	facts.rights.wanted = GIB;
	says(doctor_judge_safety(&facts), DOCTOR_FAIL, "neither ublk nor FUSE", "Kernel",
	     "doctor fails a host without a front end if swap is wanted");
	facts = good;
	facts.rights.admin = false;
	says(doctor_judge_safety(&facts), DOCTOR_SKIP, "root's", "", "doctor skips the safety of swap for a user");
}

static void a_device_and_its_daemon_are_judged(void)
{
	struct device_facts facts = {.name = "scratch", .path = "/dev/ublkb0", .served = true, .answers = true};

	says(doctor_judge_device(&facts), DOCTOR_PASS, "/dev/ublkb0 is served", "",
	     "doctor passes a device that is served");
	facts.use = "swap space";
	says(doctor_judge_device(&facts), DOCTOR_PASS, "served: swap space", "",
	     "doctor passes a served device and names its use");
	facts.missing = "locked, oom_exempt";
	says(doctor_judge_device(&facts), DOCTOR_WARN, "safe to swap to: locked, oom_exempt", "rights",
	     "doctor warns of a daemon that lacks safety steps and names them");
	facts.answers = false;
	says(doctor_judge_device(&facts), DOCTOR_WARN, "does not answer", "",
	     "doctor warns of a daemon that does not answer");
	facts.served = false;
	says(doctor_judge_device(&facts), DOCTOR_WARN, "what was in /dev/ublkb0 with it; in use: swap space",
	     "end what uses it, then farpage disk detach scratch",
	     "doctor warns of a dead daemon whose device is lost but in use");
	facts.adoptable = true;
	says(doctor_judge_device(&facts), DOCTOR_WARN, "/dev/ublkb0 waits for another, and in use: swap space",
	     "farpage disk adopt scratch", "doctor warns of a dead daemon whose device waits, and advises adoption");
	facts.path = facts.use = NULL;
	says(doctor_judge_device(&facts), DOCTOR_WARN, "before there was a device", "farpage disk detach scratch",
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
