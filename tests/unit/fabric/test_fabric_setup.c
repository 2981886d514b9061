/* fabric: connects and listens, also with peers that break the protocol, are slow, or are silent. */
#include "fabric/tcp/tcp_frame.h"
#include "tests/unit/fabric/pair.h"

#include <fcntl.h>
#include <sys/resource.h>

static struct tcp_greeting greeting_good(void)
{
	return tcp_greeting_swap(
	    (struct tcp_greeting){.magic = TCP_MAGIC, .version = TCP_VERSION, .kind = TCP_CONNECT, .depth = 16});
}

static void private_data_goes_with_requests_and_rejects(void)
{
	struct pair pair;
	uint8_t hello[FABRIC_PRIVATE_MAX];
	const struct seen *seen;

	fill(hello, sizeof hello, 1);
	pair_open(&pair, NULL);
	pair.donor.manual = true;
	ok(fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, hello, sizeof hello + 1, NULL,
			  &pair.client.conn) == -EINVAL,
	   "too much private data is refused");
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, hello, sizeof hello, NULL, &pair.client.conn);
	ok(pump_until(&pair, side_count(&pair.donor, FABRIC_CONNECT_REQUEST)), "a connect request arrives");
	seen = side_seen(&pair.donor, FABRIC_CONNECT_REQUEST, 0);
	ok(seen->size == sizeof hello && memcmp(seen->data, hello, sizeof hello) == 0,
	   "a connect request carries its private data");
	ok(side_count(&pair.client, FABRIC_ESTABLISHED) == 0, "a connection is not established before it is accepted");
	fabric_reject(pair.donor.conn, "full", 5);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ECONNREFUSED,
	   "a rejected connection ends with -ECONNREFUSED");
	seen = side_seen(&pair.client, FABRIC_DISCONNECTED, 0);
	ok(seen->size == 5 && strcmp((const char *)seen->data, "full") == 0,
	   "a rejected connection gets the reject's private data");
	ok(side_count(&pair.client, FABRIC_ESTABLISHED) == 0 && side_count(&pair.donor, FABRIC_DISCONNECTED) == 0,
	   "a rejected connection has no other event on either side");
	pair_close(&pair);
}

static int connect_status(struct pair *pair, const char *uri)
{
	pair->client.count = 0;
	if (fabric_connect(pair->client.fabric, pair->client.domain, uri, NULL, 0, NULL, &pair->client.conn) < 0)
		return 1;
	pump_until(pair, side_ended(&pair->client));
	fabric_disconnect(pair->client.conn);
	return side_ended(&pair->client);
}

/* Sets @ret_uri to an address on the donor's host where nobody listens any more. */
static void vacant_uri(const struct pair *pair, char ret_uri[64])
{
	struct fabric_listener *listener;
	struct fabric *fabric;
	char *port;

	strcpy(ret_uri, pair->uri);
	port = strrchr(ret_uri, ':');
	strcpy(port, ":0");
	if (fabric_open(NULL, &fabric) < 0 || fabric_listen(fabric, ret_uri, &listener) < 0)
		abort();
	sprintf(port, ":%u", fabric_listener_port(listener));
	fabric_close(fabric);
}

static void unusable_addresses_are_refused(void)
{
	struct pair pair;
	struct fabric_listener *listener;
	struct fabric_conn *conn;
	char uri[64];

	pair_open(&pair, NULL);
	ok(fabric_listen(pair.donor.fabric, pair.uri, &listener) == -EADDRINUSE, "a port in use cannot be listened on");
	ok(fabric_listen(pair.donor.fabric, "tcp://192.0.2.1:0", &listener) == -EADDRNOTAVAIL,
	   "another host's address cannot be listened on");
	ok(fabric_listen(pair.donor.fabric, "pigeon://127.0.0.1:0", &listener) == -EINVAL,
	   "an unknown scheme cannot be listened on");
	ok(fabric_connect(pair.client.fabric, pair.client.domain, "tcp://[::1", NULL, 0, NULL, &conn) == -EINVAL,
	   "a malformed address cannot be connected to");
	ok(fabric_connect(pair.client.fabric, pair.client.domain, "tcp://no-such-host.invalid", NULL, 0, NULL, &conn) ==
	       -ENOENT,
	   "a name that does not resolve cannot be connected to");
	vacant_uri(&pair, uri);
	ok(connect_status(&pair, uri) == -ECONNREFUSED, "a connect to a port that nobody listens on is refused");
	pair_close(&pair);
}

