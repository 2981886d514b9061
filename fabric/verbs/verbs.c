/*
 * verbs: the backend for hosts with an RDMA device: InfiniBand, RoCE, iWARP, and the kernel's software devices
 * soft-RoCE (rxe) and soft-iWARP (siw).
 *
 * Theory of operation. First, the RDMA connection manager (CM) finds the device and port from an address, and connects
 * two queue pairs (verbs_setup.c). From then on, the two devices carry out reads and writes by themselves. The peer's
 * device checks rkey, address, length and rights, so the peer's program can sleep (verbs_path.c). Each connection has a
 * completion queue of its own, with space for all completions that it can have at a time. So the queue cannot overflow,
 * and its destruction loses no completion of another connection.
 *
 * Waiting. A connection is `active` while it has operations in flight, and for VERBS_IDLE_POLLS polls after its last
 * completion. Each poll reads the completion queues of the active connections. Before a connection stops being active,
 * or the thread sleeps, conn_arm() asks the device to report the next completion by an event. conn_arm() then reads the
 * queue once more, because the device does not report a completion that was already there.
 *
 * Ending. A connection ends when its queue pair is destroyed. This is the fence: from then on, the device carries out
 * no request of the connection, neither from the peer nor to it. Operations that have completed are answered with
 * their own status, the others with the reason of the end.
 *
 * Time. A device repeats a lost packet 6 times. It waits 4.096 us << n before each repetition (InfiniBand 1.4,
 * 9.7.6.1.3). The backend chooses n so that the device reports a failure just after io_ms. But a device may wait four
 * times as long. So verbs_expire() also ends a connection that has been silent for io_ms.
 */
#include "fabric/verbs/verbs.h"

#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static struct fabric_remote verbs_export(const struct fabric_region *region, const struct fabric_conn *base)
{
	const struct verbs_conn *conn = verbs_conn_of(base);
	struct ibv_mr *mr = NULL;
	struct ibv_pd *pd;
	int status = -ENOTCONN;

	if (conn->channel)
		status = domain_bind(region->domain, conn->channel->device, &pd);
	if (status == 0)
		status = domain_mr((struct fabric_region *)region, conn->channel->device, &mr);
	if (!mr) {
		if (fabric_may_tell(base->fabric))
			log_error("%s: cannot register %llu bytes for it: %s", base->peer,
				  (unsigned long long)region->length, format_errno(status));
		return (struct fabric_remote){0};
	}
	return (struct fabric_remote){.address = region->base, .rkey = mr->rkey};
}

static size_t verbs_memory(const struct fabric_conn *base)
{
	const struct verbs_conn *conn = verbs_conn_of(base);

	return sizeof *conn + conn->memory_size;
}

/* --- Polling ---------------------------------------------------------------------------------------------- */

static void end_failed(struct verbs_conn *conn)
{
	verbs_end(conn, conn->fail_status ? conn->fail_status : conn->fail_flush, conn->fail_flush);
}

static void ending_step(struct verbs_conn *conn, struct backend_events *out)
{
	struct fabric_event *event;

	verbs_deliver(conn, out);
	if (!verbs_deliver_failed(conn, out) || backend_events_full(out))
		return;
	event = backend_event(out, FABRIC_DISCONNECTED, &conn->base);
	event->status = conn->status;
	if (conn->rejected) {
		event->data = conn->theirs;
		event->size = conn->theirs_size;
	}
	verbs_state_set(conn, VERBS_STATE_ENDED);
}

static void conn_announce(struct verbs_conn *conn, struct backend_events *out)
{
	struct fabric_event *event;

	conn->announce = false;
	if (conn->state == VERBS_STATE_ESTABLISHED) {
		backend_event(out, FABRIC_ESTABLISHED, &conn->base);
		return;
	}
	event = backend_event(out, FABRIC_CONNECT_REQUEST, &conn->base);
	event->listener = &conn->listener->base;
	event->data = conn->theirs;
	event->size = conn->theirs_size;
}

static void accepting_step(struct verbs_conn *conn)
{
	const char *why;

	if (conn->received_head == conn->received_tail)
		return;
	why = verbs_take_opening(conn);
	if (why) {
		if (fabric_may_tell(conn->base.fabric))
			log_warning("%s: the connection ends: %s", conn->base.peer, why);
		verbs_end(conn, -EPROTO, -EPROTO);
		return;
	}
	verbs_state_set(conn, VERBS_STATE_ESTABLISHED);
	conn->announce = true;
}

/* Returns true if there were completions or events. */
static bool conn_step(struct verbs_conn *conn, struct backend_events *out)
{
	bool moved = false;

	if (conn->state == VERBS_STATE_ESTABLISHED)
		verbs_refresh(conn);
	if (conn->state == VERBS_STATE_ESTABLISHED || conn->state == VERBS_STATE_ACCEPTING)
		moved = verbs_drain(conn);
	if (conn->state == VERBS_STATE_ACCEPTING)
		accepting_step(conn);
	if (conn->announce && !backend_events_full(out)) {
		conn_announce(conn, out);
		moved = true;
	}
	if (conn->state == VERBS_STATE_ESTABLISHED && !conn->announce) {
		moved |= verbs_deliver(conn, out);
		/* Answers and messages that arrived before the failure are reported first. */
		if (conn->failed && conn->sent_head == conn->sent_done && conn->received_head == conn->received_tail)
			end_failed(conn);
	} else if (conn->state == VERBS_STATE_ACCEPTING && conn->failed) {
		end_failed(conn);
	}
	if (conn->state == VERBS_STATE_ENDING) {
		ending_step(conn, out);
		moved = true;
	}
	return moved;
}

