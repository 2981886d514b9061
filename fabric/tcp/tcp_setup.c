/* tcp_setup: listens, connects, and exchanges greetings, see tcp.h. */
#include "common/clock.h"
#include "common/crowd.h"
#include "common/format.h"
#include "common/log.h"
#include "common/random.h"
#include "fabric/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The most connections that wait in the kernel. By default Linux allows no more (/proc/sys/net/core/somaxconn). */
#define BACKLOG 4096
/* The most accepted connections that no poll has read from yet. Further ones wait in the kernel. Otherwise, when many
   connections arrive at once, arriving_make_room() would close some of them before their greetings are read. */
#define UNHEARD_MAX 16
/* The most connections accepted in one poll. */
#define ACCEPTS_MAX 64
/* The pause before accepting again, after the process ran out of descriptors. */
#define RETRY_NS (100 * 1000000ull)
/* listen_at() tries LISTEN_TRIES times to listen on a port that is in use, with this pause between two tries. */
#define LISTEN_PAUSE_MS 5
#define LISTEN_TRIES 100
/* The kernel probes a peer that has been silent for KEEPALIVE_IDLE s, every KEEPALIVE_INTERVAL s. After
   KEEPALIVE_COUNT probes without an answer it ends the connection. */
#define KEEPALIVE_IDLE 10
#define KEEPALIVE_INTERVAL 5
#define KEEPALIVE_COUNT 3

