/*
 * devices: lists the RDMA devices that rdma:// can use on this host, with their limits and ports, so that programs
 * can report them to a person. The results are copies. No device stays open.
 *
 * Threads: any, but only one at a time.
 */
#ifndef FABRIC_DEVICES_H
#define FABRIC_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#define FABRIC_DEVICE_NAME_MAX 64
#define FABRIC_DEVICE_PORTS_MAX 4 /* further ports are ignored */
#define FABRIC_ADDRESS_MAX 46     /* INET6_ADDRSTRLEN */

enum fabric_link { FABRIC_LINK_UNKNOWN, FABRIC_LINK_INFINIBAND, FABRIC_LINK_ROCE, FABRIC_LINK_IWARP };

enum fabric_port_state { FABRIC_PORT_DOWN, FABRIC_PORT_INIT, FABRIC_PORT_ARMED, FABRIC_PORT_ACTIVE };

struct fabric_port {
	unsigned number; /* from 1 */
	int status;      /* 0, or -errno if the port cannot be queried; the fields below are then empty */
	enum fabric_link link;
	enum fabric_port_state state;
	unsigned mtu, mtu_max;            /* payload of a packet in bytes: current, and largest possible */
	unsigned gids;                    /* GIDs (the port's network addresses) in use */
	unsigned gids_ip;                 /* RoCE v2 GIDs among them, made from IP addresses that are not link-local */
	char address[FABRIC_ADDRESS_MAX]; /* the first of those IP addresses, or "" */
	char netdev[16];                  /* network interface below the port, or "" */
};

struct fabric_device {
	char name[FABRIC_DEVICE_NAME_MAX];
	int status;        /* 0, or -errno if the device cannot be opened or queried; the rest is then empty */
	bool soft;         /* emulated by the kernel over a network interface (soft-RoCE, siw) */
	uint64_t mr_bytes; /* largest memory region, in bytes */
	int qps, qp_depth, cqe, mrs;
	int reads_in, reads_out; /* RDMA Reads in flight at a time that a queue pair can answer, and can start */
	unsigned port_count;
	struct fabric_port ports[FABRIC_DEVICE_PORTS_MAX];
};

struct fabric_devices {
	unsigned kernel_count; /* all devices of the kernel, even those that programs cannot use */
	int cm;                /* 0, or -errno of opening /dev/infiniband/rdma_cm, without which nothing can connect */
	unsigned count;
	struct fabric_device *devices;
};

/* Returns 0, even if there are no devices, or -ENOMEM. */
int fabric_devices_read(struct fabric_devices *ret_devices);
void fabric_devices_free(struct fabric_devices *devices);

#endif
