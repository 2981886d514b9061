/*
 * fabric: how connections end (deaths, disconnects, time-outs). Each operation in flight is answered once, and then the
 * end is reported.
 */
#include "fabric/tcp/tcp_frame.h"
#include "tests/lib/entries.h"
#include "tests/unit/fabric/pair.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

/* Returns true if cookies 0 .. @count - 1 were answered once each, in order, and FABRIC_DISCONNECTED came last. */
static bool answered_once(const struct side *side, unsigned count)
{
	unsigned done = 0;

	for (unsigned i = 0; i < side->count; i++) {
		if (side->seen[i].kind == FABRIC_DONE && side->seen[i].cookie != done++)
			return false;
		if (side->seen[i].kind == FABRIC_DISCONNECTED && i != side->count - 1)
			return false;
	}
	return done == count && side_count(side, FABRIC_DISCONNECTED) == 1;
}

static void a_disconnect_by_the_peer_answers_all_in_flight_once(unsigned max)
{
	struct pair pair;
	struct fabric_op ops[200];
	unsigned lost = 0;

	pair_open(&pair, NULL);
	pair.client.max = max;
	pair_connect(&pair);
	for (unsigned i = 0; i < 200; i++)
		ops[i] = pair_op(&pair, i % 2 ? FABRIC_WRITE : FABRIC_READ, 0, FABRIC_OP_MAX, i);
	fabric_post(pair.client.conn, ops, 200);
	for (unsigned i = 0; i < 3; i++) {
		side_poll(&pair.donor);
		side_poll(&pair.client);
	}
	fabric_disconnect(pair.donor.conn);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ECONNRESET,
	   "a disconnect by the peer ends the connection with -ECONNRESET");
	ok(answered_once(&pair.client, 200), "each of 200 operations in flight is answered once at %u event%s a poll",
	   max, max == 1 ? "" : "s");
	for (unsigned i = 0; i < 200; i++)
		lost += side_seen(&pair.client, FABRIC_DONE, i)->status == -ECONNRESET;
	ok(lost > 0, "a disconnect by the peer loses operations in flight (%u of 200)", lost);
	pump_for(&pair, 10);
	ok(side_count(&pair.client, FABRIC_DISCONNECTED) == 1 && side_count(&pair.donor, FABRIC_DISCONNECTED) == 0,
	   "the end is reported once, and only to the side that did not disconnect");
	pair_close(&pair);
}

/* A side ends its own connection. No event of this connection follows. */
static void no_event_follows_ones_own_disconnect(void)
{
	struct pair pair;
	struct fabric_op ops[100];
	unsigned count;

	pair_open(&pair, NULL);
	pair_connect(&pair);
	for (unsigned i = 0; i < 100; i++)
		ops[i] = pair_op(&pair, FABRIC_READ, 0, 4096, i);
	fabric_post(pair.client.conn, ops, 100);
	side_poll(&pair.donor);
	fabric_disconnect(pair.client.conn);
	count = pair.client.count;
	memset(pair.client.memory, 7, 4096);
	ok(pump_until(&pair, side_ended(&pair.donor)) && side_ended(&pair.donor) == -ECONNRESET,
	   "the donor is told of the client's disconnect");
	pump_for(&pair, 10);
	ok(pair.client.count == count, "no event follows one's own disconnect");
	ok(pair.client.memory[0] == 7 && pair.client.memory[4095] == 7, "no byte arrives after one's own disconnect");
	pair_close(&pair);
}

/* Messages that were taken before fabric_disconnect() arrive, even if there is unread input. */
static void messages_sent_before_a_disconnect_arrive(void)
{
	struct pair pair;
	struct fabric_op ops[64];

	pair_open(&pair, NULL);
	pair_connect(&pair);
	for (unsigned i = 0; i < 64; i++)
		ops[i] = pair_op(&pair, FABRIC_WRITE, 0, 4096, i);
	fabric_post(pair.client.conn, ops, 64);
	fabric_send(pair.donor.conn, "bye", 3);
	fabric_disconnect(pair.donor.conn);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_count(&pair.client, FABRIC_MESSAGE) == 1 &&
	       memcmp(side_seen(&pair.client, FABRIC_MESSAGE, 0)->data, "bye", 3) == 0,
	   "a message sent right before disconnecting arrives");
	pair_close(&pair);
}

/* The data of an event is valid until the next poll, even if its connection is ended in between. */
static void the_data_of_an_event_outlives_its_connection(void)
{
	struct fabric_event event;
	struct pair pair;

	pair_open(&pair, NULL);
	pair_connect(&pair);
	fabric_send(pair.donor.conn, "still here", 11);
	while (fabric_poll(pair.client.fabric, &event, 1) == 0)
		;
	fabric_disconnect(event.conn);
	ok(event.kind == FABRIC_MESSAGE && strcmp(event.data, "still here") == 0,
	   "an event's data outlives its connection");
	pair_close(&pair);
}

