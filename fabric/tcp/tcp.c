/*
 * tcp: the backend for hosts without an RDMA device.
 *
 * Theory of operation. A connection is one TCP socket. Both sides send their requests, answers and messages over it
 * (tcp_frame.h). The thread that owns the peer's end serves a request inside fabric_poll(). This thread first checks
 * address, rkey and length against the protection domain of the connection. Then it moves the data. The data of a read
 * is sent straight from the registered memory. The data of a write is received straight into it, except for the part
 * that is already in the receive buffer.
 *
 * If the check fails, the peer logs one line, answers with TCP_REFUSED, and ends the connection. Requests before the
 * refused one have been served. Later requests are dropped, as with a queue pair in the error state.
 *
 * Requests are served in order, with one exception. The data of a read is taken from memory when its answer is sent.
 * While the socket's buffer is full, the answer waits, and a later write may be served first. The read then returns the
 * bytes of that write.
 *
 * Waiting. A connection is `active` while it has operations in flight, and for TCP_IDLE_POLLS polls after its last
 * input, or for one poll if the fabric carries only messages. Each poll calls recv() on the active connections. Other
 * connections wait until the poller reports input.
 */
#include "fabric/tcp/tcp.h"

#include "common/clock.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DRAINS_MAX 64

static const char *const state_names[] = {
    [TCP_STATE_CONNECTING] = "connecting", [TCP_STATE_GREETING] = "greeting",       [TCP_STATE_ARRIVING] = "arriving",
    [TCP_STATE_REQUESTED] = "requested",   [TCP_STATE_ESTABLISHED] = "established", [TCP_STATE_ENDING] = "ending",
    [TCP_STATE_ENDED] = "ended",
};
_Static_assert(sizeof state_names / sizeof *state_names == TCP_STATE_COUNT, "a name for each");

/* The states that may follow each state, as a bit mask. */
#define TO(state) (1u << TCP_STATE_##state)
static const unsigned state_moves[TCP_STATE_COUNT] = {
    [TCP_STATE_CONNECTING] = TO(GREETING) | TO(ENDING) | TO(ENDED),
    [TCP_STATE_GREETING] = TO(ESTABLISHED) | TO(ENDING) | TO(ENDED),
    [TCP_STATE_ARRIVING] = TO(REQUESTED) | TO(ENDED),
    [TCP_STATE_REQUESTED] = TO(ESTABLISHED) | TO(ENDED),
    [TCP_STATE_ESTABLISHED] = TO(ENDING) | TO(ENDED),
    [TCP_STATE_ENDING] = TO(ENDED),
    [TCP_STATE_ENDED] = TO(ENDED),
};

void tcp_state_set(struct tcp_conn *conn, enum tcp_state state)
{
	assert(state_moves[conn->state] & 1u << state);
	log_debug("%s: %s -> %s", conn->base.peer, state_names[conn->state], state_names[state]);
	if (conn->state == TCP_STATE_ARRIVING)
		conn->tcp->arriving--;
	conn->state = state;
}

void tcp_activate(struct tcp_conn *conn)
{
	conn->idle = 0;
	conn->tcp->ready = true;
	if (conn->active)
		return;
	conn->active = true;
	conn->tcp->active_count++;
	TAILQ_INSERT_TAIL(&conn->tcp->active, conn, active_link);
}

static void deactivate(struct tcp_conn *conn)
{
	if (!conn->active)
		return;
	conn->active = false;
	conn->tcp->active_count--;
	TAILQ_REMOVE(&conn->tcp->active, conn, active_link);
}

void tcp_conn_arm(struct tcp_conn *conn)
{
	unsigned events = conn->blocked ? POLLER_IN | POLLER_OUT : POLLER_IN;

	switch (conn->state) {
	case TCP_STATE_CONNECTING:
		events = POLLER_OUT;
		break;
	case TCP_STATE_GREETING:
	case TCP_STATE_ARRIVING:
	case TCP_STATE_ESTABLISHED:
		break;
	default:
		return;
	}
	poller_arm(fabric_poller(conn->base.fabric), &conn->source, events);
}

