/*
 * pair: a client and a donor over loopback in one thread, for the fabric's tests. Each side keeps its events with their
 * data, in the order they came. pump_until() polls both sides until a condition holds, for at most five seconds.
 */
#ifndef TESTS_FABRIC_PAIR_H
#define TESTS_FABRIC_PAIR_H

#include "common/clock.h"
#include "common/log.h"
#include "fabric/fabric.h"
#include "tests/lib/tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIR_MEMORY (8u << 20)
#define PAIR_EVENTS (1u << 17) /* untouched entries cost no memory */

struct seen {
	enum fabric_event_kind kind;
	int status;
	struct fabric_conn *conn;
	uint64_t cookie;
	void *user;
	size_t size;
	uint8_t data[FABRIC_MESSAGE_MAX];
};

struct side {
	struct fabric *fabric;
	struct fabric_domain *domain;
	uint8_t *memory; /* PAIR_MEMORY bytes, registered as `region` */
	struct fabric_region *region;
	struct fabric_conn *conn;
	struct fabric_listener *listener;
	bool manual;  /* the test answers connect requests */
	unsigned max; /* events taken in one poll, or 0 for 64 */
	struct seen *seen;
	unsigned count;
};

struct pair {
	struct side client, donor;
	char uri[64];
};

__attribute__((unused)) static void side_open(struct side *side, const struct fabric_config *config, unsigned access)
{
	if (fabric_open(config, &side->fabric) < 0 || fabric_domain_open(&side->domain) < 0)
		abort();
	side->memory = mmap(NULL, PAIR_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	side->seen = calloc(PAIR_EVENTS, sizeof *side->seen);
	if (side->memory == MAP_FAILED || !side->seen ||
	    fabric_register(side->domain, side->memory, PAIR_MEMORY, access, &side->region) < 0)
		abort();
}

__attribute__((unused)) static void side_close(struct side *side)
{
	fabric_close(side->fabric);
	fabric_deregister(side->region);
	fabric_domain_close(side->domain);
	munmap(side->memory, PAIR_MEMORY);
	free(side->seen);
}

__attribute__((unused)) static void side_note(struct side *side, const struct fabric_event *event)
{
	struct seen *seen = &side->seen[side->count++];

	if (side->count == PAIR_EVENTS)
		abort();
	*seen = (struct seen){.kind = event->kind,
			      .status = event->status,
			      .conn = event->conn,
			      .cookie = event->cookie,
			      .user = event->user,
			      .size = event->size};
	if (event->data)
		memcpy(seen->data, event->data, event->size);
	if (event->kind == FABRIC_CONNECT_REQUEST) {
		side->conn = event->conn;
		if (!side->manual && fabric_accept(event->conn, side->domain, side) < 0)
			abort();
	}
}

__attribute__((unused)) static void side_poll(struct side *side)
{
	unsigned max = side->max ? side->max : 64;
	struct fabric_event *events = calloc(max, sizeof *events); /* exact size: sanitizers see a write beyond */
	int count = fabric_poll(side->fabric, events, max);

	for (int i = 0; i < count; i++)
		side_note(side, &events[i]);
	free(events);
	if (count == 0)
		sched_yield(); /* soft-RoCE's own threads may be waiting for this CPU */
}

/* Returns how many events of this kind came. */
__attribute__((unused)) static unsigned side_count(const struct side *side, enum fabric_event_kind kind)
{
	unsigned count = 0;

	for (unsigned i = 0; i < side->count; i++)
		count += side->seen[i].kind == kind;
	return count;
}

/* Returns event number @index of this kind, counted from 0, or NULL if there is none. */
__attribute__((unused)) static const struct seen *side_seen(const struct side *side, enum fabric_event_kind kind,
							    unsigned index)
{
	for (unsigned i = 0; i < side->count; i++)
		if (side->seen[i].kind == kind && index-- == 0)
			return &side->seen[i];
	return NULL;
}

/* Returns the status of FABRIC_DISCONNECTED, or 0 if there was none. */
__attribute__((unused)) static int side_ended(const struct side *side)
{
	const struct seen *seen = side_seen(side, FABRIC_DISCONNECTED, 0);

	return seen ? seen->status : 0;
}

#define pump_until(pair, condition)                                                                                    \
	({                                                                                                             \
		uint64_t pump_deadline = clock_now() + 5000000000ull;                                                  \
		while (!(condition) && clock_now() < pump_deadline) {                                                  \
			side_poll(&(pair)->client);                                                                    \
			side_poll(&(pair)->donor);                                                                     \
		}                                                                                                      \
		(condition);                                                                                           \
	})

/* Polls both sides for @ms, in which the test expects no event. */
__attribute__((unused)) static void pump_for(struct pair *pair, unsigned ms)
{
	uint64_t deadline = clock_now() + ms * 1000000ull;

	while (clock_now() < deadline) {
		side_poll(&pair->client);
		side_poll(&pair->donor);
	}
}

/* Opens both sides. The donor listens at @host over the fabric @scheme. */
__attribute__((unused)) static void pair_open_over(struct pair *pair, const struct fabric_config *config,
						   const char *scheme, const char *host)
{
	char listen[64];

	log_setup("test", getenv("TAP_LOG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR);
	*pair = (struct pair){0};
	side_open(&pair->client, config, FABRIC_LOCAL);
	side_open(&pair->donor, config, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE);
	snprintf(listen, sizeof listen, "%s://%s:0", scheme, host);
	if (fabric_listen(pair->donor.fabric, listen, &pair->donor.listener) < 0)
		abort();
	snprintf(pair->uri, sizeof pair->uri, "%s://%s:%u", scheme, host, fabric_listener_port(pair->donor.listener));
}

/* Opens a pair over the fabric in FARPAGE_TEST_FABRIC, such as "rdma 10.77.0.1". The default is tcp. */
__attribute__((unused)) static void pair_open(struct pair *pair, const struct fabric_config *config)
{
	const char *fabric = getenv("FARPAGE_TEST_FABRIC");
	char scheme[8] = "tcp", host[48] = "127.0.0.1";

	if (fabric && sscanf(fabric, "%7s %47s", scheme, host) != 2)
		abort();
	pair_open_over(pair, config, scheme, host);
}

/*
 * Returns true over TCP, where the donor's program serves. Tests may then delay the donor, or replace it by a plain
 * socket.
 */
__attribute__((unused)) static bool pair_is_tcp(void)
{
	return !getenv("FARPAGE_TEST_FABRIC");
}

/* Connects. Returns true when both sides are established. */
__attribute__((unused)) static bool pair_connect(struct pair *pair)
{
	if (fabric_connect(pair->client.fabric, pair->client.domain, pair->uri, NULL, 0, &pair->client,
			   &pair->client.conn) < 0)
		return false;
	return pump_until(pair, side_count(&pair->client, FABRIC_ESTABLISHED) &&
				    side_count(&pair->donor, FABRIC_ESTABLISHED));
}

__attribute__((unused)) static void pair_close(struct pair *pair)
{
	side_close(&pair->client);
	side_close(&pair->donor);
}

/* Returns an operation at the same offset of both memories. */
__attribute__((unused)) static struct fabric_op pair_op(const struct pair *pair, enum fabric_op_kind kind,
							size_t offset, uint32_t length, uint64_t cookie)
{
	struct fabric_op op = {.kind = kind,
			       .length = length,
			       .local = pair->client.memory + offset,
			       .region = pair->client.region,
			       .remote = fabric_export(pair->donor.region, pair->client.conn),
			       .cookie = cookie};

	op.remote.address += offset;
	return op;
}

__attribute__((unused)) static void fill(uint8_t *bytes, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		bytes[i] = (uint8_t)(seed >> 56);
	}
}

/* Returns a plain blocking socket that is connected to the donor's port. */
__attribute__((unused)) static int raw_connect(const struct pair *pair)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				      .sin_port = htons(fabric_listener_port(pair->donor.listener))};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		abort();
	return fd;
}

/* Returns true if the peer of a raw socket has closed it. Skips all data sent before. */
__attribute__((unused)) static bool raw_closed(int fd)
{
	char bytes[256];
	ssize_t received;

	while ((received = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
		;
	return received == 0 || errno == ECONNRESET;
}

#endif
