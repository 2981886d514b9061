/* test_doctor: the verdicts of farpage doctor on invented hosts. */
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

/* A port and a device without faults. Tests spoil a copy. */
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

static void rdma_devices_and_their_manager_are_judged(void)
{
	struct fabric_device devices[] = {good_device, good_device};
	struct fabric_devices host = {.kernel_count = 2, .count = 2, .devices = devices}, none = {.cm = -ENOENT};
	struct fabric_devices locked = {.kernel_count = 1, .cm = -ENOENT};

	devices[0].ports[0] = devices[1].ports[0] = good_port;
	snprintf(devices[1].name, sizeof devices[1].name, "rxe0");
	devices[1].soft = true;
	says(doctor_judge_devices(&host, true), DOCTOR_PASS, "mlx5_0 (RoCE), rxe0 (soft-RoCE)", "",
	     "doctor passes two devices and names their kinds");
	says(doctor_judge_devices(&none, false), DOCTOR_WARN, "tcp:// works", "rdma_rxe",
	     "doctor warns without an RDMA device and says that tcp works");
	says(doctor_judge_devices(&none, true), DOCTOR_FAIL, "no RDMA device", "rdma_rxe",
	     "doctor fails without an RDMA device if rdma:// was asked for");
	says(doctor_judge_devices(&locked, false), DOCTOR_WARN, "no uverbs", "ib_uverbs",
	     "doctor warns of a device without uverbs");
	says(doctor_judge_cm(&host, true), DOCTOR_PASS, "rdma_cm", "", "doctor passes a connection manager");
	says(doctor_judge_cm(&none, true), DOCTOR_SKIP, "no RDMA", "",
	     "doctor skips the connection manager without a device");
	host.cm = -ENOENT;
	says(doctor_judge_cm(&host, false), DOCTOR_WARN, "No such file", "modprobe rdma_ucm",
	     "doctor warns of a missing connection manager and names its module");
	host.cm = -EACCES;
	says(doctor_judge_cm(&host, true), DOCTOR_FAIL, "denied", "chmod",
	     "doctor fails if the connection manager may not be opened");
}

static void many_devices_fit_in_a_line(void)
{
	struct fabric_device devices[40];
	struct fabric_devices host = {.kernel_count = 40, .count = 40, .devices = devices};

	for (unsigned i = 0; i < 40; i++)
		devices[i] = good_device;
	struct doctor_verdict verdict = doctor_judge_devices(&host, true);
	ok(verdict.status == DOCTOR_PASS && strlen(verdict.found) < DOCTOR_TEXT_MAX,
	   "doctor passes 40 devices in a line that is cut off within bounds");
}

static void a_port_needs_a_state_and_an_address(void)
{
	struct fabric_port port = good_port;

	says(doctor_judge_port(&port, false), DOCTOR_PASS, "eth1 as 10.0.0.7", "",
	     "doctor passes a RoCE port with an address");
	port.gids_ip = 0;
	says(doctor_judge_port(&port, false), DOCTOR_WARN, "no GID", "ip address add",
	     "doctor warns of a RoCE port without an address");
	says(doctor_judge_port(&port, true), DOCTOR_FAIL, "no GID", "dev eth1",
	     "doctor fails a RoCE port without an address if rdma:// was asked for");
	port.state = FABRIC_PORT_DOWN;
	says(doctor_judge_port(&port, false), DOCTOR_WARN, "down", "ip link set eth1 up",
	     "doctor warns of a port that is down");
	port = good_port;
	port.link = FABRIC_LINK_INFINIBAND;
	port.gids_ip = 0;
	says(doctor_judge_port(&port, true), DOCTOR_PASS, "IPoIB", "",
	     "doctor passes an InfiniBand port without a GID from an IP address");
	port.state = FABRIC_PORT_INIT;
	says(doctor_judge_port(&port, false), DOCTOR_WARN, "initialising", "subnet manager",
	     "doctor warns of an initialising InfiniBand port without a subnet manager");
	port = good_port;
	port.link = FABRIC_LINK_IWARP;
	port.gids_ip = 0;
	says(doctor_judge_port(&port, true), DOCTOR_PASS, "iWARP, on eth1", "",
	     "doctor passes an iWARP port without a GID from an IP address");
	port.status = -EIO;
	says(doctor_judge_port(&port, false), DOCTOR_WARN, "cannot be asked", "",
	     "doctor warns of a port that cannot be queried");
}

