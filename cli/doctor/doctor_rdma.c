/* doctor_rdma: checks the RDMA devices that fabric_devices_read() finds, and their settings. */
#include "cli/doctor/internal.h"
#include "fabric/fabric.h"

#include <errno.h>
#include <string.h>

#define PAGE 4096u
#define SLAB (UINT64_C(64) << 20) /* farpage-memserver's default */
#define QUEUE_PAIRS 16            /* enough for a few donors with three connections each */
#define READS 8                   /* reads in flight on a connection; fewer delay fetches */

void doctor_rdma_read(struct host *host)
{
	host->rdma_error = fabric_devices_read(&host->rdma);
}

bool doctor_rdma_each_device(struct host *host, unsigned index)
{
	if (index >= host->rdma.count)
		return false;
	host->device = &host->rdma.devices[index];
	snprintf(host->subject, sizeof host->subject, "%s", host->device->name);
	return true;
}

bool doctor_rdma_each_port(struct host *host, unsigned index)
{
	for (unsigned d = 0; doctor_rdma_each_device(host, d); d++) {
		if (index < host->device->port_count) {
			host->port = &host->device->ports[index];
			snprintf(host->subject, sizeof host->subject, "%s/%u", host->device->name, host->port->number);
			return true;
		}
		index -= host->device->port_count;
	}
	return false;
}

/* "soft-RoCE", "RoCE", ... */
static const char *device_kind(const struct fabric_device *device)
{
	static const char *const hard[] = {"RDMA", "InfiniBand", "RoCE", "iWARP"};
	static const char *const soft[] = {"soft RDMA", "soft InfiniBand", "soft-RoCE", "soft iWARP"};
	enum fabric_link link = device->port_count ? device->ports[0].link : FABRIC_LINK_UNKNOWN;

	return device->soft ? soft[link] : hard[link];
}

struct verdict doctor_rdma_devices(const struct host *host)
{
	const struct fabric_devices *rdma = &host->rdma;
	char names[VERDICT_TEXT_MAX];
	size_t used = 0;

	if (host->rdma_error)
		return verdict_unread("the list of devices", host->rdma_error);
	if (!rdma->kernel_count && !rdma->count)
		return FAULT("no RDMA device; tcp:// works without");
	if (!rdma->count)
		return FAULT(
		    "the kernel has %u, but programs can use none: there is no uverbs device\n"
		    "as root: modprobe -a ib_uverbs rdma_ucm (Debian: apt install rdma-core does it at every boot)",
		    rdma->kernel_count);
	for (unsigned i = 0; i < rdma->count && used < sizeof names; i++)
		used += (size_t)snprintf(names + used, sizeof names - used, "%s%s (%s)", i ? ", " : "",
					 rdma->devices[i].name, device_kind(&rdma->devices[i]));
	return PASS("%s", names);
}

struct verdict doctor_rdma_cm(const struct host *host)
{
	int error = host->rdma.cm;

	if (!host->rdma.count)
		return SKIP("no RDMA device");
	if (!error)
		return PASS("/dev/infiniband/rdma_cm can be used");
	if (error != -EACCES && error != -EPERM)
		return FAULT("/dev/infiniband/rdma_cm: %s", strerror(-error));
	return FAULT("/dev/infiniband/rdma_cm: %s\nas root: chmod 666 /dev/infiniband/rdma_cm (the udev rules of "
		     "rdma-core do); a container must be given the device",
		     strerror(-error));
}

static const char *netdev_of(const struct fabric_port *port)
{
	return port->netdev[0] ? port->netdev : "NETDEV";
}

static struct verdict judge_state(const struct fabric_port *port)
{
	static const char *const names[] = {"down", "initialising", "armed", "active"};
	const char *mend = "no subnet manager has set it up: start one (opensm) on a host or switch";

