/* test_doctor_swap: how safe farpage doctor calls swapping, on hosts that are made up. */
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

/* A host with nothing to complain of; tests spoil a copy. */
static const struct swap_rights good_rights = {.admin = true, .locks = true, .spared = true, .realtime = true};
static const struct swap_facts good = {.frontend = SWAP_FRONTEND_UBLK,
				       .recovers = true,
				       .fabric = SWAP_FABRIC_RDMA,
				       .rights = {.admin = true, .locks = true, .spared = true, .realtime = true},
				       .group = {.limit = UINT64_MAX, .unused = UINT64_MAX},
				       .memory_kib = 16 << 20,
				       .min_free_kib = 16384,
				       .flight_kib = 8192};

static void test_ublk(void)
{
	struct ublk_facts facts = {.recovers = true, .permitted = true, .wanted = true};

	says(doctor_judge_ublk(&facts), DOCTOR_PASS, "outlive", "", "ublk");
	ok(doctor_ublk_usable(&facts), "which can be used");
	facts.recovers = false;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "end with their daemon", "6.1", "ublk of Linux 6.0");
	facts.ring = -EPERM;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "io_uring", "io_uring_disabled=0", "ublk without io_uring");
	ok(!doctor_ublk_usable(&facts), "which cannot");
	facts.open = -EACCES;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "Permission denied", "root", "a user");
	facts.open = 0;
	facts.permitted = false;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "not permitted", "root", "one who may open it");
	ok(!doctor_ublk_usable(&facts), "which is not enough");
	facts.open = -ENOENT;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "this kernel has none", "CONFIG_BLK_DEV_UBLK", "no ublk");
	facts.at_hand = true;
	says(doctor_judge_ublk(&facts), DOCTOR_WARN, "not loaded", "modprobe ublk_drv", "only its module");
	facts.wanted = false;
	says(doctor_judge_ublk(&facts), DOCTOR_SKIP, "not loaded", "modprobe", "and nobody who asks for it");
}

static void test_fuse(void)
{
	struct fuse_facts facts = {.permitted = true, .wanted = true};

	says(doctor_judge_fuse(&facts), DOCTOR_PASS, "slower than ublk", "", "FUSE");
	facts.ublk = true;
	says(doctor_judge_fuse(&facts), DOCTOR_PASS, "not needed", "", "beside ublk");
	facts.fuse = -ENOENT;
	says(doctor_judge_fuse(&facts), DOCTOR_SKIP, "no /dev/fuse", "CONFIG_FUSE_FS", "which is enough");
	ok(!doctor_fuse_usable(&facts), "no FUSE");
	facts.ublk = false;
	facts.fuse_at_hand = true;
	says(doctor_judge_fuse(&facts), DOCTOR_WARN, "no /dev/fuse", "modprobe fuse", "nor ublk");
	facts.fuse = 0;
	facts.loop = -ENOENT;
	says(doctor_judge_fuse(&facts), DOCTOR_WARN, "no /dev/loop-control", "CONFIG_BLK_DEV_LOOP", "no loop devices");
	facts.loop = -EACCES;
	says(doctor_judge_fuse(&facts), DOCTOR_WARN, "loop-control: Permission", "root", "a user");
	ok(!doctor_fuse_usable(&facts), "who cannot use them");
}

static void test_rights(void)
{
	struct swap_rights rights = good_rights;

	says(doctor_judge_swap_rights(&rights), DOCTOR_PASS, "spared", "", "a daemon with all rights");
	rights.realtime = false;
	rights.wanted = GIB;
	says(doctor_judge_swap_rights(&rights), DOCTOR_WARN, "no CAP_SYS_NICE", "RestrictRealtime", "not in real time");
	rights.wanted = 0;
	rights.flusher = -EPERM;
	rights.spared = false;
	says(doctor_judge_swap_rights(&rights), DOCTOR_WARN, "CAP_SYS_RESOURCE", "--cap-add", "of a container");
	rights.flusher = -EINVAL;
	says(doctor_judge_swap_rights(&rights), DOCTOR_WARN, "no PR_SET_IO_FLUSHER", "5.6", "of an old kernel");
	rights.locks = false;
	rights.wanted = GIB;
	says(doctor_judge_swap_rights(&rights), DOCTOR_FAIL, "lock its memory", "CAP_IPC_LOCK",
	     "that may lock nothing");
	rights.admin = false;
	says(doctor_judge_swap_rights(&rights), DOCTOR_FAIL, "no right", "as root", "a user");
	rights.wanted = 0;
	says(doctor_judge_swap_rights(&rights), DOCTOR_SKIP, "root's", "", "who does not ask for it");
}

