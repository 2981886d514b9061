/* test_doctor: what farpage doctor says about hosts that are made up. */
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_faults.h"
#include "cli/doctor/doctor_kernel.h"
#include "cli/doctor/doctor_memory.h"
#include "cli/doctor/doctor_rdma.h"
#include "tests/unit/cli/doctor_says.h"

#include <errno.h>
#include <stdint.h>

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

/* A port, device and host with nothing to complain of; tests spoil a copy. */
static const struct fabric_port good_port = {.number = 1,
					     .link = FABRIC_LINK_ROCE,
					     .state = FABRIC_PORT_ACTIVE,
					     .mtu = 4096,
					     .mtu_max = 4096,
					     .gids = 2,
					     .gids_ip = 1,
					     .address = "10.0.0.7",
					     .netdev = "eth1"};
static const struct fabric_device good_device = {.name = "mlx5_0",
						 .mr_bytes = UINT64_MAX,
						 .qps = 100000,
						 .qp_depth = 32768,
						 .cqe = 4194303,
						 .mrs = 1 << 24,
						 .reads_in = 16,
						 .reads_out = 16,
						 .port_count = 1};

static void test_devices(void)
{
	struct fabric_device devices[] = {good_device, good_device};
	struct fabric_devices host = {.kernel_count = 2, .count = 2, .devices = devices}, none = {.cm = -ENOENT};
	struct fabric_devices locked = {.kernel_count = 1, .cm = -ENOENT};

	devices[0].ports[0] = devices[1].ports[0] = good_port;
	snprintf(devices[1].name, sizeof devices[1].name, "rxe0");
	devices[1].soft = true;
	says(doctor_judge_devices(&host, true), DOCTOR_PASS, "mlx5_0 (RoCE), rxe0 (soft-RoCE)", "", "devices by kind");
	says(doctor_judge_devices(&none, false), DOCTOR_WARN, "tcp:// works", "rdma_rxe", "no device: tcp works");
	says(doctor_judge_devices(&none, true), DOCTOR_FAIL, "no RDMA device", "rdma_rxe", "unless rdma was asked for");
	says(doctor_judge_devices(&locked, false), DOCTOR_WARN, "no uverbs", "ib_uverbs", "a device without uverbs");
	says(doctor_judge_cm(&host, true), DOCTOR_PASS, "rdma_cm", "", "a connection manager");
	says(doctor_judge_cm(&none, true), DOCTOR_SKIP, "no RDMA", "", "no need of one without a device");
	host.cm = -ENOENT;
	says(doctor_judge_cm(&host, false), DOCTOR_WARN, "No such file", "modprobe rdma_ucm", "a missing module");
	host.cm = -EACCES;
	says(doctor_judge_cm(&host, true), DOCTOR_FAIL, "denied", "chmod", "a missing right");
}

static void test_many_devices(void)
{
	struct fabric_device devices[40];
	struct fabric_devices host = {.kernel_count = 40, .count = 40, .devices = devices};

	for (unsigned i = 0; i < 40; i++)
		devices[i] = good_device;
	struct doctor_verdict verdict = doctor_judge_devices(&host, true);
	ok(verdict.status == DOCTOR_PASS && strlen(verdict.found) < DOCTOR_TEXT_MAX, "more devices than fit in a line");
}

static void test_ports(void)
{
	struct fabric_port port = good_port;

	says(doctor_judge_port(&port, false), DOCTOR_PASS, "eth1 as 10.0.0.7", "", "a RoCE port");
	port.gids_ip = 0;
	says(doctor_judge_port(&port, false), DOCTOR_WARN, "no GID", "ip address add", "a port without an address");
	says(doctor_judge_port(&port, true), DOCTOR_FAIL, "no GID", "dev eth1", "which rdma:// needs");
	port.state = FABRIC_PORT_DOWN;
	says(doctor_judge_port(&port, false), DOCTOR_WARN, "down", "ip link set eth1 up", "a port that is down");
	port = good_port;
	port.link = FABRIC_LINK_INFINIBAND;
	port.gids_ip = 0;
	says(doctor_judge_port(&port, true), DOCTOR_PASS, "IPoIB", "", "InfiniBand needs no GID from IP");
	port.state = FABRIC_PORT_INIT;
	says(doctor_judge_port(&port, false), DOCTOR_WARN, "initialising", "subnet manager", "no subnet manager");
	port = good_port;
	port.link = FABRIC_LINK_IWARP;
	port.gids_ip = 0;
	says(doctor_judge_port(&port, true), DOCTOR_PASS, "iWARP, on eth1", "", "nor does iWARP");
	port.status = -EIO;
	says(doctor_judge_port(&port, false), DOCTOR_WARN, "cannot be asked", "", "a port that does not answer");
}