/* --- Life of a connection --------------------------------------------------------------------------------- */

static void conn_source_ready(struct poller_source *source, unsigned events)
{
	struct tcp_conn *conn = (struct tcp_conn *)((char *)source - offsetof(struct tcp_conn, source));

	if (events & POLLER_OUT)
		conn->blocked = false;
	tcp_activate(conn);
}

struct tcp_conn *tcp_conn_new(struct tcp *tcp, enum tcp_state state)
{
	struct tcp_conn *conn = calloc(1, sizeof *conn);

	if (!conn)
		return NULL;
	conn->base.backend = &tcp_backend;
	conn->base.fabric = tcp->fabric;
	conn->tcp = tcp;
	conn->state = state;
	conn->source = (struct poller_source){.fd = -1, .ready = conn_source_ready};
	return conn;
}

void tcp_conn_open(struct tcp_conn *conn, int fd)
{
	conn->source.fd = fd;
	conn->blocked = false;
}

void tcp_conn_shut(struct tcp_conn *conn)
{
	char scratch[4096];

	if (conn->source.fd < 0)
		return;
	poller_remove(fabric_poller(conn->base.fabric), &conn->source);
	/* close() with unread input would reset the connection, and the peer might lose the last bytes sent. So the
	   input is read first. shutdown() is needed because a forked child may have the socket open, too. */
	for (unsigned i = 0; i < DRAINS_MAX && recv(conn->source.fd, scratch, sizeof scratch, MSG_DONTWAIT) > 0; i++)
		;
	shutdown(conn->source.fd, SHUT_RDWR);
	close(conn->source.fd);
	conn->source.fd = -1;
}

void tcp_end(struct tcp_conn *conn, int status, int flush)
{
	tcp_state_set(conn, TCP_STATE_ENDING);
	tcp_conn_shut(conn);
	conn->status = status;
	conn->flush = flush;
	conn->announce = false;
	tcp_activate(conn);
}

void tcp_end_broken(struct tcp_conn *conn, const char *why)
{
	if (fabric_may_tell(conn->base.fabric))
		log_warning("%s: the connection ends: %s", conn->base.peer, why);
	tcp_end(conn, -EPROTO, -EPROTO);
}

void tcp_conn_free(struct tcp_conn *conn)
{
	if (conn->memory)
		munmap(conn->memory, conn->memory_size);
	free(conn);
}

static void ending_step(struct tcp_conn *conn, struct backend_events *out)
{
	struct fabric_event *event;

	for (; conn->op_head != conn->op_tail; conn->op_head++) {
		if (backend_events_full(out))
			return;
		event = backend_event(out, FABRIC_DONE, &conn->base);
		event->cookie = conn->ops[conn->op_head & conn->op_mask].cookie;
		event->status = conn->flush;
	}
	if (backend_events_full(out))
		return;
	event = backend_event(out, FABRIC_DISCONNECTED, &conn->base);
	event->status = conn->status;
	if (conn->rejected) {
		event->data = conn->theirs.private_data;
		event->size = conn->theirs.private_size;
	}
	tcp_state_set(conn, TCP_STATE_ENDED);
}

static void tcp_disconnect(struct fabric_conn *base)
{
	struct tcp_conn *conn = tcp_conn_of(base);
	struct tcp *tcp = conn->tcp;

	tcp_heard(conn);
	if (conn->state == TCP_STATE_ESTABLISHED && !conn->blocked)
		tcp_output(conn);
	tcp_conn_shut(conn);
	tcp_state_set(conn, TCP_STATE_ENDED);
	deactivate(conn);
	TAILQ_REMOVE(&tcp->conns, conn, link);
	TAILQ_INSERT_TAIL(&tcp->gone, conn, link);
}

/* --- Data path -------------------------------------------------------------------------------------------- */

