/* test_doctor: the verdicts of farpage doctor on invented hosts. */
#include "tests/unit/cli/doctor_says.h"
#include "wire/wire.h"

#include <errno.h>
#include <linux/capability.h>

#define GIB (UINT64_C(1) << 30)
#define CAPABILITY(capability) (UINT64_C(1) << (capability))
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
	struct host host = {.rdma = {.kernel_count = 2, .count = 2, .devices = devices}, .rdma_wanted = true};
	struct host none = {.rdma.cm = -ENOENT}, locked = {.rdma = {.kernel_count = 1, .cm = -ENOENT}};

	devices[0].ports[0] = devices[1].ports[0] = good_port;
	snprintf(devices[1].name, sizeof devices[1].name, "rxe0");
	devices[1].soft = true;
	says("rdma.devices", &host, PASS, "mlx5_0 (RoCE), rxe0 (soft-RoCE)", "",
	     "doctor passes two devices and names their kinds");
	says("rdma.devices", &none, WARN, "tcp:// works", "rdma_rxe",
	     "doctor warns without an RDMA device and says that tcp works");
	none.rdma_wanted = true;
	says("rdma.devices", &none, FAIL, "no RDMA device", "rdma_rxe",
	     "doctor fails without an RDMA device if rdma:// was asked for");
	says("rdma.devices", &locked, WARN, "no uverbs", "ib_uverbs", "doctor warns of a device without uverbs");
	says("rdma.cm", &host, PASS, "rdma_cm", "", "doctor passes a connection manager");
	says("rdma.cm", &none, SKIP, "no RDMA", "", "doctor skips the connection manager without a device");
	host.rdma.cm = -ENOENT;
	host.rdma_wanted = false;
	says("rdma.cm", &host, WARN, "No such file", "modprobe rdma_ucm",
	     "doctor warns of a missing connection manager and names its module");
	host.rdma.cm = -EACCES;
	host.rdma_wanted = true;
	says("rdma.cm", &host, FAIL, "denied", "chmod", "doctor fails if the connection manager may not be opened");
}

static void many_devices_fit_in_a_line(void)
{
	struct fabric_device devices[40];
	struct host host = {.rdma = {.kernel_count = 40, .count = 40, .devices = devices}};

	for (unsigned i = 0; i < 40; i++)
		devices[i] = good_device;
	struct verdict verdict = doctor_rdma_devices(&host);
	ok(verdict.status == PASS && strlen(verdict.found) < VERDICT_TEXT_MAX,
	   "doctor passes 40 devices in a line that is cut off within bounds");
}

static void a_port_needs_a_state_and_an_address(void)
{
	struct fabric_port port = good_port;
	struct host host = {.port = &port};

	says("rdma.port", &host, PASS, "eth1 as 10.0.0.7", "", "doctor passes a RoCE port with an address");
	port.gids_ip = 0;
	says("rdma.port", &host, WARN, "no GID", "ip address add", "doctor warns of a RoCE port without an address");
	host.rdma_wanted = true;
	says("rdma.port", &host, FAIL, "no GID", "dev eth1",
	     "doctor fails a RoCE port without an address if rdma:// was asked for");
	port.state = FABRIC_PORT_DOWN;
	host.rdma_wanted = false;
	says("rdma.port", &host, WARN, "down", "ip link set eth1 up", "doctor warns of a port that is down");
	port = good_port;
	port.link = FABRIC_LINK_INFINIBAND;
	port.gids_ip = 0;
	host.rdma_wanted = true;
	says("rdma.port", &host, PASS, "IPoIB", "",
	     "doctor passes an InfiniBand port without a GID from an IP address");
	port.state = FABRIC_PORT_INIT;
	host.rdma_wanted = false;
	says("rdma.port", &host, WARN, "initialising", "subnet manager",
	     "doctor warns of an initialising InfiniBand port without a subnet manager");
	port = good_port;
	port.link = FABRIC_LINK_IWARP;
	port.gids_ip = 0;
	host.rdma_wanted = true;
	says("rdma.port", &host, PASS, "iWARP, on eth1", "",
	     "doctor passes an iWARP port without a GID from an IP address");
	port.status = -EIO;
	host.rdma_wanted = false;
	says("rdma.port", &host, WARN, "cannot be asked", "", "doctor warns of a port that cannot be queried");
}