static void ipv6_peers_connect(void)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct pair pair;
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;

	if (fd >= 0)
		close(fd);
	if (!has) {
		tap_skip("a connection over IPv6 is established", "no ::1 here");
		return;
	}
	pair_open_over(&pair, NULL, "tcp", "[::1]");
	ok(pair_connect(&pair), "a connection over IPv6 is established: %s", pair.uri);
	ok(strncmp(fabric_conn_peer(pair.donor.conn), "tcp://[::1]:", 12) == 0 &&
	       strcmp(fabric_conn_peer(pair.client.conn), pair.uri) == 0,
	   "a peer over IPv6 is named with brackets: %s", fabric_conn_peer(pair.donor.conn));
	pair_close(&pair);
}

static void bad_listeners_end_the_connect_with_a_reason(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
	struct pair pair;
	char uri[64];
	uint64_t begin;

	config.connect_ms = 100;
	if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 8) < 0)
		abort();
	getsockname(listener, (struct sockaddr *)&address, &size);
	snprintf(uri, sizeof uri, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
	pair_open(&pair, &config);
	begin = clock_now();
	ok(connect_status(&pair, uri) == -ETIMEDOUT && clock_now() - begin >= 100000000,
	   "a listener that never answers ends the connect with -ETIMEDOUT");

	pair.client.count = 0;
	fabric_connect(pair.client.fabric, pair.client.domain, uri, NULL, 0, NULL, &pair.client.conn);
	close(accept(listener, NULL, NULL)); /* the earlier connection, which timed out */
	fd = accept(listener, NULL, NULL);
	ok(write(fd, "HTTP/1.1 400 Bad Request\r\n", 26) == 26 && pump_until(&pair, side_ended(&pair.client)) &&
	       side_ended(&pair.client) == -EPROTO,
	   "a listener with another protocol ends the connect with -EPROTO");
	fabric_disconnect(pair.client.conn);
	close(fd);

	pair.client.count = 0;
	fabric_connect(pair.client.fabric, pair.client.domain, uri, NULL, 0, NULL, &pair.client.conn);
	fd = accept(listener, NULL, NULL);
	close(fd);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ECONNRESET,
	   "a listener that hangs up ends the connect with -ECONNRESET");
	fabric_disconnect(pair.client.conn);

	pair.client.count = 0;
	fabric_connect(pair.client.fabric, pair.client.domain, uri, NULL, 0, NULL, &pair.client.conn);
	fd = accept(listener, NULL, NULL);
	{
		struct tcp_greeting greeting = greeting_good();

		greeting.version ^= 0x100;
		ok(write(fd, &greeting, sizeof greeting) == sizeof greeting &&
		       pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -EPROTONOSUPPORT,
		   "a listener of another version ends the connect with -EPROTONOSUPPORT");
	}
	close(fd);
	close(listener);
	pair_close(&pair);
}

/* Sends a raw peer's first bytes. The donor must close that connection and continue with others. */
static void check_greeting(const char *name, const void *bytes, size_t size)
{
	struct pair pair;
	int fd;

	pair_open(&pair, NULL);
	fd = raw_connect(&pair);
	ok(write(fd, bytes, size) == (ssize_t)size && pump_until(&pair, raw_closed(fd)), "%s closes the connection",
	   name);
	ok(pair.donor.count == 0, "%s causes no event", name);
	ok(pair_connect(&pair), "%s keeps no other peer from connecting", name);
	close(fd);
	pair_close(&pair);
}

static void bad_greetings_close_the_connection(void)
{
	struct tcp_greeting greeting = greeting_good();

	check_greeting("an HTTP request", "GET / HTTP/1.1\r\nHost: donor\r\n\r\n", 31);
	check_greeting("one wrong byte", "x", 1);
	greeting.kind = TCP_ACCEPT;
	check_greeting("an accept instead of a greeting", &greeting, sizeof greeting);
	greeting = greeting_good();
	greeting.private_size = FABRIC_PRIVATE_MAX + 1;
	check_greeting("a greeting with too much private data", &greeting, sizeof greeting);
	greeting = greeting_good();
	greeting.depth = 0;
	check_greeting("a greeting of depth 0", &greeting, sizeof greeting);
	greeting = greeting_good();
	greeting.depth = 0xffff;
	check_greeting("a greeting of too large a depth", &greeting, sizeof greeting);
	greeting = greeting_good();
	greeting.version ^= 0x100;
	check_greeting("a greeting of another version", &greeting, sizeof greeting);
}