/* Accepted sockets inherit these options from the listening socket. */
static void socket_tune(int fd)
{
	const struct {
		int level, name, value;
	} options[] = {
	    {IPPROTO_TCP, TCP_NODELAY, 1},
	    {SOL_SOCKET, SO_KEEPALIVE, 1},
	    {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE},
	    {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL},
	    {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT},
	};

	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

/* --- Greetings -------------------------------------------------------------------------------------------- */

static struct tcp_greeting greeting_make(const struct tcp_conn *conn, enum tcp_greeting_kind kind,
					 const void *private_data, size_t private_size)
{
	struct tcp_greeting greeting = {
	    .magic = TCP_MAGIC,
	    .version = TCP_VERSION,
	    .kind = kind,
	    .private_size = (uint8_t)private_size,
	    .depth = (uint16_t)fabric_get_config(conn->base.fabric)->depth,
	};

	if (private_size)
		memcpy(greeting.private_data, private_data, private_size);
	return tcp_greeting_swap(greeting);
}

/* Sends a greeting. Returns 0 or -errno. Does not handle a partial send, because the empty send buffer of a new
   socket has space for a greeting. */
static int greeting_send(int fd, const struct tcp_greeting *greeting)
{
	ssize_t sent = send(fd, greeting, sizeof *greeting, MSG_DONTWAIT | MSG_NOSIGNAL);

	return sent == sizeof *greeting ? 0 : sent < 0 ? -errno : -EIO;
}

/* Receives bytes of the peer's greeting, and no bytes after it. Returns 1 if the greeting is complete, or 0 if bytes
   are missing. On error, writes the reason to *ret_why and returns -errno: -ECONNRESET at the end of the stream,
   -EPROTO, or -EPROTONOSUPPORT for another version. */
static int greeting_receive(struct tcp_conn *conn, unsigned kinds, const char **ret_why)
{
	uint16_t version = TCP_VERSION;
	ssize_t received;

	received = recv(conn->source.fd, (char *)&conn->theirs + conn->theirs_size,
			sizeof conn->theirs - conn->theirs_size, MSG_DONTWAIT);
	if (received < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	*ret_why = "it went away";
	if (received <= 0)
		return received < 0 ? -errno : -ECONNRESET;
	conn->theirs_size += (size_t)received;
	*ret_why = tcp_greeting_check(&conn->theirs, conn->theirs_size, kinds, &version);
	if (*ret_why)
		return version != TCP_VERSION ? -EPROTONOSUPPORT : -EPROTO;
	return conn->theirs_size == sizeof conn->theirs;
}

/*
 * Allocates the rings and buffers of a connection whose two greetings are known, in one mapping.
 *
 * The connecting side populates the mapping if it is going to post requests, because page faults would delay them.
 * The accepting side does not populate it, because most of its many connections are idle and would waste the memory.
 */
static int conn_memory(struct tcp_conn *conn)
{
	const struct fabric_config *config = fabric_get_config(conn->base.fabric);
	const unsigned depth = config->depth;
	int populate = conn->state == TCP_STATE_GREETING && !config->messages_only ? MAP_POPULATE : 0;
	uint32_t ops = 1, frames = 1;
	size_t size, operations, outs, headers, messages;
	uint8_t *memory;

	conn->peer_depth = tcp_greeting_swap(conn->theirs).depth;
	while (ops < depth)
		ops *= 2;
	while (frames < depth + conn->peer_depth + TCP_MESSAGES_MAX + 1)
		frames *= 2;
	operations = ops * sizeof *conn->ops;
	outs = frames * sizeof *conn->queue.outs;
	headers = frames * sizeof *conn->queue.frames;
	messages = TCP_MESSAGES_MAX * FABRIC_MESSAGE_MAX;
	size = TCP_RECEIVE_SIZE + operations + outs + headers + messages;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | populate, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	conn->memory = memory;
	conn->memory_size = size;
	conn->receive = memory;
	conn->ops = (struct tcp_op *)(memory += TCP_RECEIVE_SIZE);
	conn->op_mask = ops - 1;
	conn->queue.outs = (struct tcp_out *)(memory += operations);
	conn->queue.frames = (struct tcp_frame *)(memory += outs);
	conn->queue.mask = frames - 1;
	conn->messages = memory + headers;
	return 0;
}

/* --- Connecting ------------------------------------------------------------------------------------------- */

static int connect_status(int error)
{
	switch (error) {
	case ENETUNREACH:
	case EADDRNOTAVAIL:
	case EHOSTDOWN:
	/* A firewall rule forbids the connection. */
	case EACCES:
	case EPERM:
		return -EHOSTUNREACH;
	default:
		return -error;
	}
}

/* Tries the next address. If there is none, ends the connection with @status. */
static void connect_next(struct tcp_conn *conn, int status)
{
	tcp_conn_shut(conn);
	while (conn->address_next < conn->address_count) {
		const struct sockaddr_storage *address = &conn->addresses[conn->address_next];
		int fd;

		conn->deadline = address_deadline(conn->connect_until, conn->address_count - conn->address_next++);
		fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		if (fd < 0) {
			status = errno == EAFNOSUPPORT ? -EHOSTUNREACH : -errno;
			continue;
		}
		socket_tune(fd);
		if (connect(fd, (const struct sockaddr *)address, address_size(address)) == 0 || errno == EINPROGRESS) {
			tcp_conn_open(conn, fd);
			tcp_conn_arm(conn);
			return;
		}
		status = connect_status(errno);
		close(fd);
	}
	tcp_end(conn, status, status);
}

/* Sends the greeting once the socket is connected, or tries the next address if connecting has failed. Returns
   false if the socket is still connecting. */
static bool connect_step(struct tcp_conn *conn)
{
	const struct sockaddr_storage *address = &conn->addresses[conn->address_next - 1];
	int status;

	if (connect(conn->source.fd, (const struct sockaddr *)address, address_size(address)) < 0 && errno != EISCONN) {
		if (errno == EALREADY || errno == EINPROGRESS || errno == EINTR)
			return false;
		connect_next(conn, connect_status(errno));
		return true;
	}
	status = greeting_send(conn->source.fd, &conn->ours);
	if (status < 0) {
		connect_next(conn, status);
		return true;
	}
	tcp_state_set(conn, TCP_STATE_GREETING);
	conn->deadline = conn->connect_until;
	return true;
}

static bool greeting_step(struct tcp_conn *conn)
{
	const char *why;
	int status = greeting_receive(conn, 1u << TCP_ACCEPT | 1u << TCP_REJECT, &why);

	if (status == 0)
		return false;
	if (status < 0) {
		tcp_end(conn, status, status);
	} else if (conn->theirs.kind == TCP_REJECT) {
		conn->rejected = true;
		tcp_end(conn, -ECONNREFUSED, -ECONNREFUSED);
	} else if (conn_memory(conn) < 0) {
		tcp_end(conn, -ENOMEM, -ENOMEM);
	} else {
		tcp_state_set(conn, TCP_STATE_ESTABLISHED);
		conn->announce = true;
		conn->more = true;
	}
	return true;
}

void tcp_connect_expire(struct tcp_conn *conn)
{
	connect_next(conn, -ETIMEDOUT);
}

int tcp_connect(void *state, struct fabric_domain *domain, const struct uri *uri, const void *private_data,
		size_t private_size, struct fabric_conn **ret_conn)
{
	struct tcp *tcp = state;
	struct tcp_conn *conn;
	int count;

	if (uri->port == 0)
		return -EINVAL;
	conn = tcp_conn_new(tcp, TCP_STATE_CONNECTING);
	if (!conn)
		return -ENOMEM;
	count = address_resolve(uri, false, conn->addresses);
	if (count < 0) {
		tcp_conn_free(conn);
		return count;
	}
	conn->address_count = (unsigned)count;
	conn->base.domain = domain;
	uri_format(uri, conn->base.peer);
	conn->ours = greeting_make(conn, TCP_CONNECT, private_data, private_size);
	conn->connect_until = clock_now() + fabric_get_config(tcp->fabric)->connect_ms * 1000000ull;
	TAILQ_INSERT_TAIL(&tcp->conns, conn, link);
	connect_next(conn, -EHOSTUNREACH);
	fabric_touch(tcp->fabric);
	*ret_conn = &conn->base;
	return 0;
}

/* --- Listening -------------------------------------------------------------------------------------------- */

static void listener_source_ready(struct poller_source *source, unsigned events)
{
	struct tcp_listener *listener = (struct tcp_listener *)((char *)source - offsetof(struct tcp_listener, source));

	(void)events;
	listener->ready = true;
	listener->tcp->listeners_ready = true;
}

/* Returns the descriptor or -errno. */
static int listen_once(const struct sockaddr_storage *address)
{
	const int one = 1;
	int fd, status;

	fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno == EAFNOSUPPORT ? -EADDRNOTAVAIL : -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	socket_tune(fd);
	if (bind(fd, (const struct sockaddr *)address, address_size(address)) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	status = -errno;
	close(fd);
	return status;
}

/* Does the same as listen_once(), but retries if the port is in use. A killed process may still have the port,
   because the kernel frees its memory first. */
static int listen_at(const struct sockaddr_storage *address)
{
	const struct timespec pause = {.tv_nsec = LISTEN_PAUSE_MS * 1000000l};
	int status = listen_once(address);

	for (unsigned i = 0; status == -EADDRINUSE && i < LISTEN_TRIES; i++) {
		nanosleep(&pause, NULL);
		status = listen_once(address);
	}
	return status;
}

static int listener_open(struct tcp_listener *listener, const struct uri *uri)
{
	struct sockaddr_storage addresses[ADDRESS_MAX], bound;
	socklen_t size = sizeof bound;
	int fd = -EADDRNOTAVAIL, status;
	int count = address_resolve(uri, true, addresses);

	if (count < 0)
		return count == -ENOENT ? -EADDRNOTAVAIL : count;
	for (int i = 0; i < count && fd < 0; i++)
		fd = listen_at(&addresses[i]);
	if (fd < 0)
		return fd;
	if (getsockname(fd, (struct sockaddr *)&bound, &size) < 0) {
		status = -errno;
		close(fd);
		return status;
	}
	listener->base.port = address_port(&bound);
	listener->source.fd = fd;
	poller_arm(fabric_poller(listener->base.fabric), &listener->source, POLLER_IN);
	return 0;
}

int tcp_listen(void *state, const struct uri *uri, struct fabric_listener **ret_listener)
{
	struct tcp *tcp = state;
	struct tcp_listener *listener = calloc(1, sizeof *listener);
	int status;

	if (!listener)
		return -ENOMEM;
	listener->base.fabric = tcp->fabric;
	listener->tcp = tcp;
	listener->retry_at = BACKEND_NEVER;
	listener->source = (struct poller_source){.fd = -1, .ready = listener_source_ready};
	status = listener_open(listener, uri);
	if (status < 0) {
		free(listener);
		return status;
	}
	TAILQ_INSERT_TAIL(&tcp->listeners, listener, link);
	*ret_listener = &listener->base;
	return 0;
}

void tcp_listener_close(struct tcp_listener *listener)
{
	struct tcp *tcp = listener->tcp;

	TAILQ_REMOVE(&tcp->listeners, listener, link);
	poller_remove(fabric_poller(tcp->fabric), &listener->source);
	close(listener->source.fd);
	free(listener);
}

/* If the fabric has TCP_ARRIVING_MAX connections without a greeting, closes one of them for a new connection from
   @origin. */
static void arriving_make_room(struct tcp *tcp, uint64_t origin)
{
	const struct crowd_one newcomer = {.origin = origin};
	struct tcp_conn *arriving[TCP_ARRIVING_MAX], *conn;
	struct crowd_one ones[TCP_ARRIVING_MAX];
	uint32_t count = 0;
	uint64_t chance;

	static_assert(TCP_ARRIVING_MAX <= CROWD_MAX, "crowd_victim() takes them");
	if (tcp->arriving < TCP_ARRIVING_MAX)
		return;
	TAILQ_FOREACH_REVERSE(conn, &tcp->conns, tcp_conns, link)
	{
		if (conn->state != TCP_STATE_ARRIVING)
			continue;
		ones[count] = (struct crowd_one){.origin = conn->base.origin};
		arriving[count++] = conn;
		if (count == TCP_ARRIVING_MAX)
			break;
	}
	random_secret(&chance, sizeof chance);
	conn = arriving[crowd_victim(ones, count, &newcomer, chance)];
	log_debug("%s is closed, because it has sent nothing, and too many connections arrive", conn->base.peer);
	tcp_backend.disconnect(&conn->base);
}

static void conn_arrive(struct tcp_listener *listener, int fd, const struct sockaddr_storage *address, uint64_t now)
{
	struct tcp *tcp = listener->tcp;
	struct tcp_conn *conn;

	arriving_make_room(tcp, address_origin(address));
	conn = tcp_conn_new(tcp, TCP_STATE_ARRIVING);
	if (!conn) {
		close(fd);
		return;
	}
	address_name("tcp", address, conn->base.peer);
	conn->base.origin = address_origin(address);
	tcp_conn_open(conn, fd);
	conn->listener = listener;
	conn->deadline = now + fabric_get_config(tcp->fabric)->connect_ms * 1000000ull;
	tcp->arriving++;
	conn->unheard = true;
	tcp->unheard++;
	TAILQ_INSERT_TAIL(&tcp->conns, conn, link);
	tcp_activate(conn);
}

static void listener_poll(struct tcp_listener *listener, uint64_t now)
{
	const struct tcp *tcp = listener->tcp;

	listener->ready = false;
	if (tcp->unheard < UNHEARD_MAX)
		tcp_crowd_look(listener);
	/* Limits the time that a flood takes from established connections. */
	for (unsigned i = 0; i < ACCEPTS_MAX && tcp->unheard < UNHEARD_MAX; i++) {
		struct sockaddr_storage address;
		socklen_t size = sizeof address;
		int fd = accept4(listener->source.fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0 && tcp_crowd_refuses(listener, fd, address_origin(&address))) {
			close(fd);
			continue;
		}
		if (fd >= 0) {
			conn_arrive(listener, fd, &address, now);
			continue;
		}
		if (errno == EAGAIN) {
			poller_arm(fabric_poller(listener->base.fabric), &listener->source, POLLER_IN);
			return;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			if (fabric_may_tell(listener->base.fabric))
				log_warning("port %u: a connection has to wait: %s", listener->base.port,
					    format_errno(errno));
			listener->retry_at = now + RETRY_NS;
			return;
		}
		/* Other errors concern only the connection that accept4() removed from the queue: see accept(2). */
	}
	listener->ready = true;
}

void tcp_listeners_poll(struct tcp *tcp, uint64_t now)
{
	struct tcp_listener *listener;

	tcp->listeners_ready = false;
	TAILQ_FOREACH(listener, &tcp->listeners, link) {
		if (listener->ready)
			listener_poll(listener, now);
		tcp->listeners_ready |= listener->ready;
	}
}

void tcp_heard(struct tcp_conn *conn)
{
	conn->tcp->unheard -= conn->unheard;
	conn->unheard = false;
}

static bool arriving_step(struct tcp_conn *conn)
{
	const char *why;
	int status = greeting_receive(conn, 1u << TCP_CONNECT, &why);

	tcp_heard(conn);
	if (status == 0)
		return false;
	if (status > 0) {
		tcp_state_set(conn, TCP_STATE_REQUESTED);
		conn->announce = true;
		return true;
	}
	if ((status == -EPROTO || status == -EPROTONOSUPPORT) && fabric_may_tell(conn->base.fabric))
		log_warning("%s: closed: %s", conn->base.peer, why);
	if (status == -EPROTONOSUPPORT) {
		conn->ours = greeting_make(conn, TCP_REJECT, NULL, 0);
		greeting_send(conn->source.fd, &conn->ours);
	}
	tcp_backend.disconnect(&conn->base);
	return true;
}

int tcp_accept(struct fabric_conn *base)
{
	struct tcp_conn *conn = tcp_conn_of(base);
	int status = conn_memory(conn);

	if (status < 0)
		return status;
	conn->ours = greeting_make(conn, TCP_ACCEPT, NULL, 0);
	conn->send_error = greeting_send(conn->source.fd, &conn->ours);
	conn->listener = NULL;
	tcp_state_set(conn, TCP_STATE_ESTABLISHED);
	conn->announce = true;
	conn->more = true;
	tcp_activate(conn);
	return 0;
}

void tcp_reject(struct fabric_conn *base, const void *private_data, size_t private_size)
{
	struct tcp_conn *conn = tcp_conn_of(base);

	conn->ours = greeting_make(conn, TCP_REJECT, private_data, private_size);
	greeting_send(conn->source.fd, &conn->ours);
	tcp_backend.disconnect(base);
}

bool tcp_setup_step(struct tcp_conn *conn)
{
	bool moved = false;

	/* The peer's greeting may have arrived before this side has noticed that its socket is connected. So tries
	   both steps. */
	if (conn->state == TCP_STATE_CONNECTING)
		moved = connect_step(conn);
	if (conn->state == TCP_STATE_GREETING)
		return greeting_step(conn) || moved;
	if (conn->state == TCP_STATE_ARRIVING)
		return arriving_step(conn);
	return moved;
}
