/* How connections end: deaths, disconnects, time-outs. Everything in flight is answered once, then the end is told. */
#include "fabric/tcp/tcp_frame.h"
#include "tests/unit/fabric/pair.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

/* All of cookies 0 .. count - 1 answered exactly once, in order, and FABRIC_DISCONNECTED last. */
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

static void test_peer_disconnects(unsigned max)
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
	   "the peer disconnects");
	ok(answered_once(&pair.client, 200), "each of 200 in flight is answered once, %u event%s a poll", max,
	   max == 1 ? "" : "s");
	for (unsigned i = 0; i < 200; i++)
		lost += side_seen(&pair.client, FABRIC_DONE, i)->status == -ECONNRESET;
	ok(lost > 0, "%u of them lost", lost);
	pump_for(&pair, 10);
	ok(side_count(&pair.client, FABRIC_DISCONNECTED) == 1 && side_count(&pair.donor, FABRIC_DISCONNECTED) == 0,
	   "the end is told once, and not to who made it");
	pair_close(&pair);
}

/* Who asks ends the connection: no event of it follows. */
static void test_own_disconnect(void)
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
	   "the donor learns of it");
	pump_for(&pair, 10);
	ok(pair.client.count == count, "no event follows one's own disconnect");
	ok(pair.client.memory[0] == 7 && pair.client.memory[4095] == 7, "and no byte");
	pair_close(&pair);
}

/* Messages taken before fabric_disconnect() arrive, also when there is unread input. */
static void test_last_words(void)
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

/* The data of an event is good until the next poll, also when its connection was ended in between. */
static void test_data_outlives(void)
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

/* A donor process that is killed. */
static void test_killed(void)
{
	struct pair pair;
	struct fabric_op ops[100];
	unsigned got = 0;
	pid_t child;

	pair_open(&pair, NULL);
	pair_connect(&pair);
	child = fork();
	if (child == 0) {
		/* The donor lives on here only: it serves a little and then hangs. */
		for (;;)
			side_poll(&pair.donor);
	}
	for (unsigned i = 0; i < 100; i++)
		ops[i] = pair_op(&pair, FABRIC_READ, 0, FABRIC_OP_MAX, i);
	fabric_disconnect(pair.donor.conn); /* shuts the socket for the child too */
	fabric_post(pair.client.conn, ops, 100);
	while (!side_ended(&pair.client) && got++ < 1000000)
		side_poll(&pair.client);
	ok(side_ended(&pair.client) == -ECONNRESET && answered_once(&pair.client, 100),
	   "a connection ended in one process is ended for its fork too");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	pair_close(&pair);
}

/* A raw peer of an established connection, for bad ends. */
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

static void test_end_in_frame(void)
{
	struct tcp_frame frame;
	struct fabric_remote remote;
	struct linger reset = {.l_onoff = 1};
	struct pair pair;
	int fd;

	pair_open(&pair, NULL);
	fd = raw_establish(&pair);
	ok(write(fd, "\1\0", 2) == 2, "two bytes of a header");
	close(fd);
	ok(pump_until(&pair, side_ended(&pair.donor)) && side_ended(&pair.donor) == -ECONNRESET,
	   "and the end of the stream: reset");
	fabric_disconnect(pair.donor.conn);

	pair.donor.count = 0;
	fd = raw_establish(&pair);
	remote = fabric_export(pair.donor.region, pair.donor.conn);
	frame = tcp_frame_swap(
	    (struct tcp_frame){.type = TCP_WRITE, .length = 4096, .rkey = remote.rkey, .address = remote.address});
	ok(write(fd, &frame, sizeof frame) == sizeof frame && write(fd, "abc", 3) == 3,
	   "a write with three bytes of its data");
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	close(fd);
	ok(pump_until(&pair, side_ended(&pair.donor)) && side_ended(&pair.donor) == -ECONNRESET, "and a reset: reset");
	pair_close(&pair);
}

static void test_io_timeout(void)
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
	while (!side_ended(&pair.client)) { /* only the client runs, asleep */
		int count = fabric_wait(pair.client.fabric, events, 16, 5000);

		for (int i = 0; i < count; i++)
			side_note(&pair.client, &events[i]);
	}
	ok(side_ended(&pair.client) == -ETIMEDOUT && answered_once(&pair.client, 10),
	   "a donor that hangs: time out, all answered once");
	ok(clock_now() - begin >= 100000000 && clock_now() - begin < 2000000000, "at io_ms");
	pair_close(&pair);
}

/* fabric_close() with everything open, in every state. */
static void test_close(void)
{
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
	fabric_listener_close(NULL);
	fabric_domain_close(NULL);
	ok(true, "everything is closed in any state");
}

int main(void)
{
	if (!getenv("TAP_LOG"))
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	test_peer_disconnects(64);
	test_peer_disconnects(1);
	test_own_disconnect();
	test_last_words();
	test_data_outlives();
	if (pair_is_tcp()) { /* they play the donor, or hold its program back */
		test_killed();
		test_end_in_frame();
		test_io_timeout();
	}
	test_close();
	return tap_done();
}
