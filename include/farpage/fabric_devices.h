/*
 * fabric_devices: the RDMA devices of this host, as rdma:// would find them: for telling a person about them. What it
 * returns are copies; no device is held open.
 *
 * Threads: any, one at a time.
 */
#ifndef FARPAGE_FABRIC_DEVICES_H
#define FARPAGE_FABRIC_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#define FABRIC_DEVICE_NAME_MAX 64
#define FABRIC_DEVICE_PORTS_MAX 4 /* more are left out */
#define FABRIC_ADDRESS_MAX 46     /* INET6_ADDRSTRLEN */

enum fabric_link { FABRIC_LINK_UNKNOWN, FABRIC_LINK_INFINIBAND, FABRIC_LINK_ROCE, FABRIC_LINK_IWARP };

enum fabric_port_state { FABRIC_PORT_DOWN, FABRIC_PORT_INIT, FABRIC_PORT_ARMED, FABRIC_PORT_ACTIVE };

struct fabric_port {
	unsigned number; /* from 1 */
	int status;      /* 0, or -errno: the port could not be asked, and the rest is empty */
	enum fabric_link link;
	enum fabric_port_state state;
	unsigned mtu, mtu_max; /* payload of one packet, bytes: as negotiated with the link; the device's largest */
	unsigned gids;         /* in use */
	unsigned gids_ip;      /* of these, RoCE v2 ones made from an IP address that is not link-local */
	char address[FABRIC_ADDRESS_MAX]; /* the first of those IP addresses, or empty */
	char netdev[16];                  /* the network interface below, or empty */
};

struct fabric_device {
	char name[FABRIC_DEVICE_NAME_MAX];
	int status;        /* 0, or -errno: it could not be opened or asked, and the rest is empty */
	bool soft;         /* done by the kernel over an ordinary network interface: rxe, siw */
	uint64_t mr_bytes; /* largest memory region */
	int qps, qp_depth, cqe, mrs;
	int reads_in, reads_out; /* RDMA Reads in flight on one queue pair: answered here, asked from here */
	unsigned port_count;
	struct fabric_port ports[FABRIC_DEVICE_PORTS_MAX];
};

struct fabric_devices {
	unsigned kernel_count; /* devices that the kernel has, whether programs can use them or not */
	int cm;                /* /dev/infiniband/rdma_cm, which all connecting goes through: 0 or -errno of opening */
	unsigned count;
	struct fabric_device *devices;
};

/* 0, also where there is nothing at all; -ENOMEM. */
int fabric_devices_read(struct fabric_devices *ret_devices);
/* Takes one that was never read but is all zero. */
void fabric_devices_free(struct fabric_devices *devices);

#endif