static void a_page_should_fit_in_a_packet(void)
{
	struct fabric_port port = good_port;
	struct host host = {.port = &port};

	says("rdma.mtu", &host, PASS, "one packet", "", "doctor passes an MTU that holds a page in one packet");
	port.mtu = 1024;
	says("rdma.mtu", &host, WARN, "4 packets a page", "ip link set eth1 mtu 9000",
	     "doctor warns of an MTU that splits a page into four packets");
	port.mtu = 2048;
	port.link = FABRIC_LINK_INFINIBAND;
	says("rdma.mtu", &host, WARN, "2 packets a page", "subnet manager",
	     "doctor names the subnet manager as the remedy for an InfiniBand MTU");
	port.mtu_max = 2048;
	says("rdma.mtu", &host, WARN, "2 packets", "no larger one",
	     "doctor warns of a small MTU that the device cannot raise");
	port.state = FABRIC_PORT_DOWN;
	says("rdma.mtu", &host, SKIP, "not active", "", "doctor skips the MTU of a port that is down");
}

static void limits_of_a_device_are_judged(void)
{
	struct fabric_device device = good_device;
	struct host host = {.device = &device, .donate = 100 * GIB};

	host.rdma_wanted = true;
	says("rdma.limits", &host, PASS, "16 reads", "", "doctor passes a device with large limits");
	device.mrs = 100;
	host.donate = 0;
	says("rdma.limits", &host, PASS, "100 regions", "", "doctor passes 100 memory regions for a client");
	host.donate = 64 * GIB;
	host.rdma_wanted = false;
	says("rdma.limits", &host, WARN, "too few", "lend less",
	     "doctor warns of 100 memory regions for a donor of 64G");
	host.donate = 0;
	device = good_device;
	device.qp_depth = 64;
	host.rdma_wanted = true;
	says("rdma.limits", &host, WARN, "64 operations", "", "doctor warns of queues of 64 operations");
	device = good_device;
	device.reads_out = 1;
	says("rdma.limits", &host, WARN, "1 reads in flight", "", "doctor warns of one read in flight");
	device = good_device;
	device.qps = 4;
	says("rdma.limits", &host, WARN, "only 4 queue pairs", "", "doctor warns of four queue pairs");
	device.status = -EACCES;
	says("rdma.limits", &host, FAIL, "cannot be opened", "chmod", "doctor fails if the device may not be opened");
	device.status = -ENOENT;
	host.rdma_wanted = false;
	says("rdma.limits", &host, WARN, "cannot be opened", "container",
	     "doctor warns of a device without a device file");
}

static void a_client_needs_locked_memory_over_rdma(void)
{
	struct host host = {.memory.lockable = 8 * MIB, .rdma.count = 1, .client = true};

	says("memory.lock", &host, WARN, "up to --local 64M", "ulimit",
	     "doctor warns of 8M of locked memory and names the largest --local");
	host.memory.lockable = 64 * 1024;
	says("memory.lock", &host, FAIL, "too little for any", "ulimit",
	     "doctor fails 64K of locked memory for a client over RDMA");
	host.rdma.count = 0;
	says("memory.lock", &host, PASS, "nothing is pinned", "",
	     "doctor passes 64K of locked memory without an RDMA device");
	host.rdma.count = 1;
	host.capabilities = CAPABILITY(CAP_IPC_LOCK);
	says("memory.lock", &host, PASS, "CAP_IPC_LOCK", "", "doctor passes 64K of locked memory with CAP_IPC_LOCK");
	host.capabilities = 0;
	host.memory.lockable = UINT64_MAX;
	says("memory.lock", &host, PASS, "unlimited", "", "doctor passes a client with unlimited locked memory");
	host.client = false;
	says("memory.lock", &host, SKIP, "not requested", "",
	     "doctor skips the locked memory of a client on a pure donor");
}