static void a_page_should_fit_in_a_packet(void)
{
	struct fabric_port port = good_port;

	says(doctor_judge_mtu(&port), DOCTOR_PASS, "one packet", "",
	     "doctor passes an MTU that holds a page in one packet");
	port.mtu = 1024;
	says(doctor_judge_mtu(&port), DOCTOR_WARN, "4 packets a page", "ip link set eth1 mtu 9000",
	     "doctor warns of an MTU that splits a page into four packets");
	port.mtu = 2048;
	port.link = FABRIC_LINK_INFINIBAND;
	says(doctor_judge_mtu(&port), DOCTOR_WARN, "2 packets a page", "subnet manager",
	     "doctor names the subnet manager as the remedy for an InfiniBand MTU");
	port.mtu_max = 2048;
	says(doctor_judge_mtu(&port), DOCTOR_WARN, "2 packets", "no larger one",
	     "doctor warns of a small MTU that the device cannot raise");
	port.state = FABRIC_PORT_DOWN;
	says(doctor_judge_mtu(&port), DOCTOR_SKIP, "not active", "", "doctor skips the MTU of a port that is down");
}

static void limits_of_a_device_are_judged(void)
{
	struct fabric_device device = good_device;

	says(doctor_judge_limits(&device, 100 * GIB, true), DOCTOR_PASS, "16 reads", "",
	     "doctor passes a device with large limits");
	device.mrs = 100;
	says(doctor_judge_limits(&device, 0, true), DOCTOR_PASS, "100 regions", "",
	     "doctor passes 100 memory regions for a client");
	says(doctor_judge_limits(&device, 64 * GIB, false), DOCTOR_WARN, "too few", "lend less",
	     "doctor warns of 100 memory regions for a donor of 64G");
	device = good_device;
	device.qp_depth = 64;
	says(doctor_judge_limits(&device, 0, true), DOCTOR_WARN, "64 operations", "",
	     "doctor warns of queues of 64 operations");
	device = good_device;
	device.reads_out = 1;
	says(doctor_judge_limits(&device, 0, true), DOCTOR_WARN, "1 reads in flight", "",
	     "doctor warns of one read in flight");
	device = good_device;
	device.qps = 4;
	says(doctor_judge_limits(&device, 0, true), DOCTOR_WARN, "only 4 queue pairs", "",
	     "doctor warns of four queue pairs");
	device.status = -EACCES;
	says(doctor_judge_limits(&device, 0, true), DOCTOR_FAIL, "cannot be opened", "chmod",
	     "doctor fails if the device may not be opened");
	device.status = -ENOENT;
	says(doctor_judge_limits(&device, 0, false), DOCTOR_WARN, "cannot be opened", "container",
	     "doctor warns of a device without a device file");
}

static void a_client_needs_locked_memory_over_rdma(void)
{
	struct memlock_facts facts = {.limit = 8 * MIB, .rdma = true, .client = true};

	says(doctor_judge_memlock(&facts), DOCTOR_WARN, "up to --local 64M", "ulimit",
	     "doctor warns of 8M of locked memory and names the largest --local");
	facts.limit = 64 * 1024;
	says(doctor_judge_memlock(&facts), DOCTOR_FAIL, "too little for any", "ulimit",
	     "doctor fails 64K of locked memory for a client over RDMA");
	facts.rdma = false;
	says(doctor_judge_memlock(&facts), DOCTOR_PASS, "nothing is pinned", "",
	     "doctor passes 64K of locked memory without an RDMA device");
	facts.rdma = facts.capable = true;
	says(doctor_judge_memlock(&facts), DOCTOR_PASS, "CAP_IPC_LOCK", "",
	     "doctor passes 64K of locked memory with CAP_IPC_LOCK");
	facts.capable = false;
	facts.limit = UINT64_MAX;
	says(doctor_judge_memlock(&facts), DOCTOR_PASS, "unlimited", "",
	     "doctor passes a client with unlimited locked memory");
	facts.client = false;
	says(doctor_judge_memlock(&facts), DOCTOR_SKIP, "not asked", "",
	     "doctor skips the locked memory of a client on a pure donor");
}