static void silent_peers_are_dropped_at_connect_ms(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct tcp_greeting greeting = greeting_good();
	struct pair pair;
	int silent, slow;

	config.connect_ms = 100;
	pair_open(&pair, &config);
	silent = raw_connect(&pair);
	slow = raw_connect(&pair);
	ok(write(slow, &greeting, 10) == 10 && pair_connect(&pair), "a client connects past a silent and a slow peer");
	ok(pump_until(&pair, raw_closed(silent) && raw_closed(slow)),
	   "a silent and a slow peer are dropped at connect_ms");
	ok(side_count(&pair.donor, FABRIC_CONNECT_REQUEST) == 1, "a silent and a slow peer cause no connect request");
	close(silent);
	close(slow);
	pair_close(&pair);
}

/* The frames of a good connection arrive one byte at a time. */
static void frames_may_come_byte_by_byte(void)
{
	struct pair pair;
	struct tcp_greeting greeting = greeting_good(), answer;
	struct fabric_remote remote;
	struct {
		struct tcp_frame write;
		uint8_t data[5];
		struct tcp_frame read;
		struct tcp_frame message;
		uint8_t text[3];
	} __attribute__((packed)) requests;
	struct {
		struct tcp_frame written;
		struct tcp_frame read;
		uint8_t data[5];
	} __attribute__((packed)) answers = {0};
	size_t had = 0;
	bool alone = true;
	int fd;

	pair_open(&pair, NULL);
	fd = raw_connect(&pair);
	for (size_t i = 0; i < sizeof greeting; i++) {
		alone = alone && side_count(&pair.donor, FABRIC_CONNECT_REQUEST) == 0;
		alone = alone && write(fd, (char *)&greeting + i, 1) == 1;
		side_poll(&pair.donor);
	}
	ok(alone && pump_until(&pair, side_count(&pair.donor, FABRIC_ESTABLISHED)),
	   "a greeting byte by byte establishes a connection");
	ok(recv(fd, &answer, sizeof answer, MSG_WAITALL) == sizeof answer &&
	       tcp_greeting_swap(answer).kind == TCP_ACCEPT,
	   "a greeting byte by byte is answered with an accept");
	remote = fabric_export(pair.donor.region, pair.donor.conn);
	requests.write = tcp_frame_swap((struct tcp_frame){
	    .type = TCP_WRITE, .length = 5, .sequence = 0, .rkey = remote.rkey, .address = remote.address});
	memcpy(requests.data, "hello", 5);
	requests.read = tcp_frame_swap((struct tcp_frame){
	    .type = TCP_READ, .length = 5, .sequence = 1, .rkey = remote.rkey, .address = remote.address});
	requests.message = tcp_frame_swap((struct tcp_frame){.type = TCP_MESSAGE, .length = 3});
	memcpy(requests.text, "hey", 3);
	for (size_t i = 0; i < sizeof requests; i++) {
		alone = alone && write(fd, (char *)&requests + i, 1) == 1;
		side_poll(&pair.donor);
	}
	ok(alone && pump_until(&pair, ({
		   ssize_t received = recv(fd, (char *)&answers + had, sizeof answers - had, MSG_DONTWAIT);

		   had += received > 0 ? (size_t)received : 0;
		   had == sizeof answers &&side_count(&pair.donor, FABRIC_MESSAGE) == 1;
	   })),
	   "requests and a message byte by byte are served");
	answers.written = tcp_frame_swap(answers.written);
	answers.read = tcp_frame_swap(answers.read);
	ok(answers.written.type == TCP_DONE && answers.written.sequence == 0 && answers.written.length == 0,
	   "a write byte by byte is answered");
	ok(answers.read.type == TCP_DONE && answers.read.sequence == 1 && answers.read.length == 5 &&
	       memcmp(answers.data, "hello", 5) == 0,
	   "a read byte by byte returns what the write has written");
	ok(memcmp(side_seen(&pair.donor, FABRIC_MESSAGE, 0)->data, "hey", 3) == 0, "a message byte by byte is whole");
	close(fd);
	pair_close(&pair);
}