static void test_mtu(void)
{
	struct fabric_port port = good_port;

	says(doctor_judge_mtu(&port), DOCTOR_PASS, "one packet", "", "a page is a packet");
	port.mtu = 1024;
	says(doctor_judge_mtu(&port), DOCTOR_WARN, "4 packets a page", "ip link set eth1 mtu 9000", "or four");
	port.mtu = 2048;
	port.link = FABRIC_LINK_INFINIBAND;
	says(doctor_judge_mtu(&port), DOCTOR_WARN, "2 packets a page", "subnet manager",
	     "InfiniBand's own way to mend it");
	port.mtu_max = 2048;
	says(doctor_judge_mtu(&port), DOCTOR_WARN, "2 packets", "no larger one", "a device that has no more");
	port.state = FABRIC_PORT_DOWN;
	says(doctor_judge_mtu(&port), DOCTOR_SKIP, "not active", "", "nothing to say of a port that is down");
}

static void test_limits(void)
{
	struct fabric_device device = good_device;

	says(doctor_judge_limits(&device, 100 * GIB, true), DOCTOR_PASS, "16 reads", "", "limits that are none");
	device.mrs = 100;
	says(doctor_judge_limits(&device, 0, true), DOCTOR_PASS, "100 regions", "", "few regions do for a client");
	says(doctor_judge_limits(&device, 64 * GIB, false), DOCTOR_WARN, "too few", "lend less", "but not for a donor");
	device = good_device;
	device.qp_depth = 64;
	says(doctor_judge_limits(&device, 0, true), DOCTOR_WARN, "64 operations", "", "short queues");
	device = good_device;
	device.reads_out = 1;
	says(doctor_judge_limits(&device, 0, true), DOCTOR_WARN, "1 reads in flight", "", "one read at a time");
	device = good_device;
	device.qps = 4;
	says(doctor_judge_limits(&device, 0, true), DOCTOR_WARN, "only 4 queue pairs", "", "few queue pairs");
	device.status = -EACCES;
	says(doctor_judge_limits(&device, 0, true), DOCTOR_FAIL, "cannot be opened", "chmod", "no right to open it");
	device.status = -ENOENT;
	says(doctor_judge_limits(&device, 0, false), DOCTOR_WARN, "cannot be opened", "container", "no node for it");
}

static void test_memlock(void)
{
	struct memlock_facts facts = {.limit = 8 * MIB, .rdma = true, .client = true};

	says(doctor_judge_memlock(&facts), DOCTOR_WARN, "up to --local 64M", "ulimit",
	     "what 8M of locked memory allow");
	facts.limit = 64 * 1024;
	says(doctor_judge_memlock(&facts), DOCTOR_FAIL, "too little for any", "ulimit", "too little for any");
	facts.rdma = false;
	says(doctor_judge_memlock(&facts), DOCTOR_PASS, "nothing is pinned", "", "tcp:// needs none");
	facts.rdma = facts.capable = true;
	says(doctor_judge_memlock(&facts), DOCTOR_PASS, "CAP_IPC_LOCK", "", "nor does root");
	facts.capable = false;
	facts.limit = UINT64_MAX;
	says(doctor_judge_memlock(&facts), DOCTOR_PASS, "unlimited", "", "no limit");
	facts.client = false;
	says(doctor_judge_memlock(&facts), DOCTOR_SKIP, "not asked", "", "nor does a donor that is no client");
}

static void test_donate(void)
{
	struct memlock_facts facts = {.limit = 8 * MIB, .rdma = true};

	says(doctor_judge_donate(&facts), DOCTOR_SKIP, "--donate", "", "not to be a donor");
	facts.donate = GIB;
	says(doctor_judge_donate(&facts), DOCTOR_FAIL, "8M, less than 1G", "LimitMEMLOCK", "a donor that may not pin");
	facts.rdma = false;
	says(doctor_judge_donate(&facts), DOCTOR_WARN, "tcp://", "LimitMEMLOCK", "and need not over tcp");
	facts.limit = GIB;
	says(doctor_judge_donate(&facts), DOCTOR_PASS, "enough for 1G", "", "a limit of just that much");
	facts.limit = 0;
	facts.capable = true;
	says(doctor_judge_donate(&facts), DOCTOR_PASS, "CAP_IPC_LOCK", "", "or the right to do without");
}