static void test_memory(void)
{
	struct swap_group group = {.limit = UINT64_MAX, .unused = UINT64_MAX, .wanted = 16 * GIB};
	struct swap_space space = {.wanted = 16 * GIB, .available = GIB, .donors = 2, .far = 16 * GIB};

	ok(doctor_daemon_bytes(0) == 64 * MIB && doctor_daemon_bytes(16 * GIB) == 128 * MIB,
	   "a daemon takes 64M and 16 bytes a page");
	says(doctor_judge_swap_group(&group), DOCTOR_PASS, "no limit", "", "no control group");
	group.limit = GIB;
	group.unused = 128 * MIB;
	says(doctor_judge_swap_group(&group), DOCTOR_WARN, "allows 1G, and has 128M left", "outside",
	     "room in a group");
	group.unused--;
	says(doctor_judge_swap_group(&group), DOCTOR_FAIL, "needs 128M", "memory.max", "a byte less");
	group.own = true;
	says(doctor_judge_swap_group(&group), DOCTOR_PASS, "one of its own", "", "where it can have a group");
	group.own = false;
	group.wanted = 0;
	says(doctor_judge_swap_group(&group), DOCTOR_WARN, "allows 1G", "outside", "nobody who asks");
	says(doctor_judge_swap_space(&space), DOCTOR_PASS, "128M here", "", "space here and there");
	space.far--;
	says(doctor_judge_swap_space(&space), DOCTOR_FAIL, "less than 16G", "add donors", "donors a byte short of it");
	space.donors = 0;
	says(doctor_judge_swap_space(&space), DOCTOR_PASS, "no donor answered", "", "no donors");
	space.available = 127 * MIB;
	says(doctor_judge_swap_space(&space), DOCTOR_FAIL, "127M are available", "smaller", "no room for its daemon");
	space.wanted = 0;
	says(doctor_judge_swap_space(&space), DOCTOR_SKIP, "not asked", "", "no size to judge");
	says(doctor_judge_swap_tools(true, true, 0), DOCTOR_PASS, "mkswap is there", "", "tools");
	says(doctor_judge_swap_tools(false, true, 0), DOCTOR_WARN, "no mkswap", "util-linux", "no mkswap");
	says(doctor_judge_swap_tools(true, false, GIB), DOCTOR_FAIL, "cannot swap", "CONFIG_SWAP", "no swap");
	says(doctor_judge_swap_readahead(0), DOCTOR_PASS, "none", "", "no readahead");
	says(doctor_judge_swap_readahead(3), DOCTOR_PASS, "up to 8 pages", "", "the kernel's own");
	says(doctor_judge_swap_readahead(6), DOCTOR_WARN, "2^6", "page-cluster=3", "too much of it");
	says(doctor_judge_swap_readahead(-EACCES), DOCTOR_WARN, "denied", "", "nobody knows how much");
}

static void test_reserves(void)
{
	struct reserve_facts facts = {.now = {{2727, 10}}, .needed = {{35519, 347}}};

	says(doctor_judge_reserves(&facts), DOCTOR_PASS,
	     "2727, vm.watermark_scale_factor 10; farpage swap on raises that while its device is there, to "
	     "vm.min_free_kbytes 35519, vm.watermark_scale_factor 347",
	     "", "what is, and what would be set");
	facts.device = "swap";
	facts.record = (struct watermarks_record){.found = facts.now, .set = facts.needed};
	says(doctor_judge_reserves(&facts), DOCTOR_WARN, "lowered since",
	     "sysctl vm.min_free_kbytes=35519 vm.watermark_scale_factor=347", "what was set, and lowered by somebody");
	facts.now = facts.needed;
	says(doctor_judge_reserves(&facts), DOCTOR_PASS, "as long as swap is there: vm.min_free_kbytes 2727 -> 35519",
	     "", "what is set");
	facts.device = NULL;
	says(doctor_judge_reserves(&facts), DOCTOR_PASS, "347: enough", "", "enough without us");
	facts.now.at[WATERMARK_SCALE]--;
	says(doctor_judge_reserves(&facts), DOCTOR_PASS, "raises that", "", "one of them is not");
	facts.error = -EACCES;
	says(doctor_judge_reserves(&facts), DOCTOR_WARN, "denied", "", "nobody knows");
}