/* Sends @frame, which breaks the rules, as an established raw peer. */
static void check_frame(const char *name, struct tcp_frame frame)
{
	struct pair pair;
	struct tcp_greeting greeting = greeting_good();
	struct fabric_remote remote;
	int fd;

	pair_open(&pair, NULL);
	fd = raw_connect(&pair);
	ok(write(fd, &greeting, sizeof greeting) == sizeof greeting &&
	       pump_until(&pair, side_count(&pair.donor, FABRIC_ESTABLISHED)),
	   "a peer that sends %s is established before", name);
	remote = fabric_export(pair.donor.region, pair.donor.conn);
	if (frame.type == TCP_READ || frame.type == TCP_WRITE) {
		frame.rkey = remote.rkey;
		frame.address = remote.address;
	}
	frame = tcp_frame_swap(frame);
	ok(write(fd, &frame, sizeof frame) == sizeof frame && pump_until(&pair, side_ended(&pair.donor)) &&
	       side_ended(&pair.donor) == -EPROTO,
	   "%s ends the connection with -EPROTO", name);
	ok(pump_until(&pair, raw_closed(fd)), "%s closes the peer's socket", name);
	close(fd);
	pair_close(&pair);
}

static void bad_frames_end_the_connection(void)
{
	check_frame("a frame of unknown type", (struct tcp_frame){.type = 9, .length = 1});
	check_frame("a frame of type 0", (struct tcp_frame){0});
	check_frame("a read of nothing", (struct tcp_frame){.type = TCP_READ});
	check_frame("a read of too much", (struct tcp_frame){.type = TCP_READ, .length = FABRIC_OP_MAX + 1});
	check_frame("a read out of order", (struct tcp_frame){.type = TCP_READ, .length = 1, .sequence = 5});
	check_frame("a request with a status",
		    (struct tcp_frame){.type = TCP_READ, .length = 1, .status = TCP_REFUSED});
	check_frame("a request with a reserved field set",
		    (struct tcp_frame){.type = TCP_READ, .length = 1, .zero = 1});
	check_frame("an answer to no request", (struct tcp_frame){.type = TCP_DONE});
	check_frame("an overlong message", (struct tcp_frame){.type = TCP_MESSAGE, .length = FABRIC_MESSAGE_MAX + 1});
}

/* A peer answers slowly. Later requests are late because of the slow answers, which must not end the connection. */
static void slow_answers_end_no_connection(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct tcp_greeting greeting = greeting_good();
	struct fabric_op ops[3];
	struct pair pair;
	int fd;

	config.io_ms = 2500;
	pair_open(&pair, &config);
	fd = raw_connect(&pair);
	ok(write(fd, &greeting, sizeof greeting) == sizeof greeting &&
	       pump_until(&pair, side_count(&pair.donor, FABRIC_ESTABLISHED)),
	   "a peer that answers slowly is established");
	for (unsigned i = 0; i < 3; i++)
		ops[i] = (struct fabric_op){.kind = FABRIC_READ,
					    .length = 1,
					    .local = pair.donor.memory + i,
					    .region = pair.donor.region,
					    .cookie = i};
	fabric_post(pair.donor.conn, ops, 3);
	for (unsigned i = 0; i < 2; i++) {
		struct {
			struct tcp_frame frame;
			char byte;
		} __attribute__((packed))
		answer = {.frame = tcp_frame_swap((struct tcp_frame){.type = TCP_DONE, .length = 1, .sequence = i})};

		pump_for(&pair, 1500);
		ok(write(fd, &answer, sizeof answer) == sizeof answer &&
		       pump_until(&pair, side_count(&pair.donor, FABRIC_DONE) == i + 1),
		   "a slow peer's answer to request %u arrives", i);
	}
	ok(!side_ended(&pair.donor), "behind slow answers, a request may be older than io_ms");
	ok(pump_until(&pair, side_ended(&pair.donor)) && side_ended(&pair.donor) == -ETIMEDOUT,
	   "a request without an answer ends the connection with -ETIMEDOUT after slow answers");
	close(fd);
	pair_close(&pair);
}

/* A peer's greeting allows a number of unanswered requests, but the peer sends more. The connection then ends, because
   the donor's memory for requests is bounded. */