static void test_memory(void)
{
	struct hugetlb_facts pool = {.page_bytes = 2 * MIB, .total = 512, .unused = 512, .donate = GIB};

	says(doctor_judge_huge("always [madvise] never"), DOCTOR_PASS, "madvise", "", "huge pages on request");
	says(doctor_judge_huge("[always] madvise never"), DOCTOR_PASS, "always", "", "always");
	says(doctor_judge_huge("always madvise [never]"), DOCTOR_WARN, "off", "echo madvise", "never");
	says(doctor_judge_huge(NULL), DOCTOR_WARN, "no transparent", "", "not in this kernel");
	says(doctor_judge_hugetlb(&pool), DOCTOR_PASS, "1G free", "", "a pool as large as what is lent");
	pool.unused = 511;
	says(doctor_judge_hugetlb(&pool), DOCTOR_WARN, "less than the 1G", "nr_hugepages=513", "one page short of it");
	pool.total = pool.unused = 0;
	says(doctor_judge_hugetlb(&pool), DOCTOR_PASS, "none set aside", "", "no pool");
	pool.page_bytes = 0;
	says(doctor_judge_hugetlb(&pool), DOCTOR_SKIP, "none", "", "no such pages");
	says(doctor_judge_overcommit(0), DOCTOR_PASS, "is 0", "", "overcommit");
	says(doctor_judge_overcommit(2), DOCTOR_WARN, "is 2", "sysctl", "strict accounting");
	says(doctor_judge_overcommit(-EACCES), DOCTOR_WARN, "denied", "", "unknown accounting");
	says(doctor_judge_maps(65530), DOCTOR_PASS, "65530", "", "mappings");
	says(doctor_judge_maps(1024), DOCTOR_WARN, "only 1024", "sysctl", "few mappings");
	says(doctor_judge_room(UINT64_MAX, 16 * GIB, 8 * GIB, 4 * GIB), DOCTOR_PASS, "8G available", "",
	     "room to lend");
	says(doctor_judge_room(2 * GIB, 16 * GIB, 8 * GIB, 4 * GIB), DOCTOR_FAIL, "allows 2G", "memory.max",
	     "a group too small");
	says(doctor_judge_room(UINT64_MAX, 16 * GIB, GIB, 4 * GIB), DOCTOR_WARN, "1G available", "lend less",
	     "a host too full");
	says(doctor_judge_room(UINT64_MAX, 16 * GIB, 8 * GIB, 17 * GIB), DOCTOR_FAIL, "has 16G", "lend less",
	     "more than the machine has");
	says(doctor_judge_room(2 * GIB, 16 * GIB, GIB, 0), DOCTOR_PASS, "allows 2G", "", "no donor: told, not judged");
}

static void test_faults(void)
{
	struct uffd_facts facts = {.moves = true, .poisons = true, .sees_forks = true, .ptrace = true};

	says(doctor_judge_right(&facts, true), DOCTOR_PASS, "CAP_SYS_PTRACE", "", "the right to userfaultfd");
	says(doctor_judge_paging(&facts, true), DOCTOR_PASS, "moved away", "", "all that paging uses");
	says(doctor_judge_forks(&facts, true), DOCTOR_PASS, "seen", "", "forks");
	facts.moves = facts.sees_forks = false;
	says(doctor_judge_paging(&facts, true), DOCTOR_FAIL, "UFFDIO_MOVE", "6.8", "a kernel without UFFDIO_MOVE");
	says(doctor_judge_forks(&facts, true), DOCTOR_WARN, "not seen", "CAP_SYS_PTRACE", "no right to see forks");
	facts.poisons = false;
	says(doctor_judge_paging(&facts, true), DOCTOR_FAIL, "; no UFFDIO_POISON", "6.8",
	     "a kernel without UFFDIO_MOVE and UFFDIO_POISON");
	facts.take = -EBUSY;
	says(doctor_judge_paging(&facts, true), DOCTOR_FAIL, "taken away: Device", "", "a trial that goes wrong");
	facts.open = facts.device = -EPERM;
	says(doctor_judge_right(&facts, true), DOCTOR_FAIL, "no right", "setfacl", "no right");
	says(doctor_judge_paging(&facts, true), DOCTOR_SKIP, "cannot be used", "", "and then no more complaints");
	says(doctor_judge_forks(&facts, true), DOCTOR_SKIP, "cannot be used", "", "of the same");
	facts.device = -ENOENT;
	says(doctor_judge_right(&facts, true), DOCTOR_FAIL, "no /dev/userfaultfd", "sysctl",
	     "no device to ask instead");
	facts.open = -ENOSYS;
	says(doctor_judge_right(&facts, true), DOCTOR_FAIL, "no userfaultfd", "CONFIG_USERFAULTFD",
	     "not in the kernel");
	facts.open = -EINVAL;
	says(doctor_judge_right(&facts, true), DOCTOR_FAIL, "does not work", "write-protection", "too old a kernel");
	says(doctor_judge_right(&facts, false), DOCTOR_SKIP, "donor", "", "a donor does without");
}