static struct fabric_remote tcp_export(const struct fabric_region *region, const struct fabric_conn *conn)
{
	(void)conn;
	return (struct fabric_remote){.address = region->base, .rkey = atomic_load(&region->rkey)};
}

static size_t tcp_memory(const struct fabric_conn *base)
{
	const struct tcp_conn *conn = tcp_conn_of(base);

	return sizeof *conn + conn->memory_size;
}

static unsigned tcp_room(const struct fabric_conn *base)
{
	const struct tcp_conn *conn = tcp_conn_of(base);

	if (conn->state != TCP_STATE_ESTABLISHED)
		return 0;
	return fabric_get_config(base->fabric)->depth - (conn->op_tail - conn->op_head);
}

static void op_queue(struct tcp_conn *conn, const struct fabric_op *op, uint64_t now)
{
	uint32_t sequence = conn->op_tail++;

	assert(op->length >= 1 && op->length <= FABRIC_OP_MAX);
	assert(op->region->domain == conn->base.domain && domain_covers(op->region, op->local, op->length));
	conn->ops[sequence & conn->op_mask] = (struct tcp_op){
	    .local = op->local, .cookie = op->cookie, .posted_at = now, .length = op->length, .kind = op->kind};
	tcp_queue_frame(conn,
			(struct tcp_frame){.type = op->kind == FABRIC_READ ? TCP_READ : TCP_WRITE,
					   .length = op->length,
					   .sequence = sequence,
					   .rkey = op->remote.rkey,
					   .address = op->remote.address},
			(struct tcp_out){.body = op->kind == FABRIC_READ ? TCP_BODY_NONE : TCP_BODY_LOCAL,
					 .address = (uintptr_t)op->local,
					 .length = op->kind == FABRIC_READ ? 0 : op->length});
}

static int tcp_post(struct fabric_conn *base, const struct fabric_op *ops, unsigned count)
{
	struct tcp_conn *conn = tcp_conn_of(base);
	unsigned room = tcp_room(base);
	uint64_t now;

	if (conn->state != TCP_STATE_ESTABLISHED)
		return -ENOTCONN;
	if (count > room)
		count = room;
	if (!count)
		return 0;
	now = clock_now();
	for (unsigned i = 0; i < count; i++)
		op_queue(conn, &ops[i], now);
	tcp_activate(conn);
	fabric_touch(base->fabric);
	if (!conn->blocked)
		tcp_output(conn);
	return (int)count;
}

static int tcp_send(struct fabric_conn *base, const void *message, size_t size)
{
	struct tcp_conn *conn = tcp_conn_of(base);
	uint8_t *slot;

	if (conn->state != TCP_STATE_ESTABLISHED)
		return -ENOTCONN;
	if (size < 1 || size > FABRIC_MESSAGE_MAX)
		return -EINVAL;
	if (conn->message_tail - conn->message_head == TCP_MESSAGES_MAX)
		return -ENOBUFS;
	slot = conn->messages + conn->message_tail++ % TCP_MESSAGES_MAX * FABRIC_MESSAGE_MAX;
	memcpy(slot, message, size);
	tcp_queue_frame(conn, (struct tcp_frame){.type = TCP_MESSAGE, .length = (uint32_t)size},
			(struct tcp_out){.body = TCP_BODY_LOCAL, .address = (uintptr_t)slot, .length = (uint32_t)size});
	tcp_activate(conn); /* polls of an active connection send the rest when the socket accepts it */
	fabric_touch(base->fabric);
	if (!conn->blocked)
		tcp_output(conn);
	return 0;
}

