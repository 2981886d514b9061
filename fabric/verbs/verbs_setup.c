/*
 * verbs_setup: connects and accepts through the RDMA connection manager (CM, rdma_cm(7)), see verbs.h. Each step ends
 * with an event of the CM:
 *
 *     connecting side: resolve the address -> make a queue pair -> resolve the route -> connect
 *                      -> the accept arrives: send the opening message
 *     accepting side:  a request arrives -> the user accepts: make a queue pair -> accept
 *                      -> the opening message arrives
 *
 * The accepting side waits for the opening message, because iWARP forbids it to send first (RFC 5044, 7.1.3). One
 * deadline covers all steps, because the CM may not report a result at all.
 */
#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "common/thread.h"
#include "fabric/verbs/verbs.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The most events of the CM that one poll handles. Other connections of this thread need their turn, too. */
#define CM_EVENTS_MAX 64
/* How often the device repeats a request that is not answered. With 7, soft-RoCE would repeat it for ever. */
#define RETRIES 6
/* The smallest and the largest ACK timeout, as exponents: 4.096 us << n. */
#define ACK_TIMEOUT_MIN 12
#define ACK_TIMEOUT_MAX 21
#define CONNECT_STACK (128u << 10)
/* The most local ports that are tried for one address, if ports are in use. */
#define PORTS_MAX 16

/* --- Connecting ------------------------------------------------------------------------------------------- */

/* Sets how long the device waits for an acknowledgement. After 1 + RETRIES waits, just after io_ms, the device reports
   a failure. */
static void ack_timeout_set(struct verbs_conn *conn)
{
	const uint64_t io_ns = fabric_get_config(conn->base.fabric)->io_ms * 1000000ull;
	uint8_t exponent = ACK_TIMEOUT_MIN;

	while (exponent < ACK_TIMEOUT_MAX && (1 + RETRIES) * (4096ull << exponent) < io_ns)
		exponent++;
	/* Before Linux 5.8, the CM chooses the timeout itself. */
	if (rdma_set_option(conn->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof exponent) < 0)
		log_debug("%s: no choice of the ACK timeout here: %m", conn->base.peer);
}

/* Converts the -errno of a CM call, or the status of a CM event, to a status of fabric_connect(). */
static int cm_status(int status)
{
	switch (status) {
	case -ENETUNREACH:
	case -EADDRNOTAVAIL:
	case -EHOSTDOWN:
	case -ENOENT:
	case 0:
		return -EHOSTUNREACH;
	case -1: /* librdmacm could not use the device */
		return verbs_nodes_status();
	default:
		return status;
	}
}

/* Returns the time left for the current address, in ms. */
static int step_ms(const struct verbs_conn *conn)
{
	uint64_t now = clock_now();

	return conn->deadline > now ? (int)((conn->deadline - now) / 1000000ull) + 1 : 1;
}

/* Tries the next address. If there is none, ends the connection with @status. */
static void connect_next(struct verbs_conn *conn, int status)
{
	while (conn->address_next < conn->address_count) {
		struct sockaddr *address = (struct sockaddr *)&conn->addresses[conn->address_next];

		conn->deadline = address_deadline(conn->connect_until, conn->address_count - conn->address_next++);
		verbs_shut(conn);
		verbs_state_set(conn, VERBS_STATE_RESOLVING);
		if (rdma_create_id(conn->verbs->cm, &conn->id, conn, RDMA_PS_TCP) < 0) {
			status = -errno;
			conn->id = NULL;
			break;
		}
		if (rdma_resolve_addr(conn->id, NULL, address, step_ms(conn)) == 0)
			return;
		log_debug("%s: its address cannot be resolved for RDMA: %m", conn->base.peer);
		status = cm_status(-errno);
	}
	verbs_end(conn, status, status);
}

static void address_resolved(struct verbs_conn *conn)
{
	int status = 0;

	verbs_state_set(conn, VERBS_STATE_ROUTING);
	if (!conn->id->verbs)
		status = -ENODEV;
	if (status == 0)
		status = verbs_equip(conn);
	if (status < 0) {
		verbs_end(conn, status, status);
		return;
	}
	if (rdma_resolve_route(conn->id, step_ms(conn)) < 0)
		connect_next(conn, cm_status(-errno));
}