static void a_donor_needs_locked_memory_for_what_it_lends(void)
{
	struct host host = {.memory.lockable = 8 * MIB, .rdma.count = 1};

	says("memory.donate", &host, SKIP, "--donate", "",
	     "doctor skips the locked memory of a donor without --donate");
	host.donate = GIB;
	says("memory.donate", &host, FAIL, "8M, less than 1G", "LimitMEMLOCK",
	     "doctor fails a donor over RDMA whose limit is below what it lends");
	host.rdma.count = 0;
	says("memory.donate", &host, WARN, "tcp://", "LimitMEMLOCK",
	     "doctor warns of a donor over TCP whose limit is below what it lends");
	host.memory.lockable = GIB;
	says("memory.donate", &host, PASS, "enough for 1G", "",
	     "doctor passes a donor whose limit equals what it lends");
	host.memory.lockable = 0;
	host.capabilities = CAPABILITY(CAP_IPC_LOCK);
	says("memory.donate", &host, PASS, "CAP_IPC_LOCK", "", "doctor passes a donor with CAP_IPC_LOCK");
}

static void room_set(struct host *host, uint64_t easy, uint64_t total, uint64_t available, uint64_t donate)
{
	host->memory.group_easy = easy;
	host->memory.total = total;
	host->memory.available = available;
	host->donate = donate;
}

static void memory_settings_and_room_are_judged(void)
{
	struct host host = {.donate = GIB,
			    .memory = {.hugetlb_bytes = 2 * MIB, .hugetlb_total = 512, .hugetlb_unused = 512}};

	strcpy(host.memory.huge, "always [madvise] never");
	says("memory.huge", &host, PASS, "madvise", "", "doctor passes huge pages on madvise");
	strcpy(host.memory.huge, "[always] madvise never");
	says("memory.huge", &host, PASS, "always", "", "doctor passes huge pages that are always on");
	strcpy(host.memory.huge, "always madvise [never]");
	says("memory.huge", &host, WARN, "off", "echo madvise", "doctor warns of huge pages that are switched off");
	*host.memory.huge = 0;
	says("memory.huge", &host, WARN, "no transparent", "",
	     "doctor warns of a kernel without transparent huge pages");
	says("memory.hugetlb", &host, PASS, "1G free", "",
	     "doctor passes a pool of huge pages as large as what is lent");
	host.memory.hugetlb_unused = 511;
	says("memory.hugetlb", &host, WARN, "less than the 1G", "nr_hugepages=513",
	     "doctor warns of a pool of huge pages that lacks one page, and names the size");
	host.memory.hugetlb_total = host.memory.hugetlb_unused = 0;
	says("memory.hugetlb", &host, PASS, "none set aside", "", "doctor passes a host without a pool of huge pages");
	host.memory.hugetlb_bytes = 0;
	says("memory.hugetlb", &host, SKIP, "none", "", "doctor skips the pool on a kernel without such huge pages");
	host.memory.overcommit = 0;
	says("memory.overcommit", &host, PASS, "is 0", "", "doctor passes overcommit mode 0");
	host.memory.overcommit = 2;
	says("memory.overcommit", &host, WARN, "is 2", "sysctl", "doctor warns of strict overcommit accounting");
	host.memory.overcommit = -EACCES;
	says("memory.overcommit", &host, WARN, "denied", "", "doctor warns if the overcommit mode cannot be read");
	host.memory.maps = 65530;
	says("memory.maps", &host, PASS, "65530", "", "doctor passes 65530 mappings for a process");
	host.memory.maps = 1024;
	says("memory.maps", &host, WARN, "only 1024", "sysctl", "doctor warns of 1024 mappings for a process");
	room_set(&host, UINT64_MAX, 16 * GIB, 8 * GIB, 4 * GIB);
	says("memory.room", &host, PASS, "8G available", "",
	     "doctor passes a host with enough available memory to lend");
	room_set(&host, 2 * GIB, 16 * GIB, 8 * GIB, 4 * GIB);
	says("memory.room", &host, FAIL, "allows 2G", "memory.max",
	     "doctor fails a control group smaller than what is lent");
	room_set(&host, UINT64_MAX, 16 * GIB, GIB, 4 * GIB);
	says("memory.room", &host, WARN, "1G available", "lend less",
	     "doctor warns of a host with less available memory than it lends");
	room_set(&host, UINT64_MAX, 16 * GIB, 8 * GIB, 17 * GIB);
	says("memory.room", &host, FAIL, "has 16G", "lend less",
	     "doctor fails a donor that lends more than the machine has");
	room_set(&host, 2 * GIB, 16 * GIB, GIB, 0);
	says("memory.room", &host, PASS, "allows 2G", "", "doctor passes any room for lending without --donate");
}