static void test_safety(void)
{
	struct swap_facts facts = good;

	says(doctor_judge_safety(&facts), DOCTOR_PASS, "safe: ", "", "ublk over an RDMA device");
	facts.recovers = false;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "best effort: ", "6.1", "without recovery");
	facts = good;
	facts.fabric = SWAP_FABRIC_SOFT_RDMA;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "vm.min_free_kbytes is 16384, where 32768 are needed",
	     "sysctl vm.min_free_kbytes=32768", "over soft-RoCE");
	facts.min_free_kib = 32768;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "32768, is enough (32768)", "an RDMA device (Inf",
	     "with the reserve that it needs");
	facts.fabric = SWAP_FABRIC_TCP;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "best effort: each page sent or received over TCP",
	     "RDMA device", "over TCP");
	facts.frontend = SWAP_FRONTEND_FUSE;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "so does what is swapped", "and ublk", "with FUSE");
	facts.fabric = SWAP_FABRIC_RDMA;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "best effort: the loop device and FUSE", "ublk",
	     "FUSE over an RDMA device");
}

static void test_danger(void)
{
	struct swap_facts facts = good;

	facts.rights.spared = false;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "unsafe: the daemon may not", "rights",
	     "a daemon without rights");
	facts.rights.wanted = GIB;
	says(doctor_judge_safety(&facts), DOCTOR_FAIL, "unsafe: ", "rights", "fails where swap is asked for");
	facts = good;
	facts.group.unused = 64 * MIB - 1;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "unsafe: ", "control group", "a full control group");
	facts = good;
	facts.local = true;
	says(doctor_judge_safety(&facts), DOCTOR_WARN, "unsafe: the donor is this very machine", "other machines",
	     "memory of the same machine");
	facts = good;
	facts.frontend = SWAP_FRONTEND_NONE;
	says(doctor_judge_safety(&facts), DOCTOR_SKIP, "neither ublk nor FUSE", "Kernel", "no front end");
	facts.rights.wanted = GIB;
	says(doctor_judge_safety(&facts), DOCTOR_FAIL, "neither ublk nor FUSE", "Kernel", "that was asked for");
	facts = good;
	facts.rights.admin = false;
	says(doctor_judge_safety(&facts), DOCTOR_SKIP, "root's", "", "a user");
}

static void test_device(void)
{
	struct device_facts facts = {.name = "scratch", .path = "/dev/ublkb0", .served = true, .answers = true};

	says(doctor_judge_device(&facts), DOCTOR_PASS, "/dev/ublkb0 is served", "", "a device");
	facts.use = "swap space";
	says(doctor_judge_device(&facts), DOCTOR_PASS, "served: swap space", "", "and who uses it");
	facts.missing = "locked, oom_exempt";
	says(doctor_judge_device(&facts), DOCTOR_WARN, "safe to swap to: locked, oom_exempt", "rights",
	     "a daemon that is not safe");
	facts.answers = false;
	says(doctor_judge_device(&facts), DOCTOR_WARN, "does not answer", "", "one that says nothing");
	facts.served = false;
	says(doctor_judge_device(&facts), DOCTOR_WARN, "what was in /dev/ublkb0 with it; in use: swap space",
	     "end what uses it, then farpage disk detach scratch", "one that is dead, and its device");
	facts.adoptable = true;
	says(doctor_judge_device(&facts), DOCTOR_WARN, "/dev/ublkb0 waits for another, and in use: swap space",
	     "farpage disk adopt scratch", "unless that waits");
	facts.path = facts.use = NULL;
	says(doctor_judge_device(&facts), DOCTOR_WARN, "before there was a device", "farpage disk detach scratch",
	     "one that died early");
}

int main(void)
{
	test_ublk();
	test_fuse();
	test_rights();
	test_memory();
	test_reserves();
	test_safety();
	test_danger();
	test_device();
	return tap_done();
}
