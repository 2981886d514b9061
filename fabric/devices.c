/*
 * devices: see devices.h.
 *
 * Theory of operation. libibverbs lists the devices that programs can use. /sys/class/infiniband lists all devices of
 * the kernel, also devices that programs cannot use, for example because the module ib_uverbs is missing.
 * fabric_devices_read() opens, queries and closes each device of libibverbs. A device that the kernel emulates has no
 * hardware, so its directory in sysfs has no link "device".
 */
#include "fabric/devices.h"

#include "common/format.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSFS_DEVICES "/sys/class/infiniband"
#define GIDS_MAX 1024

static unsigned kernel_count(void)
{
	DIR *folder = opendir(SYSFS_DEVICES);
	unsigned count = 0;

	if (!folder)
		return 0;
	for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

static int node_status(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static bool device_is_soft(const char *name)
{
	char path[PATH_MAX];

	format_text(path, sizeof path, SYSFS_DEVICES "/%s/device", name);
	return access(path, F_OK) != 0;
}

static enum fabric_link port_link(const struct ibv_device *device, const struct ibv_port_attr *attributes)
{
	if (device->transport_type == IBV_TRANSPORT_IWARP)
		return FABRIC_LINK_IWARP;
	if (attributes->link_layer == IBV_LINK_LAYER_ETHERNET)
		return FABRIC_LINK_ROCE;
	/* Drivers older than RoCE leave the link layer unspecified: their devices are InfiniBand devices. */
	if (attributes->link_layer == IBV_LINK_LAYER_INFINIBAND || attributes->link_layer == IBV_LINK_LAYER_UNSPECIFIED)
		return FABRIC_LINK_INFINIBAND;
	return FABRIC_LINK_UNKNOWN;
}

static enum fabric_port_state port_state(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_INIT:
		return FABRIC_PORT_INIT;
	case IBV_PORT_ARMED:
		return FABRIC_PORT_ARMED;
	case IBV_PORT_ACTIVE:
	case IBV_PORT_ACTIVE_DEFER:
		return FABRIC_PORT_ACTIVE;
	default:
		return FABRIC_PORT_DOWN;
	}
}

static unsigned mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static void gid_count(const struct ibv_gid_entry *entry, struct fabric_port *port)
{
	struct in6_addr address;

	if (entry->port_num != port->number)
		return;
	port->gids++;
	if (entry->ndev_ifindex && !port->netdev[0] && !if_indextoname(entry->ndev_ifindex, port->netdev))
		port->netdev[0] = '\0';
	memcpy(&address, entry->gid.raw, sizeof address);
	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2 || IN6_IS_ADDR_LINKLOCAL(&address))
		return;
	if (port->gids_ip++ > 0)
		return;
	if (IN6_IS_ADDR_V4MAPPED(&address))
		inet_ntop(AF_INET, &address.s6_addr[12], port->address, sizeof port->address);
	else
		inet_ntop(AF_INET6, &address, port->address, sizeof port->address);
}

static void gids_read(struct ibv_context *context, struct fabric_device *device)
{
	struct ibv_gid_entry *entries = calloc(GIDS_MAX, sizeof *entries);
	ssize_t count = entries ? ibv_query_gid_table(context, entries, GIDS_MAX, 0) : 0;

	for (ssize_t i = 0; i < count; i++)
		for (unsigned p = 0; p < device->port_count; p++)
			gid_count(&entries[i], &device->ports[p]);
	free(entries);
}

static void port_read(struct ibv_context *context, unsigned number, struct fabric_port *port)
{
	struct ibv_port_attr attributes = {0};
	int error = ibv_query_port(context, (uint8_t)number, &attributes);

	*port = (struct fabric_port){.number = number, .status = error ? -abs(error) : 0};
	if (error)
		return;
	port->link = port_link(context->device, &attributes);
	port->state = port_state(attributes.state);
	port->mtu = mtu_bytes(attributes.active_mtu);
	port->mtu_max = mtu_bytes(attributes.max_mtu);
}

static int device_ask(struct ibv_context *context, struct fabric_device *device)
{
	struct ibv_device_attr attributes;
	int error = ibv_query_device(context, &attributes);

	if (error)
		return -abs(error);
	device->mr_bytes = attributes.max_mr_size;
	device->qps = attributes.max_qp;
	device->qp_depth = attributes.max_qp_wr;
	device->cqe = attributes.max_cqe;
	device->mrs = attributes.max_mr;
	device->reads_in = attributes.max_qp_rd_atom;
	device->reads_out = attributes.max_qp_init_rd_atom;
	device->port_count = attributes.phys_port_cnt;
	if (device->port_count > FABRIC_DEVICE_PORTS_MAX)
		device->port_count = FABRIC_DEVICE_PORTS_MAX;
	for (unsigned i = 0; i < device->port_count; i++)
		port_read(context, i + 1, &device->ports[i]);
	gids_read(context, device);
	return 0;
}

static void device_read(struct ibv_device *verbs, struct fabric_device *device)
{
	struct ibv_context *context;

	format_text(device->name, sizeof device->name, "%s", ibv_get_device_name(verbs));
	device->soft = device_is_soft(device->name);
	errno = 0;
	context = ibv_open_device(verbs);
	if (!context) {
		device->status = errno ? -errno : -ENODEV;
		return;
	}
	device->status = device_ask(context, device);
	ibv_close_device(context);
}

int fabric_devices_read(struct fabric_devices *ret_devices)
{
	struct fabric_devices devices = {.kernel_count = kernel_count(), .cm = node_status("/dev/infiniband/rdma_cm")};
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (list && count > 0) {
		devices.devices = calloc((size_t)count, sizeof *devices.devices);
		if (!devices.devices) {
			ibv_free_device_list(list);
			return -ENOMEM;
		}
		devices.count = (unsigned)count;
		for (int i = 0; i < count; i++)
			device_read(list[i], &devices.devices[i]);
	}
	if (list)
		ibv_free_device_list(list);
	*ret_devices = devices;
	return 0;
}

void fabric_devices_free(struct fabric_devices *devices)
{
	free(devices->devices);
	*devices = (struct fabric_devices){0};
}