struct connect_call {
	struct rdma_cm_id *id;
	struct rdma_conn_param *param;
	int status;
};

static void *connect_run(void *argument)
{
	struct connect_call *call = argument;

	call->status = rdma_connect(call->id, call->param) < 0 ? -errno : 0;
	return NULL;
}

/*
 * Calls rdma_connect(). Returns 0 or -errno.
 *
 * With siw, rdma_connect() waits until its TCP socket is connected. A signal, or task work of a ublk queue's io_uring,
 * may interrupt this wait. siw then drops the TCP connection and tries again with the same port, which TCP refuses. The
 * siw of the accepting side then also closes its listener for good (siw_cm_work_handler() of Linux 6.12). Therefore,
 * for iWARP, another thread calls rdma_connect(), because it gets neither signals nor task work.
 */
static int id_connect(struct rdma_cm_id *id, struct rdma_conn_param *param, bool iwarp)
{
	struct connect_call call = {.id = id, .param = param};
	pthread_t thread;
	int status;

	if (!iwarp) {
		connect_run(&call);
		return call.status;
	}
	status = thread_start(&thread, "iwarp-connect", CONNECT_STACK, connect_run, &call);
	if (status < 0)
		return status;
	pthread_join(thread, NULL);
	return call.status;
}

static void route_resolved(struct verbs_conn *conn)
{
	const struct verbs_device *device = conn->channel->device;
	struct rdma_conn_param param = {
	    .private_data = conn->ours,
	    .private_data_len = (uint8_t)conn->ours_size,
	    .responder_resources = (uint8_t)verbs_least(device->responder, RDMA_MAX_RESP_RES),
	    .initiator_depth = (uint8_t)verbs_least(device->initiator, RDMA_MAX_INIT_DEPTH),
	    .retry_count = RETRIES,
	    .rnr_retry_count = RETRIES,
	};
	int status;

	verbs_state_set(conn, VERBS_STATE_CONNECTING);
	ack_timeout_set(conn);
	status = id_connect(conn->id, &param, device->iwarp);
	if (status == 0) {
		conn->dialing = true;
		return;
	}
	log_debug("%s: the CM does not connect: %s", conn->base.peer, format_errno(status));
	/* With iWARP, TCP may still remember an ended connection between the CM's local port and this listener. The
	   next try uses another local port. */
	if ((status == -EADDRNOTAVAIL || status == -EADDRINUSE) && conn->ports_tried++ < PORTS_MAX)
		conn->address_next--;
	connect_next(conn, cm_status(status));
}

/* Checks the private data of an accept or a reject. Returns NULL if it is valid. Otherwise sets *ret_status, and
   returns a text for the log that says what is wrong. */
static const char *answer_check(const struct rdma_conn_param *param, struct verbs_answer *ret_answer, int *ret_status)
{
	*ret_status = -EPROTO;
	if (!param->private_data || param->private_data_len < sizeof *ret_answer)
		return "it is not a farpage donor or client";
	memcpy(ret_answer, param->private_data, sizeof *ret_answer);
	ret_answer->private_size = le16toh(ret_answer->private_size);
	if (le32toh(ret_answer->magic) != VERBS_MAGIC || ret_answer->private_size > FABRIC_PRIVATE_MAX)
		return "it is not a farpage donor or client";
	if (le16toh(ret_answer->version) == VERBS_VERSION)
		return NULL;
	*ret_status = -EPROTONOSUPPORT;
	return "it speaks another version of the fabric's protocol";
}

static void connection_accepted(struct verbs_conn *conn, const struct rdma_conn_param *param)
{
	struct verbs_answer answer;
	int status;
	const char *why = answer_check(param, &answer, &status);

	if (why) {
		log_info("%s: not taken: %s", conn->base.peer, why);
		verbs_end(conn, status, status);
		return;
	}
	verbs_state_set(conn, VERBS_STATE_ESTABLISHED);
	conn->announce = true;
	conn->nudge_at = conn->channel->device->iwarp ? clock_now() + VERBS_NUDGE_NS : 0;
	verbs_send_opening(conn);
	verbs_activate(conn);
}

