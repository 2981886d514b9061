/* doctor_rdma: see doctor_rdma.h. */
#include "cli/doctor/doctor_rdma.h"
#include "cli/doctor/doctor.h"
#include "common/size.h"
#include "farpage/fabric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PAGE 4096u
#define SLAB (UINT64_C(64) << 20) /* farpage-memserver's default */
#define QUEUE_PAIRS 16            /* enough for a few donors with three connections each */
#define READS 8                   /* reads in flight on one connection; with fewer, fetches wait for each other */

static enum doctor_status severity(bool wanted)
{
	return wanted ? DOCTOR_FAIL : DOCTOR_WARN;
}

/* "soft-RoCE", "RoCE", ... */
static const char *device_kind(const struct fabric_device *device)
{
	static const char *const hard[] = {"RDMA", "InfiniBand", "RoCE", "iWARP"};
	static const char *const soft[] = {"soft RDMA", "soft InfiniBand", "soft-RoCE", "soft iWARP"};
	enum fabric_link link = device->port_count ? device->ports[0].link : FABRIC_LINK_UNKNOWN;

	return device->soft ? soft[link] : hard[link];
}

struct doctor_verdict doctor_judge_devices(const struct fabric_devices *devices, bool wanted)
{
	static const char why[] = "over rdma:// pages come and go without the donor's processors taking part; over "
				  "tcp:// they work for each page";
	struct doctor_verdict verdict;
	size_t used = 0;

	if (!devices->kernel_count && !devices->count) {
		verdict = doctor_judged(severity(wanted), why, "no RDMA device; tcp:// works without");
		doctor_mend(&verdict, "to have one in software (soft-RoCE), as root: modprobe -a rdma_rxe rdma_ucm && "
				      "rdma link add rxe0 type rxe netdev NETDEV");
		return verdict;
	}
	if (!devices->count) {
		verdict = doctor_judged(severity(wanted), why,
					"the kernel has %u, but programs can use none: there is no uverbs device",
					devices->kernel_count);
		doctor_mend(&verdict, "as root: modprobe -a ib_uverbs rdma_ucm (Debian: apt install rdma-core does it "
				      "at every boot)");
		return verdict;
	}
	verdict = doctor_judged(DOCTOR_PASS, why, "%s", "");
	for (unsigned i = 0; i < devices->count && used < sizeof verdict.found; i++)
		used += (size_t)snprintf(verdict.found + used, sizeof verdict.found - used, "%s%s (%s)", i ? ", " : "",
					 devices->devices[i].name, device_kind(&devices->devices[i]));
	return verdict;
}

struct doctor_verdict doctor_judge_cm(const struct fabric_devices *devices, bool wanted)
{
	static const char why[] = "rdma:// connections are made through /dev/infiniband/rdma_cm";
	struct doctor_verdict verdict;

	if (!devices->count)
		return doctor_judged(DOCTOR_SKIP, why, "no RDMA device");
	if (!devices->cm)
		return doctor_judged(DOCTOR_PASS, why, "/dev/infiniband/rdma_cm can be used");
	verdict = doctor_judged(severity(wanted), why, "/dev/infiniband/rdma_cm: %s", strerror(-devices->cm));
	if (devices->cm == -EACCES || devices->cm == -EPERM)
		doctor_mend(&verdict, "as root: chmod 666 /dev/infiniband/rdma_cm (the udev rules of rdma-core do); "
				      "a container must be given the device");
	else
		doctor_mend(&verdict, "as root: modprobe rdma_ucm; a container must be given /dev/infiniband");
	return verdict;
}

static struct doctor_verdict judge_state(const struct fabric_port *port, const char *why, bool wanted)
{
	static const char *const names[] = {"down", "initialising", "armed", "active"};
	struct doctor_verdict verdict = doctor_judged(severity(wanted), why, "the port is %s", names[port->state]);