static void test_kernel(void)
{
	struct cpu_facts cpus = {.count = 8, .governor = "powersave", .driver = "intel_pstate"};

	says(doctor_judge_version("6.12.48-amd64"), DOCTOR_PASS, "6.12", "", "a new kernel");
	says(doctor_judge_version("6.8.0"), DOCTOR_PASS, "6.8", "", "just new enough");
	says(doctor_judge_version("6.1.0-18-amd64"), DOCTOR_WARN, "6.1.0", "6.8", "an older one");
	says(doctor_judge_version("5.4.0"), DOCTOR_FAIL, "5.4", "6.8", "too old");
	says(doctor_judge_version("10.0"), DOCTOR_PASS, "10.0", "", "of the future");
	says(doctor_judge_version("odd"), DOCTOR_WARN, "odd", "", "no version at all");
	says(doctor_judge_ring(0, 0), DOCTOR_PASS, "works", "", "io_uring");
	says(doctor_judge_ring(-EPERM, 2), DOCTOR_WARN, "epoll", "io_uring_disabled=0", "switched off");
	says(doctor_judge_ring(-EPERM, -ENOENT), DOCTOR_WARN, "epoll", "seccomp", "hidden by a container");
	says(doctor_judge_ring(-EINVAL, 0), DOCTOR_WARN, "epoll", "5.19", "too old for it");
	says(doctor_judge_madvise(-EINVAL), DOCTOR_PASS, "cannot", "", "process_madvise is only told of");
	says(doctor_judge_pressure(-ENOENT), DOCTOR_SKIP, "no /proc/pressure", "", "so is memory pressure");
	says(doctor_judge_cpus(&cpus), DOCTOR_PASS, "8 processors", "", "a powersave that is none");
	cpus.driver[0] = '\0';
	says(doctor_judge_cpus(&cpus), DOCTOR_WARN, "lowest frequency", "governor", "and one that is");
	cpus.count = 1;
	cpus.guest = true;
	says(doctor_judge_cpus(&cpus), DOCTOR_WARN, "one processor, of a virtual", "", "a lonely processor");
	says(doctor_judge_clock("tsc", 25), DOCTOR_PASS, "tsc, 25 ns", "", "a clock");
	says(doctor_judge_clock("hpet", 1500), DOCTOR_WARN, "hpet", "clocksource", "a slow clock");
	says(doctor_judge_clock("", 25), DOCTOR_PASS, "unknown", "", "a nameless clock");
	says(doctor_judge_seal(1080), DOCTOR_PASS, "1.1 us a page", "", "a processor that encrypts");
	says(doctor_judge_seal(25000), DOCTOR_WARN, "25.0 us a page", "", "one that does it in software");
	says(doctor_judge_seal(0), DOCTOR_WARN, "does not work", "libssl3", "none that can");
}

static void test_donors(void)
{
	struct donor_probe probe = {
	    .uri = "auto://far",
	    .peer = "rdma://10.0.0.7:7470",
	    .connect_ns = 2000000,
	    .rounds = 16,
	    .round_ns = 30000,
	    .worst_ns = 90000,
	    .capacity = {.donated = GIB, .leased = GIB / 4, .slab_bytes = 64 * MIB, .clients = 3}};

	says(doctor_judge_reach(&probe, true), DOCTOR_PASS, "as rdma://10.0.0.7", "", "a donor and its fabric");
	says(doctor_judge_free(&probe), DOCTOR_PASS, "768M free of 1G in slabs of 64M, other clients: 2", "",
	     "what it has");
	says(doctor_judge_distance(&probe), DOCTOR_PASS, "30 us (median of 16; at most 90)", "", "how far it is");
	snprintf(probe.peer, sizeof probe.peer, "tcp://10.0.0.7:7470");
	says(doctor_judge_reach(&probe, true), DOCTOR_WARN, "only", "--listen rdma://",
	     "tcp though there is RDMA here");
	says(doctor_judge_reach(&probe, false), DOCTOR_PASS, "as tcp://", "", "tcp as there is none");
	probe.capacity.leased = 2 * GIB;
	says(doctor_judge_free(&probe), DOCTOR_WARN, "nothing free", "another donor", "nothing to lend");
	probe.round_ns = 2000000;
	says(doctor_judge_distance(&probe), DOCTOR_WARN, "2000 us", "switch", "far away");
}