static void connection_rejected(struct verbs_conn *conn, const struct rdma_conn_param *param, int reason)
{
	struct verbs_answer answer;
	int status;
	const char *why = answer_check(param, &answer, &status);

	log_debug("%s: rejected, the CM's reason %d%s%s", conn->base.peer, reason, why ? ": " : "", why ? why : "");
	/* Without our magic, the CM of the peer has rejected the connection by itself, because no program listens
	   there. */
	if (why && status != -EPROTONOSUPPORT) {
		connect_next(conn, -ECONNREFUSED);
		return;
	}
	if (!why) {
		memcpy(conn->theirs, answer.private_data, answer.private_size);
		conn->theirs_size = answer.private_size;
		conn->rejected = true;
		status = -ECONNREFUSED;
	}
	verbs_end(conn, status, status);
}

void verbs_connect_expire(struct verbs_conn *conn)
{
	connect_next(conn, -ETIMEDOUT);
}

int verbs_connect(void *state, struct fabric_domain *domain, const struct uri *uri, const void *private_data,
		  size_t private_size, struct fabric_conn **ret_conn)
{
	struct verbs *verbs = state;
	struct verbs_conn *conn;
	int count;

	if (uri->port == 0)
		return -EINVAL;
	conn = verbs_conn_new(verbs, VERBS_STATE_RESOLVING);
	if (!conn)
		return -ENOMEM;
	count = address_resolve(uri, false, conn->addresses);
	if (count < 0) {
		free(conn);
		return count;
	}
	conn->address_count = (unsigned)count;
	conn->connect_until = conn->deadline;
	conn->base.domain = domain;
	uri_format(uri, conn->base.peer);
	if (private_size)
		memcpy(conn->ours, private_data, private_size);
	conn->ours_size = private_size;
	verbs_conn_list(conn);
	connect_next(conn, -EHOSTUNREACH);
	fabric_touch(verbs->fabric);
	*ret_conn = &conn->base;
	return 0;
}

/* --- Accepting -------------------------------------------------------------------------------------------- */

static void request_arrived(struct verbs_listener *listener, struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	const struct sockaddr_storage *from = (const struct sockaddr_storage *)rdma_get_peer_addr(id);
	struct verbs *verbs = listener->verbs;
	struct verbs_conn *conn;

	if (verbs->arriving == VERBS_ARRIVING_MAX || !(conn = verbs_conn_new(verbs, VERBS_STATE_REQUESTED))) {
		log_debug("a connection was refused at once: too many are being set up");
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return;
	}
	conn->id = id;
	id->context = conn;
	conn->listener = listener;
	conn->their_initiator = param->initiator_depth;
	conn->their_responder = param->responder_resources;
	conn->theirs_size = verbs_least(param->private_data_len, FABRIC_PRIVATE_MAX);
	if (conn->theirs_size)
		memcpy(conn->theirs, param->private_data, conn->theirs_size);
	address_name("rdma", from, conn->base.peer);
	conn->base.origin = address_origin(from);
	verbs->arriving++;
	conn->announce = true;
	verbs_conn_list(conn);
	verbs_activate(conn);
}

static struct verbs_answer answer_make(const void *private_data, size_t private_size)
{
	struct verbs_answer answer = {.magic = htole32(VERBS_MAGIC),
				      .version = htole16(VERBS_VERSION),
				      .private_size = htole16((uint16_t)private_size)};

	if (private_size)
		memcpy(answer.private_data, private_data, private_size);
	return answer;
}

int verbs_accept(struct fabric_conn *base)
{
	struct verbs_conn *conn = verbs_conn_of(base);
	const struct verbs_answer answer = answer_make(NULL, 0);
	struct rdma_conn_param param = {
	    .private_data = &answer, .private_data_len = sizeof answer, .rnr_retry_count = RETRIES};
	int status;

	if (!conn->id) {
		verbs_end(conn, -ECONNRESET, -ECONNRESET); /* the peer has ended the connection in the meantime */
		return 0;
	}
	status = verbs_equip(conn);
	if (status < 0)
		return status;
	/* The values are seen from this side: responder_resources is how many RDMA Reads of the peer this side
	   answers at a time. */
	param.responder_resources = (uint8_t)verbs_least(conn->their_responder, conn->channel->device->responder);
	param.initiator_depth = (uint8_t)verbs_least(conn->their_initiator, conn->channel->device->initiator);
	ack_timeout_set(conn);
	if (rdma_accept(conn->id, &param) < 0)
		return errno ? -errno : -EIO;
	conn->listener = NULL;
	conn->deadline = clock_now() + fabric_get_config(base->fabric)->connect_ms * 1000000ull;
	verbs_state_set(conn, VERBS_STATE_ACCEPTING);
	verbs_activate(conn);
	return 0;
}

