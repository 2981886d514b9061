/*
 * verbs_device: the RDMA devices in use by this process, as the verbs backend and the domains see them.
 *
 * Theory of operation. librdmacm opens each device once a process and hands the same context to every connection, so
 * protection domains, registrations and asynchronous events of a device are shared by all threads of the process. This
 * table gives each context a slot, by which a domain finds its protection domain and a region its registration, and
 * remembers what the device can do. A slot is held by the fabrics that use it and by the domains bound to it.
 *
 * Asynchronous events (ibv_get_async_event(3)) come out of one descriptor for the whole process: any fabric that uses
 * the device may be the one that reads an event, and notes it in the connection that it is about.
 *
 * Removal. librdmacm closes the context of a removed device with the last id on it, whatever else still uses it. So
 * each slot has an id of its own, the keeper. It is bound and does nothing; when the device is removed it gets an event
 * (as it does when a bond's address changes, which is nothing to us). Any fabric that uses the device may be the one
 * that takes it, and makes a descriptor readable that stays so, and wakes all. A driver that cannot part with a device
 * while a process has it open (soft-RoCE, siw) makes whoever removes it wait; so when the last fabric has ended its
 * connections there, the domains are made to let go, and /dev/null takes the place of the context's descriptors, for
 * librdmacm keeps the context of the last device of a machine for ever.
 *
 * Threads: any. The table has a lock, which is taken before a domain's, and one for what is noted, under which nothing
 * else is taken; what a device tells of itself is constant while it is held.
 */
#ifndef FABRIC_VERBS_DEVICE_H
#define FABRIC_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

/* Devices in use at a time. */
#define VERBS_DEVICES_MAX 8u

/* A domain that has something on a device; in the domain. */
struct verbs_binding {
	LIST_ENTRY(verbs_binding) link;
	/* Frees what it has there. Under the table's lock; no fabric of this process uses the device any more. */
	void (*let_go)(struct verbs_binding *binding);
};

struct verbs_device {
	struct ibv_context *context; /* librdmacm's; NULL: the slot is free */
	char name[IBV_SYSFS_NAME_MAX];
	unsigned slot;
	bool iwarp;
	unsigned work_requests; /* most in one queue of a queue pair */
	unsigned completions;   /* most in one completion queue */
	unsigned initiator;     /* RDMA Reads a queue pair may have under way, and answer at a time */
	unsigned responder;
	_Atomic bool gone; /* removed, or broken beyond use */
	int lost;          /* readable once it is gone */
	struct rdma_event_channel *keeper_events;
	struct rdma_cm_id *keeper; /* NULL: it could not be bound */
	unsigned users;            /* fabrics; this and the rest under the table's lock */
	LIST_HEAD(, verbs_binding) bindings;
	LIST_HEAD(, verbs_noted) noted; /* has a lock of its own */
};

/*
 * Finds or adds the device of @id and holds it for a fabric. -ENOSPC: too many in use; -ENODEV: it was removed; -errno:
 * it does not answer.
 */
int verbs_device_get(struct rdma_cm_id *id, struct verbs_device **ret_device);
/* The fabric has nothing there any more. Takes NULL. */
void verbs_device_put(struct verbs_device *device);
/* It was removed: says so, once. */
void verbs_device_lost(struct verbs_device *device);
/* Takes what the keeper was told, as far as there is anything. */
void verbs_device_keeper_events(struct verbs_device *device);

void verbs_devices_lock(void);
void verbs_devices_unlock(void);
/* Under the lock. The caller of bind() sees to it that some fabric holds the device. */
void verbs_device_bind(struct verbs_device *device, struct verbs_binding *binding);
void verbs_device_unbind(struct verbs_device *device, struct verbs_binding *binding);

/* What asynchronous events say of a queue pair. Its connection's. */
struct verbs_noted {
	LIST_ENTRY(verbs_noted) link;
	const struct ibv_qp *qp; /* NULL: events are not noted */
	_Atomic unsigned event;  /* 0: none; enum ibv_event_type + 1 */
};
/* From now on events about @qp are noted in @noted, until forgotten: before the queue pair is destroyed, or parked. */
void verbs_device_note(struct verbs_device *device, struct verbs_noted *noted, const struct ibv_qp *qp);
/* What was noted stays. Takes one that was never told of a queue pair (all bytes zero). */
void verbs_device_forget(struct verbs_noted *noted);
/*
 * Reads and logs asynchronous events as far as there are any, and notes them. There may be some about queue pairs that
 * are not ours: librdmacm gives the same context to the program that libfarpage is loaded into.
 */
void verbs_device_events(struct verbs_device *device);

/*
 * Why librdmacm, which keeps it for itself, could not open what it needs: -EACCES if /dev/infiniband has nodes that
 * this process may not use, else -ENODEV.
 */
int verbs_nodes_status(void);
/* Why registering memory failed, as fabric_register() tells it: -EPERM for the limit on locked memory. */
int verbs_device_register_error(int error);

#endif