static void a_donor_needs_locked_memory_for_what_it_lends(void)
{
	struct memlock_facts facts = {.limit = 8 * MIB, .rdma = true};

	says(doctor_judge_donate(&facts), DOCTOR_SKIP, "--donate", "",
	     "doctor skips the locked memory of a donor without --donate");
	facts.donate = GIB;
	says(doctor_judge_donate(&facts), DOCTOR_FAIL, "8M, less than 1G", "LimitMEMLOCK",
	     "doctor fails a donor over RDMA whose limit is below what it lends");
	facts.rdma = false;
	says(doctor_judge_donate(&facts), DOCTOR_WARN, "tcp://", "LimitMEMLOCK",
	     "doctor warns of a donor over TCP whose limit is below what it lends");
	facts.limit = GIB;
	says(doctor_judge_donate(&facts), DOCTOR_PASS, "enough for 1G", "",
	     "doctor passes a donor whose limit equals what it lends");
	facts.limit = 0;
	facts.capable = true;
	says(doctor_judge_donate(&facts), DOCTOR_PASS, "CAP_IPC_LOCK", "", "doctor passes a donor with CAP_IPC_LOCK");
}

static void memory_settings_and_room_are_judged(void)
{
	struct hugetlb_facts pool = {.page_bytes = 2 * MIB, .total = 512, .unused = 512, .donate = GIB};

	says(doctor_judge_huge("always [madvise] never"), DOCTOR_PASS, "madvise", "",
	     "doctor passes huge pages on madvise");
	says(doctor_judge_huge("[always] madvise never"), DOCTOR_PASS, "always", "",
	     "doctor passes huge pages that are always on");
	says(doctor_judge_huge("always madvise [never]"), DOCTOR_WARN, "off", "echo madvise",
	     "doctor warns of huge pages that are switched off");
	says(doctor_judge_huge(NULL), DOCTOR_WARN, "no transparent", "",
	     "doctor warns of a kernel without transparent huge pages");
	says(doctor_judge_hugetlb(&pool), DOCTOR_PASS, "1G free", "",
	     "doctor passes a pool of huge pages as large as what is lent");
	pool.unused = 511;
	says(doctor_judge_hugetlb(&pool), DOCTOR_WARN, "less than the 1G", "nr_hugepages=513",
	     "doctor warns of a pool of huge pages that lacks one page, and names the size");
	pool.total = pool.unused = 0;
	says(doctor_judge_hugetlb(&pool), DOCTOR_PASS, "none set aside", "",
	     "doctor passes a host without a pool of huge pages");
	pool.page_bytes = 0;
	says(doctor_judge_hugetlb(&pool), DOCTOR_SKIP, "none", "",
	     "doctor skips the pool on a kernel without such huge pages");
	says(doctor_judge_overcommit(0), DOCTOR_PASS, "is 0", "", "doctor passes overcommit mode 0");
	says(doctor_judge_overcommit(2), DOCTOR_WARN, "is 2", "sysctl", "doctor warns of strict overcommit accounting");
	says(doctor_judge_overcommit(-EACCES), DOCTOR_WARN, "denied", "",
	     "doctor warns if the overcommit mode cannot be read");
	says(doctor_judge_maps(65530), DOCTOR_PASS, "65530", "", "doctor passes 65530 mappings for a process");
	says(doctor_judge_maps(1024), DOCTOR_WARN, "only 1024", "sysctl",
	     "doctor warns of 1024 mappings for a process");
	says(doctor_judge_room(UINT64_MAX, 16 * GIB, 8 * GIB, 4 * GIB), DOCTOR_PASS, "8G available", "",
	     "doctor passes a host with enough available memory to lend");
	says(doctor_judge_room(2 * GIB, 16 * GIB, 8 * GIB, 4 * GIB), DOCTOR_FAIL, "allows 2G", "memory.max",
	     "doctor fails a control group smaller than what is lent");
	says(doctor_judge_room(UINT64_MAX, 16 * GIB, GIB, 4 * GIB), DOCTOR_WARN, "1G available", "lend less",
	     "doctor warns of a host with less available memory than it lends");
	says(doctor_judge_room(UINT64_MAX, 16 * GIB, 8 * GIB, 17 * GIB), DOCTOR_FAIL, "has 16G", "lend less",
	     "doctor fails a donor that lends more than the machine has");
	says(doctor_judge_room(2 * GIB, 16 * GIB, GIB, 0), DOCTOR_PASS, "allows 2G", "",
	     "doctor passes any room for lending without --donate");
}