void verbs_reject(struct fabric_conn *base, const void *private_data, size_t private_size)
{
	struct verbs_conn *conn = verbs_conn_of(base);
	const struct verbs_answer answer = answer_make(private_data, private_size);

	if (conn->id)
		rdma_reject(conn->id, &answer, sizeof answer);
	verbs_disconnect(base);
}

/* --- Events ----------------------------------------------------------------------------------------------- */

static void device_removed(struct verbs_conn *conn)
{
	log_debug("%s: its device was removed", conn->base.peer);
	if (conn->channel)
		verbs_device_lost(conn->channel->device);
	verbs_end_lost(conn, -ENODEV);
}

static void conn_event(struct verbs_conn *conn, enum rdma_cm_event_type kind, int status,
		       const struct rdma_conn_param *param)
{
	conn->dialing = false;
	switch (kind) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		address_resolved(conn);
		return;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		route_resolved(conn);
		return;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		connect_next(conn, cm_status(status));
		return;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		if (conn->state == VERBS_STATE_CONNECTING)
			connect_next(conn, cm_status(status));
		else
			verbs_end_lost(conn, cm_status(status));
		return;
	case RDMA_CM_EVENT_REJECTED:
		if (conn->state == VERBS_STATE_CONNECTING)
			connection_rejected(conn, param, status);
		else
			verbs_end_lost(conn, -ECONNRESET);
		return;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (conn->state == VERBS_STATE_CONNECTING)
			connection_accepted(conn, param);
		return;
	case RDMA_CM_EVENT_DISCONNECTED:
		verbs_end_lost(conn, -ECONNRESET);
		return;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		device_removed(conn);
		return;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return;
	default:
		log_debug("%s: %s", conn->base.peer, rdma_event_str(kind));
		return;
	}
}

static struct verbs_parked *parked_find(struct verbs *verbs, const struct rdma_cm_id *id)
{
	struct verbs_parked *parked;

	TAILQ_FOREACH(parked, &verbs->parked, link)
		if (parked->id == id)
			return parked;
	return NULL;
}

bool verbs_cm_poll(struct verbs *verbs)
{
	struct rdma_cm_event *event;
	struct verbs_listener *listener;
	struct verbs_parked *parked;
	unsigned count = 0;

	while (count < CM_EVENTS_MAX && rdma_get_cm_event(verbs->cm, &event) == 0) {
		uint8_t private_data[UINT8_MAX];
		struct rdma_conn_param param = event->param.conn;
		enum rdma_cm_event_type kind = event->event;
		struct rdma_cm_id *id = event->id, *listen_id = event->listen_id;
		int status = event->status;

		/* Acknowledges the event before it is handled: the handler may destroy the id, and rdma_destroy_id()
		   waits for the acknowledgement. */
		if (param.private_data && param.private_data_len)
			memcpy(private_data, param.private_data, param.private_data_len);
		param.private_data = private_data;
		rdma_ack_cm_event(event);
		count++;
		log_debug("%s, status %d", rdma_event_str(kind), status);
		listener = verbs_listener_find(verbs, kind == RDMA_CM_EVENT_CONNECT_REQUEST ? listen_id : id);
		if (listener && kind == RDMA_CM_EVENT_CONNECT_REQUEST)
			request_arrived(listener, id, &param);
		else if (listener)
			verbs_listener_event(listener, kind);
		else if ((parked = parked_find(verbs, id)))
			verbs_parked_free(parked);
		else
			conn_event(id->context, kind, status, &param);
	}
	if (count == CM_EVENTS_MAX)
		return true;
	verbs->cm_ready = false;
	poller_arm(fabric_poller(verbs->fabric), &verbs->cm_source, POLLER_IN);
	return count;
}
