/*
 * verbs_device: the RDMA devices that this process uses, as the verbs backend and the domains see them.
 *
 * Theory of operation. librdmacm opens each device once per process and gives the same context to every connection. So
 * all threads of the process share a device's protection domains, registrations and asynchronous events. This table
 * gives each context a slot and remembers the device's limits. By the slot's index, a domain finds its protection
 * domain, and a region its registration. A slot is held by the fabrics that use it and the domains that are bound to
 * it.
 *
 * Asynchronous events (ibv_get_async_event(3)) come from one descriptor for the whole process. Any fabric that uses the
 * device may read an event. It notes the event in the connection concerned.
 *
 * Removal. librdmacm closes the context of a removed device with the last id on it, even if the context is still in
 * use. So each slot has an id of its own, the keeper, which only keeps the context open. When the device is removed,
 * the keeper gets an event. A changed address of a bond causes an event too, which is ignored. Any fabric that uses the
 * device may take the event. It then makes a descriptor permanently readable, which wakes all fabrics.
 *
 * Some drivers (soft-RoCE, siw) cannot remove a device while a process has it open, and block the remover. So after the
 * last fabric has ended its connections on the device, the domains must free all that they have on it. Then /dev/null
 * replaces the context's descriptors, because librdmacm keeps the context of a machine's last device forever.
 *
 * Threads: any. The table has a lock, which is taken before a domain's lock. The noted events have another lock, under
 * which no lock is taken. A device's limits are constant while it is held.
 */
#ifndef FABRIC_VERBS_DEVICE_H
#define FABRIC_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

/* The most devices in use at a time. */
#define VERBS_DEVICES_MAX 8u

/* The binding of a domain to a device. It lies in the domain. */
struct verbs_binding {
	LIST_ENTRY(verbs_binding) link;
	/* Frees the domain's resources on the device. Called under the table's lock, when no fabric of this process
	   uses the device any more. */
	void (*let_go)(struct verbs_binding *binding);
};

struct verbs_device {
	struct ibv_context *context; /* owned by librdmacm; NULL: the slot is free */
	char name[IBV_SYSFS_NAME_MAX];
	unsigned slot;
	bool iwarp;
	unsigned work_requests; /* the most work requests in one queue of a queue pair */
	unsigned completions;   /* the most completions in one completion queue */
	unsigned initiator;     /* RDMA Reads that a queue pair may have under way */
	unsigned responder;     /* RDMA Reads that a queue pair answers at a time */
	_Atomic bool gone;      /* removed, or broken */
	int lost;               /* a descriptor that is readable once the device is gone */
	struct rdma_event_channel *keeper_events;
	struct rdma_cm_id *keeper; /* never NULL while the slot is in use */
	unsigned users;            /* number of fabrics; `users` and `bindings` are under the table's lock */
	LIST_HEAD(, verbs_binding) bindings;
	LIST_HEAD(, verbs_noted) noted; /* under the lock of noted events */
};

/*
 * Finds or adds the device of @id and holds it for a fabric. Returns 0, -ENOSPC if too many devices are in use, -ENODEV
 * if the device was removed, or another -errno if it does not answer.
 */
int verbs_device_get(struct rdma_cm_id *id, struct verbs_device **ret_device);
/* Releases a fabric's hold of the device. Takes NULL. */
void verbs_device_put(struct verbs_device *device);
/* Marks the device as gone, logs it once, and wakes all fabrics. */
void verbs_device_lost(struct verbs_device *device);
/* Takes all events of the keeper. */
void verbs_device_keeper_events(struct verbs_device *device);

void verbs_devices_lock(void);
void verbs_devices_unlock(void);
/* Bind or unbind a domain. The table's lock must be held. For bind(), some fabric must hold the device. */
void verbs_device_bind(struct verbs_device *device, struct verbs_binding *binding);
void verbs_device_unbind(struct verbs_device *device, struct verbs_binding *binding);

/* The last asynchronous event of a connection's queue pair. */
struct verbs_noted {
	LIST_ENTRY(verbs_noted) link;
	const struct ibv_qp *qp; /* NULL: events are not noted */
	_Atomic unsigned event;  /* enum ibv_event_type + 1, or 0 for none */
};
/* Notes events about @qp in @noted from now on. Must be undone by verbs_device_forget() before the queue pair is
   destroyed or parked. */
void verbs_device_note(struct verbs_device *device, struct verbs_noted *noted, const struct ibv_qp *qp);
/* Stops noting events. The noted event stays. Takes a struct that is all zero. */
void verbs_device_forget(struct verbs_noted *noted);
/* Reads, logs and notes all pending asynchronous events. Some may concern queue pairs that are not ours, because
   librdmacm gives the same context to the program that libfarpage is loaded into. */
void verbs_device_events(struct verbs_device *device);

/* Returns why librdmacm could not open a device node. librdmacm itself does not report this. It is -EACCES if
   /dev/infiniband has nodes that this process may not use, else -ENODEV. */
int verbs_nodes_status(void);
/* Returns the status of fabric_register() for a failed registration. -EPERM stands for the limit on locked memory. */
int verbs_device_register_error(int error);

#endif