static void rights_and_features_of_userfaultfd_are_judged(void)
{
	struct uffd_facts facts = {.moves = true, .poisons = true, .sees_forks = true, .ptrace = true};

	says(doctor_judge_right(&facts, true), DOCTOR_PASS, "CAP_SYS_PTRACE", "",
	     "doctor passes a client with CAP_SYS_PTRACE for userfaultfd");
	says(doctor_judge_paging(&facts, true), DOCTOR_PASS, "moved away", "",
	     "doctor passes a kernel with all that paging uses");
	says(doctor_judge_forks(&facts, true), DOCTOR_PASS, "seen", "", "doctor passes a host where forks are seen");
	facts.moves = facts.sees_forks = false;
	says(doctor_judge_paging(&facts, true), DOCTOR_FAIL, "UFFDIO_MOVE", "6.8",
	     "doctor fails a kernel without UFFDIO_MOVE");
	says(doctor_judge_forks(&facts, true), DOCTOR_WARN, "not seen", "CAP_SYS_PTRACE",
	     "doctor warns of a client without the right to see forks");
	facts.poisons = false;
	says(doctor_judge_paging(&facts, true), DOCTOR_FAIL, "; no UFFDIO_POISON", "6.8",
	     "doctor fails a kernel without UFFDIO_MOVE and UFFDIO_POISON");
	facts.take = -EBUSY;
	says(doctor_judge_paging(&facts, true), DOCTOR_FAIL, "taken away: Device", "",
	     "doctor fails if its trial of taking a page away fails");
	facts.open = facts.device = -EPERM;
	says(doctor_judge_right(&facts, true), DOCTOR_FAIL, "no right", "setfacl",
	     "doctor fails a client without the right to userfaultfd");
	says(doctor_judge_paging(&facts, true), DOCTOR_SKIP, "cannot be used", "",
	     "doctor skips paging without userfaultfd");
	says(doctor_judge_forks(&facts, true), DOCTOR_SKIP, "cannot be used", "",
	     "doctor skips forks without userfaultfd");
	facts.device = -ENOENT;
	says(doctor_judge_right(&facts, true), DOCTOR_FAIL, "no /dev/userfaultfd", "sysctl",
	     "doctor fails without the right and without /dev/userfaultfd");
	facts.open = -ENOSYS;
	says(doctor_judge_right(&facts, true), DOCTOR_FAIL, "no userfaultfd", "CONFIG_USERFAULTFD",
	     "doctor fails a kernel without userfaultfd");
	facts.open = -EINVAL;
	says(doctor_judge_right(&facts, true), DOCTOR_FAIL, "does not work", "write-protection",
	     "doctor fails a kernel without write-protection");
	says(doctor_judge_right(&facts, false), DOCTOR_SKIP, "donor", "",
	     "doctor skips the right to userfaultfd for a donor");
}

