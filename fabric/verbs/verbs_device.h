/*
 * verbs_device: the table of RDMA devices that this process uses.
 *
 * Theory of operation. librdmacm opens a device once per process, and gives the same ibv_context to every connection.
 * So all threads of the process share the device's protection domains, registrations and asynchronous events. The table
 * has a slot for each device, with its limits. The slot's index also finds a domain's ibv_pd and a region's ibv_mr on
 * this device. A slot is in use as long as a fabric uses the device (`users`) or a domain is bound to it (`bindings`).
 *
 * Asynchronous events (ibv_get_async_event(3)) of a device arrive at one descriptor for the whole process. Each fabric
 * that uses the device watches this descriptor, and any of these fabrics may read an event. The reader notes an event
 * about a queue pair in the connection concerned (struct verbs_noted). The connection's own thread finds the event
 * there.
 *
 * Removal of a device. When the last id on a removed device is destroyed, librdmacm closes the device's context, even
 * if the context is still in use. To prevent this, each slot has an id of its own, the keeper. The steps are:
 *
 * - The keeper gets RDMA_CM_EVENT_DEVICE_REMOVAL. Any fabric that uses the device may read this event, and then calls
 *   verbs_device_lost(). (Other events of the keeper, such as a changed address of a bond, are ignored.)
 * - verbs_device_lost() makes the descriptor `lost` readable for good. This wakes all fabrics that use the device. Each
 *   fabric ends its connections on the device and calls verbs_device_put().
 * - The last verbs_device_put() makes all bound domains free their resources on the device.
 * - verbs_device_put() then replaces the context's descriptors by /dev/null, which closes the device. This is necessary
 *   because librdmacm never closes the context of the machine's last device. Drivers such as soft-RoCE and siw block
 *   the process that removes the device until this moment.
 *
 * Threads: any. The table's lock is taken before a domain's lock. A second lock protects noted events. A thread that
 * holds this lock takes no other lock. A device's limits do not change while it is in use.
 */
#ifndef FABRIC_VERBS_DEVICE_H
#define FABRIC_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

/* The most devices that one process uses at a time. */
#define VERBS_DEVICES_MAX 8u

/* Part of a domain: its binding to one device. */
struct verbs_binding {
	LIST_ENTRY(verbs_binding) link;
	/* Frees the domain's resources on a removed device. Called with the table's lock held, when no fabric of this
	   process uses the device any more. */
	void (*let_go)(struct verbs_binding *binding);
};

struct verbs_device {
	struct ibv_context *context; /* owned by librdmacm; NULL if the slot is free */
	char name[IBV_SYSFS_NAME_MAX];
	unsigned slot;
	bool iwarp;
	unsigned work_requests; /* the most work requests in one queue of a queue pair */
	unsigned completions;   /* the most completions in one completion queue */
	unsigned initiator;     /* RDMA Reads that a queue pair may have in flight */
	unsigned responder;     /* RDMA Reads that a queue pair can answer at a time */
	_Atomic bool gone;      /* the device was removed, or is broken */
	int lost;               /* an eventfd that becomes readable when the device is gone */
	struct rdma_event_channel *keeper_events;
	struct rdma_cm_id *keeper; /* never NULL while the slot is in use */
	unsigned users;            /* number of fabrics that use it; the table's lock protects `users` and `bindings` */
	LIST_HEAD(, verbs_binding) bindings;
	LIST_HEAD(, verbs_noted) noted; /* protected by the lock of noted events */
};

/* Finds the device of @id in the table, or adds it, and counts one more user. Returns 0, -ENOSPC if too many devices
   are in use, -ENODEV if the device was removed, or another -errno if the device does not answer. */
int verbs_device_get(struct rdma_cm_id *id, struct verbs_device **ret_device);
/* Counts one user less. NULL is allowed. */
void verbs_device_put(struct verbs_device *device);
/* Marks the device as gone, and wakes all fabrics that use it. The first call logs a line. */
void verbs_device_lost(struct verbs_device *device);
void verbs_device_keeper_events(struct verbs_device *device);

void verbs_devices_lock(void);
void verbs_devices_unlock(void);
/* The caller holds the table's lock. Add or remove a domain's binding. For verbs_device_bind(), a fabric must use the
   device. */
void verbs_device_bind(struct verbs_device *device, struct verbs_binding *binding);
void verbs_device_unbind(struct verbs_device *device, struct verbs_binding *binding);

/* The last asynchronous event of a connection's queue pair. */
struct verbs_noted {
	LIST_ENTRY(verbs_noted) link;
	const struct ibv_qp *qp; /* NULL if events are not noted */
	_Atomic unsigned event;  /* enum ibv_event_type + 1, or 0 for none */
};
/* Starts to note events about @qp in @noted. verbs_device_forget() must be called before the queue pair is destroyed
   or parked. */
void verbs_device_note(struct verbs_device *device, struct verbs_noted *noted, const struct ibv_qp *qp);
/* Stops noting events. The last noted event can still be read. @noted may be all zero. */
void verbs_device_forget(struct verbs_noted *noted);
/* Reads, logs and notes all pending asynchronous events. Events about unknown queue pairs are only logged: librdmacm
   gives the same context to the program that libfarpage is loaded into. */
void verbs_device_events(struct verbs_device *device);

/* librdmacm does not report why it could not open a device, so this function finds the reason. Returns -EACCES if this
   process may not open some node of /dev/infiniband, else -ENODEV. */
int verbs_nodes_status(void);
/* Converts the errno of ibv_reg_mr() to the status of fabric_register(). Returns -EPERM if the limit on locked memory
   is probably the reason. */
int verbs_device_register_error(int error);

#endif
