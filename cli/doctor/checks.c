/* checks: the table of all checks. struct check in internal.h explains the columns. */
#include "cli/doctor/internal.h"

const struct check checks[] = {
    {"rdma.devices", "RDMA", "devices", doctor_rdma_read, NULL, doctor_rdma_devices, FOR_RDMA,
     "over rdma:// the donor's processors do nothing to transfer a page; over tcp:// they work for each page",
     "to have one in software (soft-RoCE), as root: modprobe -a rdma_rxe rdma_ucm && rdma link add rxe0 type rxe "
     "netdev NETDEV"},
    {"rdma.cm", "RDMA", "connecting", doctor_rdma_read, NULL, doctor_rdma_cm, FOR_RDMA,
     "rdma:// connections are made through /dev/infiniband/rdma_cm",
     "as root: modprobe rdma_ucm; a container must be given /dev/infiniband"},
    {"rdma.port", "RDMA", "port", doctor_rdma_read, doctor_rdma_each_port, doctor_rdma_port, FOR_RDMA,
     "a connection needs an active port that has an IP address", NULL},
    {"rdma.mtu", "RDMA", "packets of", doctor_rdma_read, doctor_rdma_each_port, doctor_rdma_mtu, FOR_RDMA,
     "a page has 4096 bytes; each packet of it costs both sides time, and the page is complete only with the last one",
     NULL},
    {"rdma.limits", "RDMA", "limits of", doctor_rdma_read, doctor_rdma_each_device, doctor_rdma_limits, FOR_RDMA,
     "the device limits queues, regions and reads in flight", NULL},

    {"faults.right", "Page faults", "userfaultfd", doctor_faults_read, NULL, doctor_faults_right, FOR_CLIENTS,
     "farpage fetches pages from donors by userfaultfd; without it farpage run does not start", NULL},
    {"faults.paging", "Page faults", "paging", doctor_faults_read, NULL, doctor_faults_paging, FOR_CLIENTS,
     "only UFFDIO_MOVE (Linux 6.8) recognises a page that a device writes to (O_DIRECT, io_uring); UFFDIO_POISON (6.6) "
     "marks a lost page",
     "a kernel of Linux 6.8 or newer (Debian 12: linux-image-6.12-amd64)"},
    {"faults.forks", "Page faults", "forks", doctor_faults_read, NULL, doctor_faults_forks, FOR_CLIENTS,
     "a forked child that does not call exec can use far memory only if the kernel reports the fork to the pager "
     "(CAP_SYS_PTRACE)",
     "if the program forks without exec: run farpage as root, with CAP_SYS_PTRACE (a container: --cap-add "
     "SYS_PTRACE), or by the helper (farpage-helper(8))"},

    {"memory.lock", "Memory", "locked memory", doctor_memory_read, NULL, doctor_memory_lock, FOR_CLIENTS,
     "over rdma:// the pager's buffers are pinned, and the kernel limits how much a process may pin",
     "ulimit -l unlimited (as root), or \"* - memlock unlimited\" in /etc/security/limits.conf and a new login"},
    {"memory.donate", "Memory", "locked memory of a donor", doctor_memory_read, NULL, doctor_memory_donate, 0,
     "a donor pins the memory that it lends over rdma://, and locks it with --mlock",
     "LimitMEMLOCK=infinity in farpage-memserver's unit, or ulimit -l unlimited before it starts"},
    {"memory.room", "Memory", "room", doctor_memory_read, NULL, doctor_memory_room, 0,
     "a donor lends idle memory, within its control group, and never memory that the host needs",
     "lend less, or end what uses the memory; slabs are leased only while there is room"},
    {"memory.huge", "Memory", "transparent huge pages", doctor_memory_read, NULL, doctor_memory_huge, 0,
     "donors put slabs on huge pages: fewer TLB misses, and less to pin and to map for a device",
     "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"},
    {"memory.hugetlb", "Memory", "hugetlb pages", doctor_memory_read, NULL, doctor_memory_hugetlb, 0,
     "with --huge a donor takes pages from this pool, which are always huge, and ordinary pages when the pool is empty",
     NULL},
    {"memory.overcommit", "Memory", "overcommit", doctor_memory_read, NULL, doctor_memory_overcommit, 0,
     "under strict accounting far memory counts as local memory, so this host's limit holds for it, too",
     "as root: sysctl vm.overcommit_memory=0 (or 1)"},
    {"memory.maps", "Memory", "mappings of a process", doctor_memory_read, NULL, doctor_memory_maps, 0,
     "each part of a program's memory with its own protection is a mapping, and a process at the limit of mappings "
     "gets ENOMEM",
     "as root: sysctl vm.max_map_count=65530"},

    {"kernel.version", "Kernel", "version", doctor_kernel_read, NULL, doctor_kernel_version, 0,
     "paging needs Linux 5.7 (write-protection); 6.8 (UFFDIO_MOVE) makes direct I/O safe",
     "a kernel of Linux 6.8 or newer (Debian 12: linux-image-amd64 of bookworm-backports)"},
    {"kernel.io_uring", "Kernel", "io_uring", doctor_kernel_read, NULL, doctor_kernel_ring, 0,
     "ublk devices and the local disk of --backup are served through io_uring", NULL},
    {"kernel.pressure", "Kernel", "memory pressure", doctor_kernel_read, NULL, doctor_kernel_pressure, 0,
     "shows how long programs of this host wait for memory; farpage works without it", NULL},
    {"kernel.ublk", "Kernel", "ublk", doctor_devices_read, NULL, doctor_devices_ublk, 0,
     "the best front end of block devices; without it farpage uses FUSE and a loop device, which is slower and lost "
     "with its daemon",
     NULL},
    {"kernel.fuse", "Kernel", "FUSE", doctor_devices_read, NULL, doctor_devices_fuse, 0,
     "where there is no ublk, a block device is a loop device over a file of FUSE", NULL},

    {"cpu.count", "Processor", "processors", doctor_cpu_read, NULL, doctor_cpu_count, 0,
     "the threads that fetch and evict share the processors with the program",
     "as root: for g in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > $g; done"},
    {"cpu.clock", "Processor", "clock", doctor_cpu_read, NULL, doctor_cpu_clock, 0,
     "deadlines, spinning and the measuring of each fault read the clock",
     "if /sys/devices/system/clocksource/clocksource0/available_clocksource has tsc or kvm-clock, echo it into "
     "current_clocksource"},
    {"cpu.seal", "Processor", "encryption", doctor_cpu_read, NULL, doctor_cpu_seal, 0,
     "with --encrypt each page is encrypted before it is sent, and decrypted when it is fetched",
     "OpenSSL 3 (Debian: apt install libssl3)"},

    {"donor.reach", "Donors", "donor", doctor_donors_read, doctor_donors_each, doctor_donors_reach, 0,
     "farpage run does not start unless every donor answers", NULL},
    {"donor.free", "Donors", "room on", doctor_donors_read, doctor_donors_each, doctor_donors_free, 0,
     "the next program can lease the free memory",
     "stop a client of it, let it lend more (--donate), or use another donor"},
    {"donor.distance", "Donors", "way to", doctor_donors_read, doctor_donors_each, doctor_donors_distance, 0,
     "each far page costs at least one round trip; the donor's program answers these messages, so pages are faster: "
     "farpage bench measures them",
     "use donors on the same switch; check that the host is not busy"},

    {"swap.rights", "Swap devices", "rights of the daemon", doctor_swap_read, NULL, doctor_swap_rights,
     FOR_CLIENTS | FOR_SWAP,
     "if the daemon is swapped out, killed for lack of memory, or has to wait for its own pages, all pages on the "
     "device are lost",
     NULL},
    {"swap.group", "Swap devices", "control group", doctor_memory_read, NULL, doctor_swap_group, FOR_CLIENTS | FOR_SWAP,
     "in a full control group the daemon waits until pages of the group are swapped out, which only the daemon can do",
     "start the daemon outside of the group (farpage-blockdev@.service does)"},
    {"swap.tools", "Swap devices", "tools", doctor_swap_read, NULL, doctor_swap_tools, FOR_CLIENTS | FOR_SWAP,
     "farpage swap on runs mkswap, which writes the signature, and swapon starts swapping", "apt install util-linux"},
    {"swap.readahead", "Swap devices", "readahead", doctor_swap_read, NULL, doctor_swap_readahead, FOR_CLIENTS,
     "with a swapped page, the kernel reads its neighbours, up to 2^vm.page-cluster pages: good for programs that use "
     "memory in order, and a waste of memory and time for others",
     "as root: sysctl vm.page-cluster=3, or 0 for access at random"},
    {"swap.reserves", "Swap devices", "reserves", doctor_swap_read, NULL, doctor_swap_reserves, FOR_CLIENTS,
     "sending pages needs memory when none is left: the kernel keeps some free for that, and kswapd must begin before "
     "programs have used it up",
     NULL},
    {"swap.space", "Swap devices", "space", doctor_donors_read, NULL, doctor_swap_space, 0,
     "a device larger than its donors' free memory is refused without --overcommit, and its daemon's own memory is "
     "locked",
     "make the device smaller, add donors, or let them lend more (--donate)"},
    {"swap.safety", "Swap devices", "swap by", doctor_swap_read, doctor_safety_each_way, doctor_safety,
     FOR_CLIENTS | FOR_SWAP,
     "the kernel swaps when memory has run out: if sending a page needs memory, it may wait until other pages are "
     "swapped out",
     NULL},
    {"swap.device", "Swap devices", "device", doctor_devices_read, doctor_devices_each_left, doctor_devices_left, 0,
     "programs that use a device without a daemon wait for ever, or get errors; swapping to a device is not safe if "
     "its daemon could not take all safety steps",
     NULL},
};
const unsigned checks_count = sizeof checks / sizeof checks[0];

struct verdict checks_judge(const struct check *check, const struct host *host)
{
	bool wanted = ((check->purpose & FOR_RDMA) && host->rdma_wanted) || ((check->purpose & FOR_SWAP) && host->swap);
	struct verdict verdict;

	if ((check->purpose & FOR_CLIENTS) && !host->client)
		return SKIP("not requested; a donor does not need it");
	verdict = check->judge(host);
	if (verdict.status == FAULT)
		verdict.status = wanted ? FAIL : WARN;
	if (verdict.mend_is_usual && check->mend && (verdict.status == WARN || verdict.status == FAIL))
		snprintf(verdict.mend, sizeof verdict.mend, "%s", check->mend);
	return verdict;
}