static void kernel_and_processors_are_judged(void)
{
	struct cpu_facts cpus = {.count = 8, .governor = "powersave", .driver = "intel_pstate"};

	says(doctor_judge_version("6.12.48-amd64"), DOCTOR_PASS, "6.12", "", "doctor passes a kernel newer than 6.8");
	says(doctor_judge_version("6.8.0"), DOCTOR_PASS, "6.8", "", "doctor passes kernel 6.8");
	says(doctor_judge_version("6.1.0-18-amd64"), DOCTOR_WARN, "6.1.0", "6.8", "doctor warns of kernel 6.1");
	says(doctor_judge_version("5.4.0"), DOCTOR_FAIL, "5.4", "6.8", "doctor fails kernel 5.4");
	says(doctor_judge_version("10.0"), DOCTOR_PASS, "10.0", "", "doctor passes kernel 10.0");
	says(doctor_judge_version("odd"), DOCTOR_WARN, "odd", "", "doctor warns of a release that is no version");
	says(doctor_judge_ring(0, 0), DOCTOR_PASS, "works", "", "doctor passes a working io_uring");
	says(doctor_judge_ring(-EPERM, 2), DOCTOR_WARN, "epoll", "io_uring_disabled=0",
	     "doctor warns of an io_uring that is switched off");
	says(doctor_judge_ring(-EPERM, -ENOENT), DOCTOR_WARN, "epoll", "seccomp",
	     "doctor warns of an io_uring that a container hides");
	says(doctor_judge_ring(-EINVAL, 0), DOCTOR_WARN, "epoll", "5.19",
	     "doctor warns of a kernel too old for io_uring");
	says(doctor_judge_madvise(-EINVAL), DOCTOR_PASS, "cannot", "",
	     "doctor passes a host without process_madvise()");
	says(doctor_judge_pressure(-ENOENT), DOCTOR_SKIP, "no /proc/pressure", "",
	     "doctor skips memory pressure on a kernel without it");
	says(doctor_judge_cpus(&cpus), DOCTOR_PASS, "8 processors", "",
	     "doctor passes the powersave governor of intel_pstate");
	cpus.driver[0] = '\0';
	says(doctor_judge_cpus(&cpus), DOCTOR_WARN, "lowest frequency", "governor",
	     "doctor warns of the powersave governor of other drivers");
	cpus.count = 1;
	cpus.guest = true;
	says(doctor_judge_cpus(&cpus), DOCTOR_WARN, "one processor, of a virtual", "",
	     "doctor warns of a single processor of a virtual machine");
	says(doctor_judge_clock("tsc", 25), DOCTOR_PASS, "tsc, 25 ns", "", "doctor passes a fast clock");
	says(doctor_judge_clock("hpet", 1500), DOCTOR_WARN, "hpet", "clocksource", "doctor warns of a slow clock");
	says(doctor_judge_clock("", 25), DOCTOR_PASS, "unknown", "", "doctor passes a fast clock of unknown source");
	says(doctor_judge_seal(1080), DOCTOR_PASS, "1.1 us a page", "",
	     "doctor passes a processor that encrypts a page in 1.1 us");
	says(doctor_judge_seal(25000), DOCTOR_WARN, "25.0 us a page", "",
	     "doctor warns of a processor that encrypts a page in 25 us");
	says(doctor_judge_seal(0), DOCTOR_WARN, "does not work", "libssl3",
	     "doctor warns of a host without AES-256-GCM");
}

static void a_donor_is_judged_by_fabric_room_and_distance(void)
{
	struct donor_probe probe = {
	    .uri = "auto://far",
	    .peer = "rdma://10.0.0.7:7470",
	    .connect_ns = 2000000,
	    .rounds = 16,
	    .round_ns = 30000,
	    .worst_ns = 90000,
	    .capacity = {.donated = GIB, .leased = GIB / 4, .slab_bytes = 64 * MIB, .clients = 3}};

	says(doctor_judge_reach(&probe, true), DOCTOR_PASS, "as rdma://10.0.0.7", "",
	     "doctor passes a donor reached over RDMA and names the address");
	says(doctor_judge_free(&probe), DOCTOR_PASS, "768M free of 1G in slabs of 64M, other clients: 2", "",
	     "doctor passes a donor with free slabs and counts the other clients");
	says(doctor_judge_distance(&probe), DOCTOR_PASS, "30 us (median of 16; at most 90)", "",
	     "doctor passes a donor 30 us away");
	snprintf(probe.peer, sizeof probe.peer, "tcp://10.0.0.7:7470");
	says(doctor_judge_reach(&probe, true), DOCTOR_WARN, "only", "--listen rdma://",
	     "doctor warns of a donor reached over TCP by a host with RDMA");
	says(doctor_judge_reach(&probe, false), DOCTOR_PASS, "as tcp://", "",
	     "doctor passes a donor reached over TCP by a host without RDMA");
	probe.capacity.leased = 2 * GIB;
	says(doctor_judge_free(&probe), DOCTOR_WARN, "nothing free", "another donor",
	     "doctor warns of a donor with nothing free");
	probe.round_ns = 2000000;
	says(doctor_judge_distance(&probe), DOCTOR_WARN, "2000 us", "switch", "doctor warns of a donor 2 ms away");
}