/* A donor's connection is ended while a fork of the donor still has it. */
static void a_disconnect_holds_for_a_fork_too(void)
{
	struct pair pair;
	struct fabric_op ops[100];
	unsigned got = 0;
	pid_t child;

	pair_open(&pair, NULL);
	pair_connect(&pair);
	child = fork();
	if (child == 0) {
		/* Until this child is killed, it alone serves the donor's side. */
		for (;;)
			side_poll(&pair.donor);
	}
	for (unsigned i = 0; i < 100; i++)
		ops[i] = pair_op(&pair, FABRIC_READ, 0, FABRIC_OP_MAX, i);
	fabric_disconnect(pair.donor.conn); /* shuts down the socket for the child, too */
	fabric_post(pair.client.conn, ops, 100);
	while (!side_ended(&pair.client) && got++ < 1000000)
		side_poll(&pair.client);
	ok(side_ended(&pair.client) == -ECONNRESET && answered_once(&pair.client, 100),
	   "a connection that is ended in one process is ended for its fork, too");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	pair_close(&pair);
}

/* Returns a raw socket that is the peer of an established connection. */
static int raw_establish(struct pair *pair)
{
	struct tcp_greeting greeting = tcp_greeting_swap(
	    (struct tcp_greeting){.magic = TCP_MAGIC, .version = TCP_VERSION, .kind = TCP_CONNECT, .depth = 16});
	int fd = raw_connect(pair);

	if (write(fd, &greeting, sizeof greeting) != sizeof greeting ||
	    !pump_until(pair, side_count(&pair->donor, FABRIC_ESTABLISHED)))
		abort();
	return fd;
}

static void a_stream_that_ends_inside_a_frame_is_reset(void)
{
	struct tcp_frame frame;
	struct fabric_remote remote;
	struct linger reset = {.l_onoff = 1};
	struct pair pair;
	int fd;

	pair_open(&pair, NULL);
	fd = raw_establish(&pair);
	ok(write(fd, "\1\0", 2) == 2, "a peer sends two bytes of a header");
	close(fd);
	ok(pump_until(&pair, side_ended(&pair.donor)) && side_ended(&pair.donor) == -ECONNRESET,
	   "the end of the stream inside a header ends the connection with -ECONNRESET");
	fabric_disconnect(pair.donor.conn);

	pair.donor.count = 0;
	fd = raw_establish(&pair);
	remote = fabric_export(pair.donor.region, pair.donor.conn);
	frame = tcp_frame_swap(
	    (struct tcp_frame){.type = TCP_WRITE, .length = 4096, .rkey = remote.rkey, .address = remote.address});
	ok(write(fd, &frame, sizeof frame) == sizeof frame && write(fd, "abc", 3) == 3,
	   "a peer sends a write with three bytes of its data");
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	close(fd);
	ok(pump_until(&pair, side_ended(&pair.donor)) && side_ended(&pair.donor) == -ECONNRESET,
	   "a reset inside the data of a write ends the connection with -ECONNRESET");
	pair_close(&pair);
}

static void a_donor_that_hangs_times_out(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct fabric_event events[16];
	struct fabric_op ops[10];
	struct pair pair;
	uint64_t begin;

	config.io_ms = 100;
	pair_open(&pair, &config);
	pair_connect(&pair);
	for (unsigned i = 0; i < 10; i++)
		ops[i] = pair_op(&pair, FABRIC_READ, 0, 4096, i);
	fabric_post(pair.client.conn, ops, 10);
	begin = clock_now();
	while (!side_ended(&pair.client)) { /* only the client runs, and it sleeps */
		int count = fabric_wait(pair.client.fabric, events, 16, 5000);

		for (int i = 0; i < count; i++)
			side_note(&pair.client, &events[i]);
	}
	ok(side_ended(&pair.client) == -ETIMEDOUT && answered_once(&pair.client, 10),
	   "a donor that hangs ends the connection with -ETIMEDOUT and each operation answered once");
	ok(clock_now() - begin >= 100000000 && clock_now() - begin < 2000000000,
	   "a donor that hangs ends the connection after io_ms");
	pair_close(&pair);
}

/* Calls fabric_close() while everything is open, in every state. */
static void fabric_close_closes_in_any_state(void)
{
	const unsigned before = entries("/proc/self/fd");
	struct pair pair;
	struct fabric_conn *conn;
	struct fabric_op op;

	pair_open(&pair, NULL);
	pair_connect(&pair);
	op = pair_op(&pair, FABRIC_READ, 0, FABRIC_OP_MAX, 0);
	fabric_post(pair.client.conn, &op, 1);
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &conn);
	side_poll(&pair.client);
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &conn);
	side_poll(&pair.donor);
	fabric_watch(pair.client.fabric, 0, NULL);
	pair_close(&pair);
	fabric_close(NULL);
	fabric_disconnect(NULL);
	fabric_deregister(NULL);
	fabric_domain_close(NULL);
	/* An RDMA library may keep descriptors of its own. */
	if (pair_is_tcp())
		ok(entries("/proc/self/fd") == before, "fabric_close() closes connections in any state");
}

int main(void)
{
	if (!getenv("TAP_LOG"))
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	a_disconnect_by_the_peer_answers_all_in_flight_once(64);
	a_disconnect_by_the_peer_answers_all_in_flight_once(1);
	no_event_follows_ones_own_disconnect();
	messages_sent_before_a_disconnect_arrive();
	the_data_of_an_event_outlives_its_connection();
	if (pair_is_tcp()) { /* these tests play the donor, or delay its program */
		a_disconnect_holds_for_a_fork_too();
		a_stream_that_ends_inside_a_frame_is_reset();
		a_donor_that_hangs_times_out();
	}
	fabric_close_closes_in_any_state();
	return tap_done();
}