static bool has_completions(const struct verbs_conn *conn)
{
	return conn->qp && (conn->state == VERBS_STATE_ESTABLISHED || conn->state == VERBS_STATE_ACCEPTING);
}

/* Asks the device to report the next completion. Returns true if the connection must be polled again at once, because
   a completion has arrived or an event must be reported. */
static bool conn_arm(struct verbs_conn *conn)
{
	if (conn->announce || conn->state == VERBS_STATE_ENDING)
		return true;
	if (!has_completions(conn))
		return false;
	if (!conn->armed) {
		conn->armed = ibv_req_notify_cq(conn->cq, 0) == 0;
		verbs_drain(conn);
	}
	return verbs_pending(conn);
}

/* Returns true if the connection stays active. Counts idle polls. */
static bool conn_stays(struct verbs_conn *conn, bool moved)
{
	if (conn->announce || conn->state == VERBS_STATE_ENDING ||
	    (conn->state == VERBS_STATE_ESTABLISHED && verbs_pending(conn))) {
		conn->verbs->ready = true;
		return true;
	}
	if (!has_completions(conn))
		return false;
	conn->idle = moved ? 0 : conn->idle + 1;
	if (conn->sent_head != conn->sent_tail || conn->idle < VERBS_IDLE_POLLS)
		return true;
	if (!conn_arm(conn))
		return false;
	conn->verbs->ready = true;
	return true;
}

static void gone_free(struct verbs *verbs)
{
	struct verbs_conn *conn;

	while ((conn = TAILQ_FIRST(&verbs->gone))) {
		TAILQ_REMOVE(&verbs->gone, conn, link);
		verbs_conn_free(conn);
	}
}

static void gone_devices_leave(struct verbs *verbs)
{
	struct verbs_conn *conn;

	TAILQ_FOREACH(conn, &verbs->conns, link)
		if (conn->channel && conn->channel->device->gone)
			verbs_end_lost(conn, -ENODEV);
	verbs_channels_sweep(verbs);
}

static bool verbs_poll(void *state, struct backend_events *out)
{
	struct verbs *verbs = state;
	bool moved = false;

	gone_free(verbs);
	verbs->ready = false;
	if (verbs->cm_ready)
		moved = verbs_cm_poll(verbs);
	if (verbs->completed)
		verbs_channels_poll(verbs);
	if (verbs->lost)
		gone_devices_leave(verbs);
	/* Polls each active connection once. A connection that stays active moves to the end of the list, so that all
	   connections get space for events in turn. */
	for (unsigned i = verbs->active_count; i; i--) {
		struct verbs_conn *conn = TAILQ_FIRST(&verbs->active);
		bool step;

		if (backend_events_full(out)) {
			verbs->ready = true;
			break;
		}
		step = conn_step(conn, out);
		moved |= step;
		verbs_deactivate(conn);
		if (conn_stays(conn, step)) {
			conn->active = true;
			verbs->active_count++;
			TAILQ_INSERT_TAIL(&verbs->active, conn, active_link);
		}
	}
	return moved;
}

static void verbs_arm(void *state)
{
	struct verbs *verbs = state;
	struct poller *poller = fabric_poller(verbs->fabric);
	struct verbs_channel *channel;
	struct verbs_conn *conn;

	TAILQ_FOREACH(conn, &verbs->active, active_link)
		if (conn_arm(conn))
			verbs->ready = true;
	poller_arm(poller, &verbs->cm_source, POLLER_IN);
	TAILQ_FOREACH(channel, &verbs->channels, link)
		verbs_channel_arm(channel);
}

static bool verbs_hot(const void *state)
{
	return ((const struct verbs *)state)->active_count != 0;
}

static bool verbs_ready(const void *state)
{
	const struct verbs *verbs = state;

	return verbs->ready || verbs->cm_ready || verbs->completed || verbs->lost;
}

/* --- Time ------------------------------------------------------------------------------------------------- */

static uint64_t conn_deadline(const struct verbs_conn *conn)
{
	uint64_t deadline = BACKEND_NEVER;

	switch (conn->state) {
	case VERBS_STATE_RESOLVING:
	case VERBS_STATE_ROUTING:
	case VERBS_STATE_CONNECTING:
	case VERBS_STATE_ACCEPTING:
		return conn->deadline;
	case VERBS_STATE_ESTABLISHED:
		if (conn->sent_done != conn->sent_tail)
			deadline = verbs_silent_since(conn) + fabric_get_config(conn->base.fabric)->io_ms * 1000000ull;
		return conn->nudge_at && conn->nudge_at < deadline ? conn->nudge_at : deadline;
	default:
		return BACKEND_NEVER;
	}
}