static void requests_beyond_the_depth_end_the_connection(void)
{
	struct pair pair;
	struct tcp_greeting greeting = greeting_good();
	struct tcp_frame frame = {.type = TCP_READ, .length = FABRIC_OP_MAX};
	struct fabric_remote remote;
	int fd;

	pair_open(&pair, NULL);
	fd = raw_connect(&pair);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	ok(write(fd, &greeting, sizeof greeting) == sizeof greeting &&
	       pump_until(&pair, side_count(&pair.donor, FABRIC_ESTABLISHED)),
	   "a peer of depth 16 is established");
	remote = fabric_export(pair.donor.region, pair.donor.conn);
	frame.rkey = remote.rkey;
	frame.address = remote.address;
	for (; frame.sequence < 64; frame.sequence++) {
		struct tcp_frame wire = tcp_frame_swap(frame);

		if (write(fd, &wire, sizeof wire) != sizeof wire)
			break;
	}
	ok(pump_until(&pair, side_ended(&pair.donor)) && side_ended(&pair.donor) == -EPROTO,
	   "a peer of depth 16 that asks 64 times and reads nothing is ended with -EPROTO");
	close(fd);
	pair_close(&pair);
}

/* Connects the client to a raw socket that plays the donor. Returns the socket. */
static int raw_donor(struct pair *pair)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct tcp_greeting greeting = greeting_good();
	socklen_t size = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 1) < 0)
		abort();
	getsockname(listener, (struct sockaddr *)&address, &size);
	snprintf(pair->uri, sizeof pair->uri, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
	fabric_connect(pair->client.fabric, pair->client.domain, pair->uri, NULL, 0, NULL, &pair->client.conn);
	fd = accept(listener, NULL, NULL);
	close(listener);
	greeting.kind = TCP_ACCEPT;
	if (write(fd, &greeting, sizeof greeting) != sizeof greeting ||
	    !pump_until(pair, side_count(&pair->client, FABRIC_ESTABLISHED)))
		abort();
	return fd;
}

/* Answers to many reads, with messages between them, arrive in pieces of any size. */
static void answers_may_come_in_pieces(unsigned seed, unsigned max)
{
	static const uint32_t sizes[] = {4096, 1, 300000, 4096, 4096, 20000, 4096, 8, 4096, 100000};

	enum { COUNT = 10 };
	static uint8_t stream[1 << 20], expected[PAIR_MEMORY];
	struct tcp_frame frame;
	struct fabric_op ops[COUNT];
	struct pair pair;
	size_t size = 0, sent = 0;
	unsigned messages = 0;
	bool same = true;
	int fd;

	pair_open(&pair, NULL);
	pair.client.max = max;
	fd = raw_donor(&pair);
	fill(expected, PAIR_MEMORY, seed);
	srand(seed);
	for (unsigned i = 0; i < COUNT; i++) {
		ops[i] = (struct fabric_op){.kind = FABRIC_READ,
					    .length = sizes[i],
					    .local = pair.client.memory + (i << 19),
					    .region = pair.client.region,
					    .cookie = i};
		while (rand() % 3 == 0) {
			frame = tcp_frame_swap((struct tcp_frame){.type = TCP_MESSAGE, .length = 5});
			memcpy(stream + size, &frame, sizeof frame);
			memcpy(stream + size + sizeof frame, "hello", 5);
			size += sizeof frame + 5;
			messages++;
		}
		frame = tcp_frame_swap((struct tcp_frame){.type = TCP_DONE, .length = sizes[i], .sequence = i});
		memcpy(stream + size, &frame, sizeof frame);
		memcpy(stream + size + sizeof frame, expected + (i << 19), sizes[i]);
		size += sizeof frame + sizes[i];
	}
	same = fabric_post(pair.client.conn, ops, COUNT) == COUNT;
	while (sent < size) {
		size_t piece = 1 + (size_t)rand() % (rand() % 2 ? 30 : 9000);

		if (piece > size - sent)
			piece = size - sent;
		same = same && write(fd, stream + sent, piece) == (ssize_t)piece;
		sent += piece;
		if (rand() % 2)
			side_poll(&pair.client);
	}
	same = pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == COUNT &&
				     side_count(&pair.client, FABRIC_MESSAGE) == messages) &&
	       same;
	for (unsigned i = 0; i < COUNT; i++)
		same = same && side_seen(&pair.client, FABRIC_DONE, i)->cookie == i &&
		       memcmp(ops[i].local, expected + (i << 19), sizes[i]) == 0;
	for (unsigned i = 0; i < messages; i++)
		same = same && memcmp(side_seen(&pair.client, FABRIC_MESSAGE, i)->data, "hello", 5) == 0;
	ok(same && !side_ended(&pair.client),
	   "answers in pieces arrive whole (%u messages between, %u events a poll, seed %u)", messages, max, seed);
	close(fd);
	pair_close(&pair);
}

