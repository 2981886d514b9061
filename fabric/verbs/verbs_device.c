/* verbs_device: see verbs_device.h. */
#include "fabric/verbs/verbs_device.h"

#include "common/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock;
	pthread_mutex_t noted_lock;
	struct verbs_device devices[VERBS_DEVICES_MAX];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .noted_lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned bounded(int value)
{
	return value > 0 ? (unsigned)value : 1;
}

static int device_ask(struct verbs_device *device, struct ibv_context *context)
{
	struct ibv_device_attr attributes;
	int error = ibv_query_device(context, &attributes);
	int flags;

	if (error)
		return -error;
	/* Several threads read the events, and another one may have read an event already. So reads must not
	   block. */
	flags = fcntl(context->async_fd, F_GETFL);
	if (flags < 0 || fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	device->context = context;
	strncpy(device->name, ibv_get_device_name(context->device), sizeof device->name - 1);
	device->iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
	device->work_requests = bounded(attributes.max_qp_wr);
	device->completions = bounded(attributes.max_cqe);
	device->initiator = bounded(attributes.max_qp_init_rd_atom);
	device->responder = bounded(attributes.max_qp_rd_atom);
	return 0;
}

static void keeper_close(struct verbs_device *device)
{
	if (device->keeper)
		rdma_destroy_id(device->keeper);
	if (device->keeper_events)
		rdma_destroy_event_channel(device->keeper_events);
	if (device->lost >= 0)
		close(device->lost);
	device->keeper = NULL;
	device->keeper_events = NULL;
	device->lost = -1;
}

/* Opens the keeper (verbs_device.h): an id that is bound to the local address of @id, at any port. */
static int keeper_open(struct verbs_device *device, struct rdma_cm_id *id)
{
	struct sockaddr_storage address = {0};
	const struct sockaddr *local = rdma_get_local_addr(id);

	memcpy(&address, local,
	       local->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	if (local->sa_family == AF_INET6)
		((struct sockaddr_in6 *)&address)->sin6_port = 0;
	else
		((struct sockaddr_in *)&address)->sin_port = 0;
	device->lost = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (device->lost < 0)
		return -errno;
	device->keeper_events = rdma_create_event_channel();
	if (!device->keeper_events || fcntl(device->keeper_events->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	if (rdma_create_id(device->keeper_events, &device->keeper, NULL, RDMA_PS_TCP) < 0) {
		device->keeper = NULL;
		return -errno;
	}
	if (rdma_bind_addr(device->keeper, (struct sockaddr *)&address) < 0)
		return -errno;
	return device->keeper->verbs == device->context ? 0 : -ENODEV;
}

static int device_open(struct verbs_device *device, unsigned slot, struct rdma_cm_id *id)
{
	int status;

	memset(device, 0, sizeof *device);
	device->slot = slot;
	device->lost = -1;
	status = device_ask(device, id->verbs);
	if (status == 0)
		status = keeper_open(device, id);
	if (status < 0) {
		keeper_close(device);
		device->context = NULL;
		return status;
	}
	log_debug("%s: %u work requests a queue, %u completions, %u/%u reads at a time%s", device->name,
		  device->work_requests, device->completions, device->initiator, device->responder,
		  device->iwarp ? ", iWARP" : "");
	return 0;
}

/* Replaces the context's descriptors by /dev/null. The kernel then frees everything that this process has open on the
   device. */
static void context_abandon(struct ibv_context *context)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup3(null, context->cmd_fd, O_CLOEXEC) < 0 || dup3(null, context->async_fd, O_CLOEXEC) < 0)
		log_error("cannot let go of a removed RDMA device: %m");
	if (null >= 0)
		close(null);
}

/* The lock must be held. Frees the slot if it has no users and no bindings. If the device is gone, first ends the
   bindings. */
static void device_settle(struct verbs_device *device)
{
	struct verbs_binding *binding;

	if (device->users)
		return;
	while (device->gone && (binding = LIST_FIRST(&device->bindings))) {
		LIST_REMOVE(binding, link);
		binding->let_go(binding);
	}
	if (!LIST_EMPTY(&device->bindings))
		return;
	if (device->gone) {
		context_abandon(device->context);
		log_debug("%s: this process has let go of it", device->name);
	}
	keeper_close(device);
	device->context = NULL;
}

int verbs_device_get(struct rdma_cm_id *id, struct verbs_device **ret_device)
{
	struct verbs_device *found = NULL;
	unsigned spare = VERBS_DEVICES_MAX;
	int status = 0;

	pthread_mutex_lock(&table.lock);
	for (unsigned i = 0; i < VERBS_DEVICES_MAX; i++) {
		if (table.devices[i].context == id->verbs)
			found = &table.devices[i];
		else if (!table.devices[i].context)
			spare = i;
	}
	if (!found && spare == VERBS_DEVICES_MAX) {
		status = -ENOSPC;
	} else if (!found) {
		found = &table.devices[spare];
		status = device_open(found, spare, id);
	} else if (found->gone) {
		status = -ENODEV;
	}
	if (status == 0) {
		found->users++;
		*ret_device = found;
	}
	pthread_mutex_unlock(&table.lock);
	return status;
}

void verbs_device_put(struct verbs_device *device)
{
	if (!device)
		return;
	pthread_mutex_lock(&table.lock);
	device->users--;
	device_settle(device);
	pthread_mutex_unlock(&table.lock);
}

void verbs_device_lost(struct verbs_device *device)
{
	if (atomic_exchange(&device->gone, true))
		return;
	log_error("%s: the RDMA device was removed: its connections end", device->name);
	eventfd_write(device->lost, 1);
}

void verbs_device_keeper_events(struct verbs_device *device)
{
	struct rdma_cm_event *event;
	bool removed = false;

	while (rdma_get_cm_event(device->keeper_events, &event) == 0) {
		removed |= event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
		log_debug("%s: %s", device->name, rdma_event_str(event->event));
		rdma_ack_cm_event(event);
	}
	if (removed)
		verbs_device_lost(device);
}

/* --- Domains ----------------------------------------------------------------------------------------------- */

void verbs_devices_lock(void)
{
	pthread_mutex_lock(&table.lock);
}

void verbs_devices_unlock(void)
{
	pthread_mutex_unlock(&table.lock);
}

void verbs_device_bind(struct verbs_device *device, struct verbs_binding *binding)
{
	LIST_INSERT_HEAD(&device->bindings, binding, link);
}

void verbs_device_unbind(struct verbs_device *device, struct verbs_binding *binding)
{
	LIST_REMOVE(binding, link);
	device_settle(device);
}

/* --- Asynchronous events ---------------------------------------------------------------------------------- */

void verbs_device_note(struct verbs_device *device, struct verbs_noted *noted, const struct ibv_qp *qp)
{
	pthread_mutex_lock(&table.noted_lock);
	noted->qp = qp;
	atomic_store(&noted->event, 0);
	LIST_INSERT_HEAD(&device->noted, noted, link);
	pthread_mutex_unlock(&table.noted_lock);
}

void verbs_device_forget(struct verbs_noted *noted)
{
	pthread_mutex_lock(&table.noted_lock);
	if (noted->qp)
		LIST_REMOVE(noted, link);
	noted->qp = NULL;
	pthread_mutex_unlock(&table.noted_lock);
}

static void event_note(struct verbs_device *device, const struct ibv_async_event *event)
{
	struct verbs_noted *noted;

	pthread_mutex_lock(&table.noted_lock);
	LIST_FOREACH(noted, &device->noted, link)
		if (noted->qp == event->element.qp)
			atomic_store(&noted->event, (unsigned)event->event_type + 1);
	pthread_mutex_unlock(&table.noted_lock);
}

static void event_take(struct verbs_device *device, const struct ibv_async_event *event)
{
	const char *what = ibv_event_type_str(event->event_type);

	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		verbs_device_lost(device);
		return;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		event_note(device, event);
		log_debug("%s: %s", device->name, what);
		return;
	case IBV_EVENT_PORT_ERR:
		log_warning("%s: port %d is down: connections over it wait, or end", device->name,
			    event->element.port_num);
		return;
	case IBV_EVENT_PORT_ACTIVE:
		log_info("%s: port %d is up", device->name, event->element.port_num);
		return;
	default: /* such as IBV_EVENT_COMM_EST, IBV_EVENT_LID_CHANGE: the CM handles them */
		log_debug("%s: %s", device->name, what);
		return;
	}
}

void verbs_device_events(struct verbs_device *device)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(device->context, &event) == 0) {
		event_take(device, &event);
		/* Acknowledges last: ibv_destroy_qp() waits for the acknowledgement, so the queue pair exists until
		   then. */
		ibv_ack_async_event(&event);
	}
}

/* --- Device nodes ------------------------------------------------------------------------------------------ */

int verbs_nodes_status(void)
{
	int status = -ENODEV;
	struct dirent *entry;
	DIR *nodes = opendir("/dev/infiniband");

	if (!nodes)
		return errno == EACCES ? -EACCES : -ENODEV;
	while ((entry = readdir(nodes))) {
		if (strncmp(entry->d_name, "uverbs", 6) != 0 && strcmp(entry->d_name, "rdma_cm") != 0)
			continue;
		if (faccessat(dirfd(nodes), entry->d_name, R_OK | W_OK, AT_EACCESS) < 0 && errno == EACCES)
			status = -EACCES;
	}
	closedir(nodes);
	return status;
}

/* --- Locked memory ---------------------------------------------------------------------------------------- */

static bool may_lock_all(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	return syscall(SYS_capget, &header, data) == 0 && data[0].effective & 1u << CAP_IPC_LOCK;
}

int verbs_device_register_error(int error)
{
	struct rlimit limit;

	if (error == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    !may_lock_all())
		return -EPERM;
	return error ? -error : -ENOMEM;
}