static void rights_and_features_of_userfaultfd_are_judged(void)
{
	struct host host = {.uffd = {.moves = true, .poisons = true, .sees_forks = true},
			    .capabilities = CAPABILITY(CAP_SYS_PTRACE),
			    .client = true};

	says("faults.right", &host, PASS, "CAP_SYS_PTRACE", "",
	     "doctor passes a client with CAP_SYS_PTRACE for userfaultfd");
	says("faults.paging", &host, PASS, "moved away", "", "doctor passes a kernel with all that paging uses");
	says("faults.forks", &host, PASS, "seen", "", "doctor passes a host where forks are seen");
	host.uffd.moves = host.uffd.sees_forks = false;
	says("faults.paging", &host, FAIL, "UFFDIO_MOVE", "6.8", "doctor fails a kernel without UFFDIO_MOVE");
	says("faults.forks", &host, WARN, "not seen", "--cap-add SYS_PTRACE",
	     "doctor warns of a client without the right to see forks");
	host.uffd.poisons = false;
	says("faults.paging", &host, FAIL, "; no UFFDIO_POISON", "6.8",
	     "doctor fails a kernel without UFFDIO_MOVE and UFFDIO_POISON");
	host.uffd.take = -EBUSY;
	says("faults.paging", &host, FAIL, "taken away: Device", "",
	     "doctor fails if its trial of taking a page away fails");
	host.uffd.open = host.uffd.device = -EPERM;
	says("faults.right", &host, FAIL, "no right", "setfacl",
	     "doctor fails a client without the right to userfaultfd");
	says("faults.paging", &host, SKIP, "cannot be used", "", "doctor skips paging without userfaultfd");
	says("faults.forks", &host, SKIP, "cannot be used", "", "doctor skips forks without userfaultfd");
	host.uffd.device = -ENOENT;
	says("faults.right", &host, FAIL, "no /dev/userfaultfd", "sysctl",
	     "doctor fails without the right and without /dev/userfaultfd");
	host.uffd.open = -ENOSYS;
	says("faults.right", &host, FAIL, "no userfaultfd", "CONFIG_USERFAULTFD",
	     "doctor fails a kernel without userfaultfd");
	host.filtered = true;
	says("faults.right", &host, FAIL, "no /dev/userfaultfd", "--device",
	     "doctor asks for a container's device if a filter hides userfaultfd");
	host.uffd.open = -EINVAL;
	says("faults.right", &host, FAIL, "does not work", "write-protection",
	     "doctor fails a kernel without write-protection");
	host.client = false;
	says("faults.right", &host, SKIP, "donor", "", "doctor skips the right to userfaultfd for a donor");
}