	if (port->link == FABRIC_LINK_INFINIBAND && port->state != FABRIC_PORT_DOWN)
		doctor_mend(&verdict, "no subnet manager has set it up: start one (opensm) on a host or switch");
	else if (port->link == FABRIC_LINK_INFINIBAND)
		doctor_mend(&verdict, "check the cable, and the switch's port");
	else
		doctor_mend(&verdict, "as root: ip link set %s up; then check the cable, and the switch's port",
			    port->netdev[0] ? port->netdev : "NETDEV");
	return verdict;
}

struct doctor_verdict doctor_judge_port(const struct fabric_port *port, bool wanted)
{
	static const char why[] = "a connection needs an active port, and an IP address to find it by";
	static const char *const links[] = {"unknown link", "InfiniBand", "Ethernet (RoCE v2)", "iWARP"};
	const char *netdev = port->netdev[0] ? port->netdev : "NETDEV";
	struct doctor_verdict verdict;

	if (port->status)
		return doctor_judged(severity(wanted), why, "the port cannot be asked: %s", strerror(-port->status));
	if (port->state != FABRIC_PORT_ACTIVE)
		return judge_state(port, why, wanted);
	if (port->link == FABRIC_LINK_ROCE && !port->gids_ip) {
		verdict = doctor_judged(severity(wanted), why, "active, but no GID (of %u) comes from an IP address",
					port->gids);
		doctor_mend(&verdict, "as root: ip address add ADDRESS/LENGTH dev %s", netdev);
		return verdict;
	}
	if (port->link == FABRIC_LINK_ROCE)
		return doctor_judged(DOCTOR_PASS, why, "active, %s, on %s as %s%s", links[port->link], netdev,
				     port->address, port->gids_ip > 1 ? " and others" : "");
	if (port->link == FABRIC_LINK_INFINIBAND)
		return doctor_judged(DOCTOR_PASS, why,
				     "active, InfiniBand; addresses are those of its IPoIB interface");
	return doctor_judged(DOCTOR_PASS, why, "active, %s%s%s", links[port->link], port->netdev[0] ? ", on " : "",
			     port->netdev);
}

struct doctor_verdict doctor_judge_mtu(const struct fabric_port *port)
{
	static const char why[] = "a page is 4096 bytes; in several packets, each is paid for on both sides, and the "
				  "page has come only with the last";
	struct doctor_verdict verdict;

	if (port->status || !port->mtu || port->state != FABRIC_PORT_ACTIVE)
		return doctor_judged(DOCTOR_SKIP, why, "the port is not active");
	if (port->mtu >= PAGE)
		return doctor_judged(DOCTOR_PASS, why, "%u bytes: a page is one packet", port->mtu);
	verdict = doctor_judged(DOCTOR_WARN, why, "%u bytes: works, with %u packets a page", port->mtu,
				(PAGE + port->mtu - 1) / port->mtu);
	if (port->mtu_max < PAGE)
		doctor_mend(&verdict, "the device has no larger one (%u bytes)", port->mtu_max);
	else if (port->link == FABRIC_LINK_INFINIBAND)
		doctor_mend(&verdict, "raise the partition's MTU to 4096 in the subnet manager (opensm: mtu=5)");
	else
		doctor_mend(&verdict, "as root: ip link set %s mtu 9000, on both hosts; switches between must take it",
			    port->netdev[0] ? port->netdev : "NETDEV");
	return verdict;
}

static struct doctor_verdict judge_opening(const struct fabric_device *device, const char *why, bool wanted)
{
	struct doctor_verdict verdict =
	    doctor_judged(severity(wanted), why, "the device cannot be opened: %s", strerror(-device->status));

	if (device->status == -EACCES || device->status == -EPERM)
		doctor_mend(&verdict, "as root: chmod 666 /dev/infiniband/uverbs* (the udev rules of rdma-core do); "
				      "a container must be given the devices");
	else
		doctor_mend(&verdict, "is /dev/infiniband/uverbs* there, and the provider for the device installed "
				      "(Debian: ibverbs-providers)? a container must be given the devices");
	return verdict;
}

