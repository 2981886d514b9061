/*
 * devices: the RDMA devices of this host, as rdma:// would find them. For telling a person about them. All
 * results are copies. No device is held open.
 *
 * Threads: any, one at a time.
 */
#ifndef FABRIC_DEVICES_H
#define FABRIC_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#define FABRIC_DEVICE_NAME_MAX 64
#define FABRIC_DEVICE_PORTS_MAX 4 /* further ports are left out */
#define FABRIC_ADDRESS_MAX 46     /* INET6_ADDRSTRLEN */

enum fabric_link { FABRIC_LINK_UNKNOWN, FABRIC_LINK_INFINIBAND, FABRIC_LINK_ROCE, FABRIC_LINK_IWARP };

enum fabric_port_state { FABRIC_PORT_DOWN, FABRIC_PORT_INIT, FABRIC_PORT_ARMED, FABRIC_PORT_ACTIVE };

struct fabric_port {
	unsigned number; /* from 1 */
	int status;      /* 0, or -errno if the port could not be queried (the rest is then empty) */
	enum fabric_link link;
	enum fabric_port_state state;
	unsigned mtu, mtu_max;            /* payload of a packet in bytes: negotiated, and largest possible */
	unsigned gids;                    /* in use */
	unsigned gids_ip;                 /* RoCE v2 ones among them, made from an IP address that is not link-local */
	char address[FABRIC_ADDRESS_MAX]; /* the first of those IP addresses, or "" */
	char netdev[16];                  /* network interface below the port, or "" */
};

struct fabric_device {
	char name[FABRIC_DEVICE_NAME_MAX];
	int status;        /* 0, or -errno if the device could not be opened or queried (the rest is then empty) */
	bool soft;         /* emulated by the kernel over a network interface: rxe, siw */
	uint64_t mr_bytes; /* largest memory region, in bytes */
	int qps, qp_depth, cqe, mrs;
	int reads_in, reads_out; /* RDMA Reads in flight on a queue pair: as responder, as requester */
	unsigned port_count;
	struct fabric_port ports[FABRIC_DEVICE_PORTS_MAX];
};

struct fabric_devices {
	unsigned kernel_count; /* devices of the kernel, usable by programs or not */
	int cm;                /* 0 or -errno of opening /dev/infiniband/rdma_cm, which connecting needs */
	unsigned count;
	struct fabric_device *devices;
};

/* Reads the devices. Returns 0, also if there are none, or -ENOMEM. */
int fabric_devices_read(struct fabric_devices *ret_devices);
/* Frees what fabric_devices_read() allocated. @devices may also be all zero. */
void fabric_devices_free(struct fabric_devices *devices);

#endif
