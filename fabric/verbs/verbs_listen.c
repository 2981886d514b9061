/* verbs_listen: listens, see verbs.h. After the removal of a listener's device, tries to listen again every AGAIN_NS
   until the listener's address has a device. */
#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "fabric/verbs/verbs.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#define BACKLOG 128
#define AGAIN_NS (250 * 1000000ull)

static int listener_start(struct verbs_listener *listener)
{
	int status;

	if (rdma_create_id(listener->verbs->cm, &listener->id, listener, RDMA_PS_TCP) < 0) {
		listener->id = NULL;
		return errno ? -errno : -EIO;
	}
	if (rdma_bind_addr(listener->id, (struct sockaddr *)&listener->address) == 0 &&
	    rdma_listen(listener->id, BACKLOG) == 0)
		return 0;
	status = errno ? -errno : -EIO;
	rdma_destroy_id(listener->id);
	listener->id = NULL;
	return status;
}

/* Stores the port that the CM has chosen, so that the listener has the same port after its device was removed. */
static void address_keep(struct verbs_listener *listener)
{
	__be16 port = rdma_get_src_port(listener->id);

	listener->base.port = be16toh(port);
	if (listener->address.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&listener->address)->sin6_port = port;
	else
		((struct sockaddr_in *)&listener->address)->sin_port = port;
}

int verbs_listen(void *state, const struct uri *uri, struct fabric_listener **ret_listener)
{
	struct verbs *verbs = state;
	struct sockaddr_storage addresses[ADDRESS_MAX];
	struct verbs_listener *listener;
	int count = address_resolve(uri, true, addresses), status = -EADDRNOTAVAIL;

	if (count < 0)
		return count == -ENOENT ? -EADDRNOTAVAIL : count;
	listener = calloc(1, sizeof *listener);
	if (!listener)
		return -ENOMEM;
	listener->base.fabric = verbs->fabric;
	listener->verbs = verbs;
	for (int i = 0; i < count && status < 0; i++) {
		listener->address = addresses[i];
		status = listener_start(listener);
	}
	if (status < 0) {
		free(listener);
		return status;
	}
	address_keep(listener);
	TAILQ_INSERT_TAIL(&verbs->listeners, listener, link);
	*ret_listener = &listener->base;
	return 0;
}

void verbs_listener_close(struct verbs_listener *listener)
{
	TAILQ_REMOVE(&listener->verbs->listeners, listener, link);
	if (listener->id)
		rdma_destroy_id(listener->id);
	free(listener);
}

struct verbs_listener *verbs_listener_find(struct verbs *verbs, const struct rdma_cm_id *id)
{
	struct verbs_listener *listener;

	TAILQ_FOREACH(listener, &verbs->listeners, link)
		if (listener->id == id)
			return listener;
	return NULL;
}

void verbs_listener_event(struct verbs_listener *listener, enum rdma_cm_event_type kind)
{
	if (kind != RDMA_CM_EVENT_DEVICE_REMOVAL) {
		log_debug("port %u: %s", listener->base.port, rdma_event_str(kind));
		return;
	}
	log_warning("port %u: the RDMA device was removed: nobody can connect until there is one again",
		    listener->base.port);
	rdma_destroy_id(listener->id);
	listener->id = NULL;
	listener->again_at = clock_now() + AGAIN_NS;
}

uint64_t verbs_listeners_deadline(const struct verbs *verbs)
{
	const struct verbs_listener *listener;
	uint64_t deadline = BACKEND_NEVER;

	TAILQ_FOREACH(listener, &verbs->listeners, link)
		if (!listener->id && listener->again_at < deadline)
			deadline = listener->again_at;
	return deadline;
}

void verbs_listeners_expire(struct verbs *verbs, uint64_t now)
{
	struct verbs_listener *listener;
	int status;

	TAILQ_FOREACH(listener, &verbs->listeners, link) {
		if (listener->id || listener->again_at > now)
			continue;
		status = listener_start(listener);
		listener->again_at = now + AGAIN_NS;
		if (status == 0)
			log_info("port %u: there is an RDMA device again: listening", listener->base.port);
		else
			log_debug("port %u: cannot listen again: %s", listener->base.port, format_errno(status));
	}
}