static void kernel_and_processors_are_judged(void)
{
	struct host host = {.cpu = {.count = 8, .governor = "powersave", .driver = "intel_pstate"}};

	strcpy(host.kernel.release, "6.12.48-amd64");
	says("kernel.version", &host, PASS, "6.12", "", "doctor passes a kernel newer than 6.8");
	strcpy(host.kernel.release, "6.8.0");
	says("kernel.version", &host, PASS, "6.8", "", "doctor passes kernel 6.8");
	strcpy(host.kernel.release, "6.1.0-18-amd64");
	says("kernel.version", &host, WARN, "6.1.0", "6.8", "doctor warns of kernel 6.1");
	strcpy(host.kernel.release, "5.4.0");
	says("kernel.version", &host, FAIL, "5.4", "6.8", "doctor fails kernel 5.4");
	strcpy(host.kernel.release, "10.0");
	says("kernel.version", &host, PASS, "10.0", "", "doctor passes kernel 10.0");
	strcpy(host.kernel.release, "odd");
	says("kernel.version", &host, WARN, "odd", "", "doctor warns of a release that is no version");
	host.kernel.ring = 0;
	host.kernel.ring_disabled = 0;
	says("kernel.io_uring", &host, PASS, "works", "", "doctor passes a working io_uring");
	host.kernel.ring = -EPERM;
	host.kernel.ring_disabled = 2;
	says("kernel.io_uring", &host, WARN, "backup", "io_uring_disabled=0",
	     "doctor warns of an io_uring that is switched off");
	host.kernel.ring = -EPERM;
	host.kernel.ring_disabled = -ENOENT;
	says("kernel.io_uring", &host, WARN, "backup", "seccomp", "doctor warns of an io_uring that is not permitted");
	host.kernel.ring = -ENOSYS;
	host.filtered = true;
	says("kernel.io_uring", &host, WARN, "backup", "seccomp", "doctor warns of an io_uring that a container hides");
	host.filtered = false;
	says("kernel.io_uring", &host, WARN, "backup", "5.19", "doctor warns of a kernel without io_uring");
	host.kernel.ring = -EINVAL;
	host.kernel.ring_disabled = 0;
	says("kernel.io_uring", &host, WARN, "backup", "5.19", "doctor warns of a kernel too old for io_uring");
	host.kernel.pressure = -ENOENT;
	says("kernel.pressure", &host, SKIP, "no /proc/pressure", "",
	     "doctor skips memory pressure on a kernel without it");
	says("cpu.count", &host, PASS, "8 processors", "", "doctor passes the powersave governor of intel_pstate");
	host.cpu.driver[0] = '\0';
	says("cpu.count", &host, WARN, "lowest frequency", "governor",
	     "doctor warns of the powersave governor of other drivers");
	host.cpu.count = 1;
	host.cpu.guest = true;
	says("cpu.count", &host, WARN, "one processor, of a virtual", "",
	     "doctor warns of a single processor of a virtual machine");
	strcpy(host.cpu.clock, "tsc");
	host.cpu.clock_ns = 25;
	says("cpu.clock", &host, PASS, "tsc, 25 ns", "", "doctor passes a fast clock");
	strcpy(host.cpu.clock, "hpet");
	host.cpu.clock_ns = 1500;
	says("cpu.clock", &host, WARN, "hpet", "clocksource", "doctor warns of a slow clock");
	strcpy(host.cpu.clock, "");
	host.cpu.clock_ns = 25;
	says("cpu.clock", &host, PASS, "unknown", "", "doctor passes a fast clock of unknown source");
	host.cpu.seal_ns = 1080;
	says("cpu.seal", &host, PASS, "1.1 us a page", "", "doctor passes a processor that encrypts a page in 1.1 us");
	host.cpu.seal_ns = 25000;
	says("cpu.seal", &host, WARN, "25.0 us a page", "",
	     "doctor warns of a processor that encrypts a page in 25 us");
	host.cpu.seal_ns = 0;
	says("cpu.seal", &host, WARN, "does not work", "libssl3", "doctor warns of a host without AES-256-GCM");
}

static void a_donor_is_judged_by_fabric_room_and_distance(void)
{
	struct probe probe = {.uri = "auto://far",
			      .peer = "rdma://10.0.0.7:7470",
			      .connect_ns = 2000000,
			      .rounds = 16,
			      .round_ns = 30000,
			      .worst_ns = 90000,
			      .figures = {.donated = GIB, .leased = GIB / 4, .slab_bytes = 64 * MIB, .clients = 2}};
	struct host host = {.donor = &probe, .rdma.count = 1};

	says("donor.reach", &host, PASS, "as rdma://10.0.0.7", "",
	     "doctor passes a donor reached over RDMA and names the address");
	says("donor.free", &host, PASS, "768M free of 1G in slabs of 64M, other clients: 2", "",
	     "doctor passes a donor with free slabs and counts the other clients");
	says("donor.distance", &host, PASS, "30 us (median of 16; at most 90)", "", "doctor passes a donor 30 us away");
	snprintf(probe.peer, sizeof probe.peer, "tcp://10.0.0.7:7470");
	says("donor.reach", &host, WARN, "only", "--listen rdma://",
	     "doctor warns of a donor reached over TCP by a host with RDMA");
	host.rdma.count = 0;
	says("donor.reach", &host, PASS, "as tcp://", "",
	     "doctor passes a donor reached over TCP by a host without RDMA");
	probe.figures.leased = 2 * GIB;
	says("donor.free", &host, WARN, "nothing free", "another donor", "doctor warns of a donor with nothing free");
	probe.round_ns = 2000000;
	says("donor.distance", &host, WARN, "2000 us", "switch", "doctor warns of a donor 2 ms away");
}