/* Returns true if bytes moved or an event was reported. */
static bool conn_step(struct tcp_conn *conn, struct backend_events *out)
{
	bool moved = false;

	if (conn->state == TCP_STATE_CONNECTING || conn->state == TCP_STATE_GREETING ||
	    conn->state == TCP_STATE_ARRIVING)
		moved = tcp_setup_step(conn);
	if (conn->announce && !backend_events_full(out)) {
		struct fabric_event *event;

		conn->announce = false;
		if (conn->state == TCP_STATE_ESTABLISHED) {
			backend_event(out, FABRIC_ESTABLISHED, &conn->base);
		} else {
			event = backend_event(out, FABRIC_CONNECT_REQUEST, &conn->base);
			event->listener = &conn->listener->base;
			event->data = conn->theirs.private_data;
			event->size = conn->theirs.private_size;
		}
		moved = true;
	}
	if (conn->state == TCP_STATE_ESTABLISHED && !conn->announce)
		moved |= tcp_input(conn, out);
	if (conn->state == TCP_STATE_ESTABLISHED && !conn->blocked)
		tcp_output(conn);
	if (conn->state == TCP_STATE_ESTABLISHED && conn->blocked)
		poller_arm(fabric_poller(conn->base.fabric), &conn->source, POLLER_OUT);
	if (conn->state == TCP_STATE_ENDING) {
		ending_step(conn, out);
		moved = true;
	}
	return moved;
}

/* Returns true if the connection stays active. Counts idle polls. */
static bool conn_stays(struct tcp_conn *conn, bool moved)
{
	unsigned idle_polls;

	if (conn->announce || conn->state == TCP_STATE_ENDING || (conn->state == TCP_STATE_ESTABLISHED && conn->more)) {
		conn->tcp->ready = true;
		return true;
	}
	if (conn->state != TCP_STATE_ESTABLISHED)
		return false;
	conn->idle = moved ? 0 : conn->idle + 1;
	/* With many connections for messages, recv() on all connections with input lately would make each poll slow. */
	idle_polls = fabric_get_config(conn->base.fabric)->messages_only ? 1 : TCP_IDLE_POLLS;
	return conn->op_head != conn->op_tail || conn->idle < idle_polls;
}

static void gone_free(struct tcp *tcp)
{
	struct tcp_conn *conn;

	while ((conn = TAILQ_FIRST(&tcp->gone))) {
		TAILQ_REMOVE(&tcp->gone, conn, link);
		tcp_conn_free(conn);
	}
}

static bool tcp_poll(void *state, struct backend_events *out)
{
	struct tcp *tcp = state;
	bool moved = false;

	gone_free(tcp);
	tcp->ready = false;
	if (tcp->listeners_ready) {
		tcp_listeners_poll(tcp, clock_now());
		moved = true;
	}
	/* Polls each active connection once. A connection that stays active moves to the end of the list, so that all
	   connections get space for events in turn. */
	for (unsigned i = tcp->active_count; i; i--) {
		struct tcp_conn *conn = TAILQ_FIRST(&tcp->active);
		bool step;

		if (backend_events_full(out)) {
			tcp->ready = true;
			break;
		}
		step = conn_step(conn, out);
		moved |= step;
		deactivate(conn);
		if (conn_stays(conn, step)) {
			conn->active = true;
			tcp->active_count++;
			TAILQ_INSERT_TAIL(&tcp->active, conn, active_link);
		} else {
			tcp_conn_arm(conn);
		}
	}
	return moved;
}

static void tcp_arm(void *state)
{
	struct tcp *tcp = state;
	struct tcp_conn *conn;

	TAILQ_FOREACH(conn, &tcp->active, active_link)
		tcp_conn_arm(conn);
}

static bool tcp_hot(const void *state)
{
	return ((const struct tcp *)state)->active_count != 0;
}

static bool tcp_ready(const void *state)
{
	const struct tcp *tcp = state;

	return tcp->ready || tcp->listeners_ready;
}

/* --- Time ------------------------------------------------------------------------------------------------- */

/* Returns the time of the peer's last answer, or of the oldest unanswered post, whichever is later. Each answer
   restarts the time, because a deep queue of long requests may take longer than io_ms in total. */