/* The donor answers writes before the client has sent them. */
static void an_answer_to_an_unsent_write_ends_the_connection(void)
{
	struct tcp_frame frame;
	struct fabric_op ops[64];
	struct pair pair;
	unsigned granted = 0;
	int fd;

	pair_open(&pair, NULL);
	fd = raw_donor(&pair);
	for (unsigned i = 0; i < 64; i++)
		ops[i] = pair_op(&pair, FABRIC_WRITE, 0, FABRIC_OP_MAX, i);
	fabric_post(pair.client.conn, ops, 64);
	for (unsigned i = 0; i < 64; i++) {
		frame = tcp_frame_swap((struct tcp_frame){.type = TCP_DONE, .sequence = i});
		if (write(fd, &frame, sizeof frame) != sizeof frame)
			abort();
	}
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -EPROTO,
	   "a write that is answered before it was sent ends the connection with -EPROTO");
	for (unsigned i = 0; i < 64; i++)
		granted += side_seen(&pair.client, FABRIC_DONE, i)->status == 0;
	ok(granted < 64 && side_count(&pair.client, FABRIC_DONE) == 64,
	   "only writes that were sent are answered as done (%u of 64)", granted);
	close(fd);
	pair_close(&pair);
}

/* No descriptor is left to accept with. The connection waits until there is one. */
static void connections_wait_for_free_descriptors(void)
{
	struct pair pair;
	struct rlimit limit, small;
	int hoard[1024], held = 0, fd;

	pair_open(&pair, NULL);
	getrlimit(RLIMIT_NOFILE, &limit);
	small = limit;
	small.rlim_cur = 64;
	setrlimit(RLIMIT_NOFILE, &small);
	fd = raw_connect(&pair);
	while (held < 1024 && (hoard[held] = dup(fd)) >= 0)
		held++;
	pump_for(&pair, 20);
	while (held)
		close(hoard[--held]);
	setrlimit(RLIMIT_NOFILE, &limit);
	close(fd);
	ok(pair_connect(&pair), "a connection is accepted after descriptors had run out");
	pair_close(&pair);
}

/* A client gives up before it is accepted. */
static void a_client_may_be_gone_before_it_is_accepted(void)
{
	struct pair pair;
	int accepted;
	bool ended;

	pair_open(&pair, NULL);
	pair.donor.manual = true;
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.client.conn);
	pump_until(&pair, side_count(&pair.donor, FABRIC_CONNECT_REQUEST));
	fabric_disconnect(pair.client.conn);
	accepted = fabric_accept(pair.donor.conn, pair.donor.domain, NULL);
	ended = accepted == 0 && pump_until(&pair, side_ended(&pair.donor));
	fabric_disconnect(pair.donor.conn);
	ok(ended || accepted < 0, "accepting a client that is gone fails or ends at once: %s, %s", strerror(-accepted),
	   strerror(-side_ended(&pair.donor)));
	pair_close(&pair);
}

int main(void)
{
	if (!getenv("TAP_LOG"))
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	private_data_goes_with_requests_and_rejects();
	unusable_addresses_are_refused();
	if (!pair_is_tcp()) { /* the other tests play one of the sides over a plain socket */
		a_client_may_be_gone_before_it_is_accepted();
		return tap_done();
	}
	ipv6_peers_connect();
	bad_listeners_end_the_connect_with_a_reason();
	bad_greetings_close_the_connection();
	silent_peers_are_dropped_at_connect_ms();
	frames_may_come_byte_by_byte();
	bad_frames_end_the_connection();
	requests_beyond_the_depth_end_the_connection();
	slow_answers_end_no_connection();
	for (unsigned seed = 0; seed < 30; seed++)
		answers_may_come_in_pieces(seed, seed % 3 == 0 ? 1 : seed % 3 == 1 ? 2 : 64);
	an_answer_to_an_unsent_write_ends_the_connection();
	connections_wait_for_free_descriptors();
	a_client_may_be_gone_before_it_is_accepted();
	return tap_done();
}