static void each_failure_of_a_donor_has_a_remedy(void)
{
	static const int statuses[] = {-ENODEV, -EINVAL,      -ENOENT,     -ECONNREFUSED,    -ETIMEDOUT, -EHOSTUNREACH,
				       -EPROTO, -ENETUNREACH, -ECONNRESET, -EPROTONOSUPPORT, -EMFILE,    -ENOMEM};
	struct probe probe = {.uri = "rdma://far"};
	struct host host = {.donor = &probe, .rdma.count = 1};

	for (unsigned i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
		probe.status = statuses[i];
		struct verdict verdict = doctor_donors_reach(&host);
		ok(verdict.status == FAIL && *verdict.found && *verdict.mend,
		   "doctor fails a donor with the error \"%s\" and names a remedy", strerror(-statuses[i]));
	}
	probe.status = -ENODEV;
	host.rdma.count = 0;
	says("donor.reach", &host, FAIL, "this host has no RDMA device", "tcp://",
	     "doctor fails rdma:// without an RDMA device");
	host.rdma.count = 1;
	says("donor.reach", &host, FAIL, "leads to that address", "ip route get",
	     "doctor fails rdma:// if no device leads to the address");
	says("donor.free", &host, SKIP, "does not answer", "", "doctor skips the room of a donor that does not answer");
	says("donor.distance", &host, SKIP, "does not answer", "",
	     "doctor skips the distance of a donor that does not answer");
	for (unsigned reason = 1; reason < WIRE_REASON_COUNT; reason++) {
		probe.status = -EKEYREJECTED;
		probe.refusal.reason = (uint16_t)reason;
		probe.refusal.detail = 77;
		struct verdict verdict = doctor_donors_reach(&host);
		ok(verdict.status == FAIL && *verdict.mend && strstr(verdict.found, "refuses"),
		   "doctor fails a donor's refusal \"%s\" and names a remedy", wire_reason_name(reason));
	}
	probe.refusal.reason = WIRE_REASON_VERSION;
	says("donor.reach", &host, FAIL, "version 77", "same farpage",
	     "doctor fails a donor of another protocol version and names the version");
}

/* Prints the findings into @text. */
static void print(struct report *report, unsigned width, char *text, size_t size)
{
	FILE *file = fmemopen(text, size, "w");

	doctor_print_text(report, file, width, false);
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

static void each_check_has_an_id_of_its_own_and_a_reason(void)
{
	unsigned same = 0, bare = 0;

	for (unsigned i = 0; i < checks_count; i++) {
		for (unsigned j = 0; j < i; j++)
			same += strcmp(checks[i].id, checks[j].id) == 0;
		bare += !checks[i].judge || !checks[i].read || !*checks[i].why;
	}
	ok(checks_count && !same, "each check has an id of its own");
	ok(!bare, "each check has facts, a judgement and a reason why it matters");
}

static void a_report_is_wrapped_and_counts_skips(void)
{
	static const struct check check = {
	    .group = "Group", .title = "thing", .why = "it matters for as long a reason as this one is"};
	struct verdict bad = verdict_of(FAIL, "something that is wrong in quite a number of words\ndo this and that");
	struct verdict skipped = verdict_of(SKIP, "unasked");
	struct report report = {0};
	char text[4096];

	for (unsigned i = 0; i < 100; i++)
		doctor_print_add(&report, &check, "of many", &bad);
	ok(report.count == 100 && !report.truncated, "doctor keeps 100 findings");
	report.count = 1;
	doctor_print_add(&report, &check, "", &skipped);
	print(&report, 50, text, sizeof text);
	ok(longest_line(text) <= 50, "the report is wrapped to the width of a terminal (%u)", longest_line(text));
	ok(strstr(text, "  fail  thing of many  something") && strstr(text, "        mend  do this and that\n"),
	   "a line of the report has status and finding, the next the remedy");
	ok(!strstr(text, "unasked") && strstr(text, "0 passed, 0 warnings, 1 failed, 1 skipped\n"),
	   "the report counts skipped checks without listing them");
	report.verbose = true;
	print(&report, 0, text, sizeof text);
	ok(strstr(text, "in quite a number of words\n") && strstr(text, "unasked"),
	   "a verbose report to a file has each finding on one line, skipped ones too");
	free(report.findings);
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
	each_check_has_an_id_of_its_own_and_a_reason();
	a_report_is_wrapped_and_counts_skips();
	return tap_done();
}