	if (port->state == FABRIC_PORT_DOWN || port->link != FABRIC_LINK_INFINIBAND)
		mend = "check the cable, and the switch's port";
	if (port->link == FABRIC_LINK_INFINIBAND)
		return FAULT("the port is %s\n%s", names[port->state], mend);
	return FAULT("the port is %s\nas root: ip link set %s up; then %s", names[port->state], netdev_of(port), mend);
}

struct verdict doctor_rdma_port(const struct host *host)
{
	const struct fabric_port *port = host->port;

	if (port->status)
		return FAULT("the port cannot be asked: %s", strerror(-port->status));
	if (port->state != FABRIC_PORT_ACTIVE)
		return judge_state(port);
	if (port->link == FABRIC_LINK_ROCE && !port->gids_ip)
		return FAULT("active, but no GID (of %u) comes from an IP address\n"
			     "as root: ip address add ADDRESS/LENGTH dev %s",
			     port->gids, netdev_of(port));
	if (port->link == FABRIC_LINK_ROCE)
		return PASS("active, Ethernet (RoCE v2), on %s as %s%s", netdev_of(port), port->address,
			    port->gids_ip > 1 ? " and others" : "");
	if (port->link == FABRIC_LINK_INFINIBAND)
		return PASS("active, InfiniBand; addresses are those of its IPoIB interface");
	return PASS("active, %s%s%s", port->link == FABRIC_LINK_IWARP ? "iWARP" : "unknown link",
		    port->netdev[0] ? ", on " : "", port->netdev);
}

struct verdict doctor_rdma_mtu(const struct host *host)
{
	const struct fabric_port *port = host->port;
	char mend[128];

	if (port->status || !port->mtu || port->state != FABRIC_PORT_ACTIVE)
		return SKIP("the port is not active");
	if (port->mtu >= PAGE)
		return PASS("%u bytes: a page is one packet", port->mtu);
	if (port->mtu_max < PAGE)
		snprintf(mend, sizeof mend, "the device has no larger one (%u bytes)", port->mtu_max);
	else if (port->link == FABRIC_LINK_INFINIBAND)
		snprintf(mend, sizeof mend, "raise the partition's MTU to 4096 in the subnet manager (opensm: mtu=5)");
	else
		snprintf(mend, sizeof mend,
			 "as root: ip link set %s mtu 9000, on both hosts; switches between must take it",
			 netdev_of(port));
	return WARN("%u bytes: works, with %u packets a page\n%s", port->mtu, (PAGE + port->mtu - 1) / port->mtu, mend);
}

struct verdict doctor_rdma_limits(const struct host *host)
{
	const struct fabric_device *device = host->device;
	int depth = (int)FABRIC_CONFIG_DEFAULT.depth;

	if (device->status)
		return FAULT("the device cannot be opened: %s\n%s", strerror(-device->status),
			     device->status == -EACCES || device->status == -EPERM
				 ? "as root: chmod 666 /dev/infiniband/uverbs* (the udev rules of rdma-core do); a "
				   "container must be given the devices"
				 : "is /dev/infiniband/uverbs* there, and the provider for the device installed "
				   "(Debian: ibverbs-providers)? a container must be given the devices");
	if (host->donate && (device->mr_bytes < SLAB || (uint64_t)device->mrs < host->donate / SLAB))
		return FAULT("%d memory regions of at most %s: too few to lend %s\n"
			     "lend less, or let farpage-memserver use another --slab size",
			     device->mrs, SIZE(device->mr_bytes), SIZE(host->donate));
	if (device->qp_depth < depth || device->cqe < depth)
		return WARN("queues of %d operations and %d completions; %d are wanted", device->qp_depth, device->cqe,
			    depth);
	if (device->reads_in < READS || device->reads_out < READS)
		return WARN("a connection can have %d reads in flight (and answer %d): others wait", device->reads_out,
			    device->reads_in);
	if (device->qps < QUEUE_PAIRS)
		return WARN("only %d queue pairs; each donor takes three", device->qps);
	return PASS("%d queue pairs of %d operations, %d completions, %d regions, %d reads in flight", device->qps,
		    device->qp_depth, device->cqe, device->mrs, device->reads_out);
}