static void each_failure_of_a_donor_has_a_remedy(void)
{
	static const int statuses[] = {-ENODEV, -EINVAL,      -ENOENT,     -ECONNREFUSED,    -ETIMEDOUT, -EHOSTUNREACH,
				       -EPROTO, -ENETUNREACH, -ECONNRESET, -EPROTONOSUPPORT, -EMFILE,    -ENOMEM};
	struct donor_probe probe = {.uri = "rdma://far"};

	for (unsigned i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
		probe.status = statuses[i];
		struct doctor_verdict verdict = doctor_judge_reach(&probe, true);
		ok(verdict.status == DOCTOR_FAIL && *verdict.found && *verdict.mend,
		   "doctor fails a donor with the error \"%s\" and names a remedy", strerror(-statuses[i]));
	}
	probe.status = -ENODEV;
	says(doctor_judge_reach(&probe, false), DOCTOR_FAIL, "this host has no RDMA device", "tcp://",
	     "doctor fails rdma:// without an RDMA device");
	says(doctor_judge_reach(&probe, true), DOCTOR_FAIL, "leads to that address", "ip route get",
	     "doctor fails rdma:// if no device leads to the address");
	says(doctor_judge_free(&probe), DOCTOR_SKIP, "does not answer", "",
	     "doctor skips the room of a donor that does not answer");
	says(doctor_judge_distance(&probe), DOCTOR_SKIP, "does not answer", "",
	     "doctor skips the distance of a donor that does not answer");
	for (unsigned reason = 1; reason < WIRE_REASON_COUNT; reason++) {
		probe.status = -EKEYREJECTED;
		probe.reason = (uint16_t)reason;
		probe.detail = 77;
		struct doctor_verdict verdict = doctor_judge_reach(&probe, true);
		ok(verdict.status == DOCTOR_FAIL && *verdict.mend && strstr(verdict.found, "refuses"),
		   "doctor fails a donor's refusal \"%s\" and names a remedy", wire_reason_name(reason));
	}
	probe.reason = WIRE_REASON_VERSION;
	says(doctor_judge_reach(&probe, true), DOCTOR_FAIL, "version 77", "same farpage",
	     "doctor fails a donor of another protocol version and names the version");
}

/* Prints the findings into @text. */
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

static void a_report_is_wrapped_and_counts_skips(void)
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
	ok(doctor.count == 100 && !doctor.truncated, "doctor keeps 100 findings");
	doctor.count = 1;
	doctor_add(&doctor, NULL, &skipped);
	print(&doctor, 50, text, sizeof text);
	ok(longest_line(text) <= 50, "the report is wrapped to the width of a terminal (%u)", longest_line(text));
	ok(strstr(text, "  fail  thing of many  something") && strstr(text, "        mend  do this and that\n"),
	   "a line of the report has status and finding, the next the remedy");
	ok(!strstr(text, "unasked") && strstr(text, "0 passed, 0 warnings, 1 failed, 1 skipped\n"),
	   "the report counts skipped checks without listing them");
	doctor.verbose = true;
	print(&doctor, 0, text, sizeof text);
	ok(strstr(text, "in quite a number of words\n") && strstr(text, "unasked"),
	   "a verbose report to a file has each finding on one line, skipped ones too");
	free(doctor.findings);
}

int main(void)
{
	rdma_devices_and_their_manager_are_judged();
	many_devices_fit_in_a_line();
	a_port_needs_a_state_and_an_address();
	a_page_should_fit_in_a_packet();
	limits_of_a_device_are_judged();
	a_client_needs_locked_memory_over_rdma();
	a_donor_needs_locked_memory_for_what_it_lends();
	memory_settings_and_room_are_judged();
	rights_and_features_of_userfaultfd_are_judged();
	kernel_and_processors_are_judged();
	a_donor_is_judged_by_fabric_room_and_distance();
	each_failure_of_a_donor_has_a_remedy();
	a_report_is_wrapped_and_counts_skips();
	return tap_done();
}