static uint64_t silent_since(const struct tcp_conn *conn)
{
	uint64_t posted_at = conn->ops[conn->op_head & conn->op_mask].posted_at;

	return posted_at > conn->progress_at ? posted_at : conn->progress_at;
}

static uint64_t conn_deadline(const struct tcp_conn *conn)
{
	if (conn->state == TCP_STATE_CONNECTING || conn->state == TCP_STATE_GREETING ||
	    conn->state == TCP_STATE_ARRIVING)
		return conn->deadline;
	if (conn->state == TCP_STATE_ESTABLISHED && conn->op_head != conn->op_tail)
		return silent_since(conn) + fabric_get_config(conn->base.fabric)->io_ms * 1000000ull;
	return BACKEND_NEVER;
}

static uint64_t tcp_deadline(const void *state)
{
	const struct tcp *tcp = state;
	const struct tcp_listener *listener;
	const struct tcp_conn *conn;
	uint64_t deadline = BACKEND_NEVER;

	TAILQ_FOREACH(conn, &tcp->conns, link)
		if (conn_deadline(conn) < deadline)
			deadline = conn_deadline(conn);
	TAILQ_FOREACH(listener, &tcp->listeners, link)
		if (listener->retry_at < deadline)
			deadline = listener->retry_at;
	return deadline;
}

static void tcp_expire(void *state, uint64_t now)
{
	struct tcp *tcp = state;
	struct tcp_listener *listener;
	struct tcp_conn *conn, *next;

	for (conn = TAILQ_FIRST(&tcp->conns); conn; conn = next) {
		next = TAILQ_NEXT(conn, link);
		if (conn_deadline(conn) > now)
			continue;
		if (conn->state == TCP_STATE_ARRIVING) {
			if (fabric_may_tell(tcp->fabric))
				log_warning("%s: closed: it sent no greeting within %u ms", conn->base.peer,
					    fabric_get_config(tcp->fabric)->connect_ms);
			tcp_disconnect(&conn->base);
		} else if (conn->state == TCP_STATE_CONNECTING) {
			tcp_connect_expire(conn);
		} else {
			tcp_end(conn, -ETIMEDOUT, -ETIMEDOUT);
		}
	}
	TAILQ_FOREACH(listener, &tcp->listeners, link) {
		if (listener->retry_at > now)
			continue;
		listener->retry_at = BACKEND_NEVER;
		listener->ready = true;
		tcp->listeners_ready = true;
	}
}

/* --- The backend ------------------------------------------------------------------------------------------ */

static int tcp_open(struct fabric *fabric, void **ret_state)
{
	struct tcp *tcp = calloc(1, sizeof *tcp);

	if (!tcp)
		return -ENOMEM;
	tcp->fabric = fabric;
	TAILQ_INIT(&tcp->conns);
	TAILQ_INIT(&tcp->active);
	TAILQ_INIT(&tcp->gone);
	TAILQ_INIT(&tcp->listeners);
	*ret_state = tcp;
	return 0;
}

static void tcp_close(void *state)
{
	struct tcp *tcp = state;
	struct tcp_listener *listener;
	struct tcp_conn *conn;

	while ((listener = TAILQ_FIRST(&tcp->listeners)))
		tcp_listener_close(listener);
	while ((conn = TAILQ_FIRST(&tcp->conns)))
		tcp_disconnect(&conn->base);
	gone_free(tcp);
	free(tcp);
}

const struct fabric_backend tcp_backend = {
    .scheme = "tcp",
    .open = tcp_open,
    .close = tcp_close,
    .listen = tcp_listen,
    .connect = tcp_connect,
    .accept = tcp_accept,
    .reject = tcp_reject,
    .disconnect = tcp_disconnect,
    .export = tcp_export,
    .post = tcp_post,
    .room = tcp_room,
    .memory = tcp_memory,
    .send = tcp_send,
    .poll = tcp_poll,
    .hot = tcp_hot,
    .ready = tcp_ready,
    .arm = tcp_arm,
    .deadline = tcp_deadline,
    .expire = tcp_expire,
};
