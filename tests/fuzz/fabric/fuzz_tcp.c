/*
 * Fuzzes the tcp fabric with any bytes from the peer of a connection. The first byte chooses what receives them:
 *     0  a listener: the bytes are a greeting and more
 *     1  an established connection: the bytes are frames
 *     2  the same, but frames that name rkey 1 get the right rkey, and their address is an offset in the memory
 *     3  a connection with four operations in flight: the bytes are answers
 * Memory outside the registered regions never changes. Each operation is answered once and in order. The end of the
 * connection is reported once, as the last event.
 */
#include "common/log.h"
#include "fabric/fabric.h"
#include "fabric/tcp/tcp_frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY 8192u
#define GUARD 4096u
#define INPUT_MAX 65536u
#define OPS 4u

static struct fabric *fabric;
static struct fabric_domain *domain;
static struct fabric_region *region, *local_region;
static struct fabric_listener *listener;
static uint8_t arena[GUARD + MEMORY + GUARD], local[GUARD + MEMORY + GUARD];
static int raw_listener;
static struct sockaddr_in donor_address, raw_address;

static struct fabric_conn *conn;
static unsigned posted, answered;
static int ended;

#define must(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

static void open_once(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	socklen_t size = sizeof raw_address;

	if (fabric)
		return;
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	config.depth = 16;
	must(fabric_open(&config, &fabric) == 0 && fabric_domain_open(&domain) == 0);
	must(fabric_register(domain, arena + GUARD, MEMORY, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &region) == 0);
	must(fabric_register(domain, local + GUARD, MEMORY, FABRIC_LOCAL, &local_region) == 0);
	must(fabric_listen(fabric, "tcp://127.0.0.1:0", &listener) == 0);
	donor_address = (struct sockaddr_in){.sin_family = AF_INET,
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
					     .sin_port = htons(fabric_listener_port(listener))};
	raw_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	raw_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	must(bind(raw_listener, (struct sockaddr *)&raw_address, sizeof raw_address) == 0 &&
	     listen(raw_listener, 16) == 0);
	must(getsockname(raw_listener, (struct sockaddr *)&raw_address, &size) == 0);
}

static void take(const struct fabric_event *event)
{
	must(!ended || event->kind == FABRIC_CONNECT_REQUEST);
	switch (event->kind) {
	case FABRIC_CONNECT_REQUEST:
		must(!conn && event->size <= FABRIC_PRIVATE_MAX);
		conn = event->conn;
		must(fabric_accept(conn, domain, NULL) == 0);
		break;
	case FABRIC_DONE:
		must(event->cookie == answered && answered < posted);
		answered++;
		break;
	case FABRIC_MESSAGE:
		must(event->size >= 1 && event->size <= FABRIC_MESSAGE_MAX);
		break;
	case FABRIC_DISCONNECTED:
		must(event->status < 0 && answered == posted);
		ended = event->status;
		break;
	default:
		break;
	}
}

/* Bytes written to a loopback socket arrive at once. So polling until nothing comes takes all of them. */
static void settle(void)
{
	for (unsigned quiet = 0; quiet < 4; quiet++) {
		struct fabric_event events[8];
		int count = fabric_poll(fabric, events, 8);

		for (int i = 0; i < count; i++)
			take(&events[i]);
		if (count)
			quiet = 0;
	}
}

static void put(int fd, const void *bytes, size_t size)
{
	for (size_t sent = 0; sent < size;) {
		ssize_t some = send(fd, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (some < 0 && errno != EAGAIN)
			return; /* the fabric has closed the connection */
		if (some > 0)
			sent += (size_t)some;
		settle();
	}
}

static void greet(int fd, enum tcp_greeting_kind kind)
{
	struct tcp_greeting greeting = tcp_greeting_swap(
	    (struct tcp_greeting){.magic = TCP_MAGIC, .version = TCP_VERSION, .kind = kind, .depth = 16});

	put(fd, &greeting, sizeof greeting);
}

static int connect_raw(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), error = 0;
	socklen_t size = sizeof error;

	must(fd >= 0);
	if (connect(fd, (struct sockaddr *)&donor_address, sizeof donor_address) == 0)
		return fd;
	/* libFuzzer's timer has interrupted connect(2), which goes on in the background. */
	must(errno == EINTR);
	while (poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1) < 0)
		must(errno == EINTR);
	must(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && !error);
	return fd;
}

static int accept_raw(void)
{
	int fd = accept(raw_listener, NULL, NULL);

	while (fd < 0 && errno == EINTR)
		fd = accept(raw_listener, NULL, NULL);
	must(fd >= 0);
	return fd;
}

static int connect_asking(void)
{
	struct fabric_op ops[OPS];
	char uri[64];
	int fd;

	snprintf(uri, sizeof uri, "tcp://127.0.0.1:%u", ntohs(raw_address.sin_port));
	must(fabric_connect(fabric, domain, uri, NULL, 0, NULL, &conn) == 0);
	fd = accept_raw();
	settle();
	greet(fd, TCP_ACCEPT);
	for (unsigned i = 0; i < OPS; i++)
		ops[i] = (struct fabric_op){.kind = i == 2 ? FABRIC_WRITE : FABRIC_READ,
					    .length = 16 + i,
					    .local = local + GUARD + i * 64,
					    .region = local_region,
					    .cookie = i};
	posted = OPS;
	must(fabric_post(conn, ops, OPS) == OPS);
	return fd;
}

/* Makes frames that name rkey 1 name the registered memory. */
static void make_good(uint8_t *bytes, size_t size)
{
	struct fabric_remote remote = fabric_export(region, conn);
	struct tcp_frame frame;

	for (size_t at = 0; size - at >= sizeof frame && at < size;) {
		memcpy(&frame, bytes + at, sizeof frame);
		frame = tcp_frame_swap(frame);
		if (frame.rkey == 1) {
			frame.rkey = remote.rkey;
			frame.address += remote.address;
		}
		frame = tcp_frame_swap(frame);
		memcpy(bytes + at, &frame, sizeof frame);
		frame = tcp_frame_swap(frame);
		at += sizeof frame;
		if (frame.type == TCP_WRITE || frame.type == TCP_MESSAGE)
			at += frame.length < size - at ? frame.length : size - at;
	}
}

static void check_guards(void)
{
	for (unsigned i = 0; i < GUARD; i++)
		must(!arena[i] && !arena[GUARD + MEMORY + i] && !local[i] && !local[GUARD + MEMORY + i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct linger reset = {.l_onoff = 1};
	static uint8_t bytes[INPUT_MAX];
	int fd;

	if (size < 1 || size > INPUT_MAX)
		return 0;
	open_once();
	conn = NULL;
	posted = answered = 0;
	ended = 0;
	memcpy(bytes, data + 1, size - 1);
	fd = data[0] % 4 == 3 ? connect_asking() : connect_raw();
	if (data[0] % 4 == 1 || data[0] % 4 == 2) {
		greet(fd, TCP_CONNECT);
		must(conn);
	}
	if (data[0] % 4 == 2)
		make_good(bytes, size - 1);
	put(fd, bytes, size - 1);
	settle();
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	close(fd);
	settle();
	must(!conn || ended);
	fabric_disconnect(conn);
	check_guards();
	return 0;
}