struct doctor_verdict doctor_judge_limits(const struct fabric_device *device, uint64_t donate, bool wanted)
{
	static const char why[] = "queues, regions and reads in flight are cut to what the device can";
	int depth = (int)FABRIC_CONFIG_DEFAULT.depth;
	char region[SIZE_TEXT_MAX], lend[SIZE_TEXT_MAX];
	struct doctor_verdict verdict;

	if (device->status)
		return judge_opening(device, why, wanted);
	if (donate && (device->mr_bytes < SLAB || (uint64_t)device->mrs < donate / SLAB)) {
		verdict = doctor_judged(severity(wanted), why, "%d memory regions of at most %s: too few to lend %s",
					device->mrs, size_format(device->mr_bytes, region), size_format(donate, lend));
		doctor_mend(&verdict, "lend less, or let farpage-memserver use another --slab size");
		return verdict;
	}
	if (device->qp_depth < depth || device->cqe < depth)
		return doctor_judged(DOCTOR_WARN, why, "queues of %d operations and %d completions; %d are wanted",
				     device->qp_depth, device->cqe, depth);
	if (device->reads_in < READS || device->reads_out < READS)
		return doctor_judged(DOCTOR_WARN, why,
				     "a connection can have %d reads in flight (and answer %d): others wait",
				     device->reads_out, device->reads_in);
	if (device->qps < QUEUE_PAIRS)
		return doctor_judged(DOCTOR_WARN, why, "only %d queue pairs; each donor takes three", device->qps);
	return doctor_judged(DOCTOR_PASS, why,
			     "%d queue pairs of %d operations, %d completions, %d regions, %d reads in flight",
			     device->qps, device->qp_depth, device->cqe, device->mrs, device->reads_out);
}

/* --- The checks -------------------------------------------------------------------------------------------------- */

static void add(struct doctor *doctor, const char *subject, struct doctor_verdict verdict)
{
	doctor_add(doctor, subject, &verdict);
}

void doctor_rdma_devices(struct doctor *doctor)
{
	add(doctor, NULL, doctor_judge_devices(&doctor->devices, doctor->rdma_wanted));
}

void doctor_rdma_cm(struct doctor *doctor)
{
	add(doctor, NULL, doctor_judge_cm(&doctor->devices, doctor->rdma_wanted));
}

/* Adds @judge's verdict for each port. The subject is the port's name, for example "rxe0/1". */
static void add_ports(struct doctor *doctor,
		      struct doctor_verdict (*judge)(const struct doctor *, const struct fabric_port *))
{
	char name[FABRIC_DEVICE_NAME_MAX + 16];

	for (unsigned d = 0; d < doctor->devices.count; d++) {
		const struct fabric_device *device = &doctor->devices.devices[d];

		for (unsigned p = 0; p < device->port_count; p++) {
			snprintf(name, sizeof name, "%s/%u", device->name, device->ports[p].number);
			add(doctor, name, judge(doctor, &device->ports[p]));
		}
	}
}

static struct doctor_verdict judge_port(const struct doctor *doctor, const struct fabric_port *port)
{
	return doctor_judge_port(port, doctor->rdma_wanted);
}

static struct doctor_verdict judge_mtu(const struct doctor *doctor, const struct fabric_port *port)
{
	(void)doctor;
	return doctor_judge_mtu(port);
}

void doctor_rdma_ports(struct doctor *doctor)
{
	add_ports(doctor, judge_port);
}

void doctor_rdma_mtu(struct doctor *doctor)
{
	add_ports(doctor, judge_mtu);
}

void doctor_rdma_limits(struct doctor *doctor)
{
	for (unsigned i = 0; i < doctor->devices.count; i++)
		add(doctor, doctor->devices.devices[i].name,
		    doctor_judge_limits(&doctor->devices.devices[i], doctor->donate, doctor->rdma_wanted));
}