static void test_donor_failures(void)
{
	static const int statuses[] = {-ENODEV, -EINVAL,      -ENOENT,     -ECONNREFUSED,    -ETIMEDOUT, -EHOSTUNREACH,
				       -EPROTO, -ENETUNREACH, -ECONNRESET, -EPROTONOSUPPORT, -EMFILE,    -ENOMEM};
	struct donor_probe probe = {.uri = "rdma://far"};

	for (unsigned i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
		probe.status = statuses[i];
		struct doctor_verdict verdict = doctor_judge_reach(&probe, true);
		ok(verdict.status == DOCTOR_FAIL && *verdict.found && *verdict.mend, "%s can be mended",
		   strerror(-statuses[i]));
	}
	probe.status = -ENODEV;
	says(doctor_judge_reach(&probe, false), DOCTOR_FAIL, "this host has no RDMA device", "tcp://",
	     "rdma:// without a device");
	says(doctor_judge_reach(&probe, true), DOCTOR_FAIL, "leads to that address", "ip route get", "not by this way");
	says(doctor_judge_free(&probe), DOCTOR_SKIP, "does not answer", "",
	     "nothing more of a donor that is not there");
	says(doctor_judge_distance(&probe), DOCTOR_SKIP, "does not answer", "", "nor how far it is");
	for (unsigned reason = 1; reason < WIRE_REASON_COUNT; reason++) {
		probe.status = -EKEYREJECTED;
		probe.reason = (uint16_t)reason;
		probe.detail = 77;
		struct doctor_verdict verdict = doctor_judge_reach(&probe, true);
		ok(verdict.status == DOCTOR_FAIL && *verdict.mend && strstr(verdict.found, "refuses"), "so can \"%s\"",
		   wire_reason_name(reason));
	}
	probe.reason = WIRE_REASON_VERSION;
	says(doctor_judge_reach(&probe, true), DOCTOR_FAIL, "version 77", "same farpage", "another version is named");
}

/* What is printed, into @text. */
static void print(struct doctor *doctor, unsigned width, char *text, size_t size)
{
	FILE *file = fmemopen(text, size, "w");

	doctor_print_text(doctor, file, width, false);
	fclose(file);
}

static unsigned longest_line(const char *text)
{
	size_t longest = 0;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		if (strcspn(text, "\n") > longest)
			longest = strcspn(text, "\n");
	return (unsigned)longest;
}

static void test_print(void)
{
	static const struct doctor_check check = {"x.y", "Group", "thing", NULL};
	struct doctor doctor = {.check = &check};
	struct doctor_verdict bad = doctor_judged(DOCTOR_FAIL, "it matters for as long a reason as this one is",
						  "something that is wrong in quite a number of words");
	struct doctor_verdict skipped = doctor_judged(DOCTOR_SKIP, "", "unasked");
	char text[4096];

	doctor_mend(&bad, "do this and that");
	for (unsigned i = 0; i < 100; i++)
		doctor_add(&doctor, "of many", &bad);
	ok(doctor.count == 100 && !doctor.truncated, "as many findings as there are");
	doctor.count = 1;
	doctor_add(&doctor, NULL, &skipped);
	print(&doctor, 50, text, sizeof text);
	ok(longest_line(text) <= 50, "wrapped to the width of a terminal (%u)", longest_line(text));
	ok(strstr(text, "  fail  thing of many  something") && strstr(text, "        mend  do this and that\n"),
	   "status, what, and how to mend");
	ok(!strstr(text, "unasked") && strstr(text, "0 passed, 0 warnings, 1 failed, 1 skipped\n"),
	   "skips are only counted");
	doctor.verbose = true;
	print(&doctor, 0, text, sizeof text);
	ok(strstr(text, "in quite a number of words\n") && strstr(text, "unasked"),
	   "into a file: one line each, and all");
	free(doctor.findings);
}

int main(void)
{
	test_devices();
	test_many_devices();
	test_ports();
	test_mtu();
	test_limits();
	test_memlock();
	test_donate();
	test_memory();
	test_faults();
	test_kernel();
	test_donors();
	test_donor_failures();
	test_print();
	return tap_done();
}