static uint64_t verbs_deadline(const void *state)
{
	const struct verbs *verbs = state;
	const struct verbs_conn *conn;
	uint64_t deadline = verbs_listeners_deadline(verbs);

	TAILQ_FOREACH(conn, &verbs->conns, link)
		if (conn_deadline(conn) < deadline)
			deadline = conn_deadline(conn);
	return deadline;
}

static void verbs_expire(void *state, uint64_t now)
{
	struct verbs *verbs = state;
	struct verbs_conn *conn, *next;

	for (conn = TAILQ_FIRST(&verbs->conns); conn; conn = next) {
		next = TAILQ_NEXT(conn, link);
		if (conn->state == VERBS_STATE_ESTABLISHED && conn->nudge_at && conn->nudge_at <= now)
			verbs_nudge(conn, now);
		if (conn_deadline(conn) > now)
			continue;
		if (conn->state == VERBS_STATE_RESOLVING || conn->state == VERBS_STATE_ROUTING ||
		    conn->state == VERBS_STATE_CONNECTING)
			verbs_connect_expire(conn);
		else
			verbs_end(conn, -ETIMEDOUT, -ETIMEDOUT);
	}
	verbs_listeners_expire(verbs, now);
}

/* --- The backend ------------------------------------------------------------------------------------------ */

static void cm_source_ready(struct poller_source *source, unsigned events)
{
	(void)events;
	((struct verbs *)((char *)source - offsetof(struct verbs, cm_source)))->cm_ready = true;
}

static bool has_devices(void)
{
	int count = 0;
	struct ibv_device **devices = ibv_get_device_list(&count);

	if (devices)
		ibv_free_device_list(devices);
	return count > 0;
}

static int cm_open(struct verbs *verbs)
{
	struct rdma_event_channel *cm = rdma_create_event_channel();
	int status;

	if (!cm)
		return errno == ENOMEM ? -ENOMEM : verbs_nodes_status();
	verbs->cm_source = (struct poller_source){.fd = cm->fd, .ready = cm_source_ready};
	if (fcntl(cm->fd, F_SETFL, fcntl(cm->fd, F_GETFL) | O_NONBLOCK) < 0) {
		status = -errno;
		rdma_destroy_event_channel(cm);
		return status;
	}
	poller_arm(fabric_poller(verbs->fabric), &verbs->cm_source, POLLER_IN);
	verbs->cm = cm;
	return 0;
}

static int verbs_open(struct fabric *fabric, void **ret_state)
{
	struct verbs *verbs;
	int status;

	if (!has_devices())
		return -ENODEV;
	/* Before Linux 5.12, a child made by fork() and its parent share registered pages until one of them writes.
	   The parent's device could then use the wrong copy. ibv_fork_init() keeps registered memory out of
	   children. */
	if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
		ibv_fork_init();
	verbs = calloc(1, sizeof *verbs);
	if (!verbs)
		return -ENOMEM;
	verbs->fabric = fabric;
	TAILQ_INIT(&verbs->channels);
	TAILQ_INIT(&verbs->conns);
	TAILQ_INIT(&verbs->active);
	TAILQ_INIT(&verbs->gone);
	TAILQ_INIT(&verbs->listeners);
	TAILQ_INIT(&verbs->parked);
	status = cm_open(verbs);
	if (status < 0) {
		free(verbs);
		return status;
	}
	*ret_state = verbs;
	return 0;
}

static void verbs_close(void *state)
{
	struct verbs *verbs = state;
	struct verbs_listener *listener;
	struct verbs_channel *channel;
	struct verbs_parked *parked;
	struct verbs_conn *conn;

	while ((listener = TAILQ_FIRST(&verbs->listeners)))
		verbs_listener_close(listener);
	while ((conn = TAILQ_FIRST(&verbs->conns)))
		verbs_disconnect(&conn->base);
	gone_free(verbs);
	while ((parked = TAILQ_FIRST(&verbs->parked)))
		verbs_parked_free(parked);
	while ((channel = TAILQ_FIRST(&verbs->channels)))
		verbs_channel_close(channel);
	poller_remove(fabric_poller(verbs->fabric), &verbs->cm_source);
	rdma_destroy_event_channel(verbs->cm);
	free(verbs);
}

const struct fabric_backend verbs_backend = {
    .scheme = "rdma",
    .open = verbs_open,
    .close = verbs_close,
    .listen = verbs_listen,
    .connect = verbs_connect,
    .accept = verbs_accept,
    .reject = verbs_reject,
    .disconnect = verbs_disconnect,
    .export = verbs_export,
    .post = verbs_post,
    .room = verbs_room,
    .memory = verbs_memory,
    .send = verbs_send,
    .poll = verbs_poll,
    .hot = verbs_hot,
    .ready = verbs_ready,
    .arm = verbs_arm,
    .deadline = verbs_deadline,
    .expire = verbs_expire,
};
