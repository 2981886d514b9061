/* Sessions: keys, replays, versions and garbage. A bad client harms no other client. */
#include "tests/func/memserver/client.h"
#include "tests/func/memserver/daemon.h"
#include "tests/tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define REBIRTHS 50u
#define HELLOS 300u /* more handshakes than a donor waits for */
#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const uint8_t key_wrong[AUTH_KEY_SIZE] = {1, 2, 3};

static void a_session_needs_the_donors_key(void)
{
	static struct daemon daemon;
	char path[] = "/tmp/farpage-session-XXXXXX";
	uint8_t key[AUTH_KEY_SIZE];
	struct client client;
	int fd = mkstemp(path);

	close(fd);
	unlink(path);
	if (!ok(auth_key_create(path) == 0 && auth_key_load(path, key) == 0, "auth_key_create() makes a key file") ||
	    !ok(daemon_start(&daemon, ARGS("--donate", "64M", "--key", path, "--domain", "rack1")),
		"a donor starts with a key"))
		return;
	client_init(&client, daemon.uri, key, "good");
	ok(client_come(&client) == 0, "a donor welcomes a client with its key");
	ok(client.welcome.welcome.capacity.donated == 64 << 20 && client.welcome.welcome.capacity.clients == 1 &&
	       client.welcome.welcome.capacity.slab_bytes == 64 << 20,
	   "the welcome has the donor's capacity");
	ok(client.welcome.welcome.grace_ms == 900000 && client.welcome.welcome.heartbeat_ms == 200,
	   "the welcome has the grace time and the heartbeat interval");
	ok(strcmp(client.welcome.welcome.domain, "rack1") == 0, "the welcome has the donor's failure domain");
	client_close(&client);

	client_init(&client, daemon.uri, key_wrong, "wrong");
	ok(client_come(&client) == WIRE_REASON_KEY, "a donor refuses a client with another key");
	client_close(&client);
	client_init(&client, daemon.uri, NULL, "none");
	ok(client_come(&client) == WIRE_REASON_KEY_NEEDED, "a donor with a key refuses a client without one");
	client_close(&client);
	ok(daemon_log_wait(&daemon, "wrong key"), "the log says that a client's key was wrong");
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor with a key ends with 0 after SIGTERM");
	unlink(path);
}

static void a_donor_without_a_key_refuses_keys(struct daemon *daemon)
{
	struct client client;

	client_init(&client, daemon->uri, key_wrong, "keyed");
	ok(client_come(&client) == WIRE_REASON_KEY_UNKNOWN, "a donor without a key refuses a client with one");
	client_close(&client);
}

static void a_data_connection_needs_a_fresh_proof(struct daemon *daemon)
{
	struct client client, other;

	client_init(&client, daemon->uri, NULL, "attach");
	ok(client_come(&client) == 0 && client_attach(&client, 0) == 0, "a client opens a data connection");
	ok(client_attach(&client, client.counter) == WIRE_REASON_REPLAY,
	   "a data connection with a used counter is refused as a replay");
	ok(client_attach(&client, 0) == 0, "a data connection with the next counter is accepted");
	client_init(&other, daemon->uri, NULL, "attach");
	memset(other.session_key, 7, sizeof other.session_key);
	ok(client_attach(&other, 100) == WIRE_REASON_KEY, "a data connection without the session key is refused");
	memset(other.id, 9, sizeof other.id);
	ok(client_attach(&other, 100) == WIRE_REASON_NO_SESSION, "a data connection for an unknown session is refused");
	client_close(&other);
	client_close(&client);
}

static void another_version_is_refused(struct daemon *daemon)
{
	struct wire_hello hello = {.version = WIRE_VERSION + 1, .role = WIRE_SESSION};
	uint8_t bytes[WIRE_HELLO_SIZE];
	size_t size = wire_encode_hello(&hello, bytes);
	struct wire_reject reject = {0};
	struct fabric_event event;
	struct fabric_conn *conn;
	struct client client;
	int count;

	client_init(&client, daemon->uri, NULL, "version");
	fabric_connect(client.fabric, client.domain, daemon->uri, bytes, size, NULL, &conn);
	while ((count = fabric_wait(client.fabric, &event, 1, DAEMON_WAIT_MS)) == 0)
		;
	ok(count == 1 && event.kind == FABRIC_DISCONNECTED && event.status == -ECONNREFUSED &&
	       !wire_decode_reject(event.data, event.size, &reject) && reject.reason == WIRE_REASON_VERSION &&
	       reject.detail == WIRE_VERSION,
	   "a hello of another version is refused, and the refusal has the donor's version");
	fabric_disconnect(conn);
	client_close(&client);
}

static int plain_connect(const struct daemon *daemon)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(daemon->port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		abort();
	return fd;
}

/* Waits until the other end hangs up. Returns false if it does not. */
static bool hangs_up(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	char bytes[512];

	while (poll(&poll_fd, 1, DAEMON_WAIT_MS) == 1)
		if (read(fd, bytes, sizeof bytes) <= 0)
			return true;
	return false;
}

static void garbage_is_hung_up_on(struct daemon *daemon)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: donor\r\nUser-Agent: somebody who is lost\r\n\r\n";
	unsigned char noise[4096];
	struct client bystander;
	unsigned ends = 0;
	int fd;

	if (strncmp(daemon->uri, "tcp:", 4) != 0) {
		tap_skip("a donor hangs up on garbage", "the donor has none");
		return;
	}
	client_init(&bystander, daemon->uri, NULL, "bystander");
	ok(client_come(&bystander) == 0, "a client opens a session before garbage comes");
	fd = plain_connect(daemon);
	ok(write(fd, request, sizeof request - 1) > 0 && hangs_up(fd), "a donor hangs up on an HTTP request");
	close(fd);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < sizeof noise; i++)
			noise[i] = (unsigned char)(i * 2654435761u >> (round % 24));
		fd = plain_connect(daemon);
		/* The donor hangs up on some of these connections before all is sent. */
		ends += round % 2 && (send(fd, noise, sizeof noise, MSG_NOSIGNAL) < 0 || hangs_up(fd));
		close(fd);
	}
	ok(ends == 25, "a donor hangs up on noise (%u of 25 times)", ends);
	ok(client_wait_capacity(&bystander, 0, 1) && bystander.session,
	   "garbage on other connections does not disturb a client's session");
	client_close(&bystander);
}

/* Many plain sockets say nothing, and many connections ask for a session and prove nothing. */
static void a_crowd_does_not_keep_a_client_out(struct daemon *daemon)
{
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_SESSION};
	uint8_t bytes[WIRE_HELLO_SIZE];
	const size_t size = wire_encode_hello(&hello, bytes);
	struct fabric_conn *conns[HELLOS];
	struct client crowd, client;
	struct fabric_event event;
	static int fds[300];
	unsigned there = 0;

	for (unsigned i = 0; i < 300 && strncmp(daemon->uri, "tcp:", 4) == 0; i++)
		fds[i] = plain_connect(daemon);
	client_init(&crowd, daemon->uri, NULL, "crowd");
	/* One after the other, because the donor drops older connections that have not said hello to make room. */
	for (unsigned i = 0; i < HELLOS; i++) {
		bool answered = false;

		fabric_connect(crowd.fabric, crowd.domain, daemon->uri, bytes, size, NULL, &conns[i]);
		while (!answered && fabric_wait(crowd.fabric, &event, 1, DAEMON_WAIT_MS) > 0)
			answered = event.conn == conns[i] &&
				   (event.kind == FABRIC_ESTABLISHED || event.kind == FABRIC_DISCONNECTED);
		there += answered;
	}
	client_init(&client, daemon->uri, NULL, "client");
	ok(there == HELLOS && client_come(&client) == 0,
	   "a client opens a session although many connections have proved nothing");
	ok(daemon_log_wait(daemon, "too many are waiting"), "the log says that too many connections are waiting");
	client_close(&client);
	client_close(&crowd);
	for (unsigned i = 0; i < 300; i++)
		if (fds[i])
			close(fds[i]);
}

static void a_misbehaving_client_loses_its_connection(struct daemon *daemon)
{
	struct wire_message message = {.type = WIRE_PING};
	uint8_t bytes[WIRE_SEALED_MAX];
	struct client client;

	client_init(&client, daemon->uri, NULL, "rude");
	ok(client_come(&client) == 0, "a client opens a session before it misbehaves");
	client_send_raw(&client, client.session, "rubbish", 7);
	ok(client_wait_end(&client, client.session), "a donor ends a session that sends no valid message");
	ok(daemon_log_wait(daemon, "is not what its client said next"),
	   "the log says that the message is not the client's next one");
	ok(client_come(&client) == 0, "a client whose session was ended opens a new one");
	client_send_raw(&client, client.session, bytes, client_seal(&client, WIRE_WELCOME, bytes));
	ok(client_wait_end(&client, client.session), "a donor ends a session that sends a donor's message");
	ok(client_come(&client) == 0 && client_attach(&client, 0) == 0,
	   "a client whose session was ended twice opens both connections");
	client_send_raw(&client, client.data, bytes, wire_encode(&message, bytes));
	ok(client_wait_end(&client, client.data) && client.session,
	   "a message on the data connection ends that connection, not the session");
	client_close(&client);
}

/* An attacker on the path forges, changes, cuts, repeats, removes or swaps a client's messages. */
enum tampering { FORGED, CHANGED, CUT, REPEATED, LEFT_OUT, SWAPPED, TAMPERINGS };

static void tamper(struct client *client, enum tampering how)
{
	const struct wire_message bye = {.type = WIRE_BYE};
	uint8_t first[WIRE_SEALED_MAX], second[WIRE_SEALED_MAX];
	size_t size = client_seal(client, WIRE_PONG, first), more = client_seal(client, WIRE_PONG, second);

	if (how == FORGED)
		size = wire_encode(&bye, first);
	else if (how == CHANGED)
		first[size / 2] ^= 1;
	else if (how == CUT)
		size--;
	if (how == LEFT_OUT || how == SWAPPED)
		client_send_raw(client, client->session, second, more);
	if (how != LEFT_OUT)
		client_send_raw(client, client->session, first, size);
	if (how == REPEATED)
		client_send_raw(client, client->session, first, size);
}

static void a_tampered_message_ends_the_connection(struct daemon *daemon)
{
	static const char *const names[] = {"forged", "changed", "cut", "repeated", "left out", "swapped"};
	struct wire_message granted, claimed;
	struct client client;

	client_init(&client, daemon->uri, NULL, "victim");
	ok(client_come(&client) == 0 && client_lease(&client, &granted) == 0,
	   "a client leases a slab before its messages are tampered with");
	for (enum tampering how = FORGED; how < TAMPERINGS; how++) {
		tamper(&client, how);
		ok(client_wait_end(&client, client.session),
		   "a donor ends the session connection after a message is %s", names[how]);
		ok(client_come(&client) == 0 && client_claim(&client, granted.granted.slab, &claimed) == 0,
		   "a client comes back and claims its slab after a message was tampered with");
	}
	client_close(&client);
}

static void clients_beyond_the_limit_are_refused(void)
{
	static struct daemon daemon;
	struct client one, two;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "64M", "--clients", "1")), "a donor starts with --clients 1"))
		return;
	client_init(&one, daemon.uri, NULL, "one");
	client_init(&two, daemon.uri, NULL, "two");
	ok(client_come(&one) == 0, "the only allowed client opens a session");
	ok(client_come(&two) == WIRE_REASON_FULL, "a second client of a donor with --clients 1 is refused");
	client_bye(&one);
	ok(client_wait_end(&one, one.session), "a goodbye ends the only allowed client's session");
	ok(client_come(&two) == 0, "the second client opens a session after the first one's goodbye");
	client_close(&one);
	client_close(&two);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor with --clients 1 ends with 0 after SIGTERM");
}

/* A service manager restarts at once. The kernel frees the port some milliseconds after the killed process's end. */
static void a_killed_donor_is_started_anew_at_once(void)
{
	static struct daemon daemon;
	char uri[sizeof daemon.uri];
	unsigned started = 0;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "64M")), "a donor starts before it is killed over and over"))
		return;
	snprintf(uri, sizeof uri, "%s", daemon.uri);
	for (unsigned i = 0; i < REBIRTHS && daemon_stop(&daemon, SIGKILL) == -SIGKILL; i++)
		started += daemon_start_at(&daemon, uri, ARGS("--donate", "64M"));
	ok(started == REBIRTHS, "a killed donor starts again at the same port, %u of %u times", started, REBIRTHS);
	if (started == REBIRTHS)
		daemon_stop(&daemon, SIGTERM);
}

int main(int argc, char **argv)
{
	static struct daemon daemon;

	if (argc < 2)
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	a_session_needs_the_donors_key();
	if (!ok(daemon_start(&daemon, ARGS("--donate", "64M")), "a donor starts without a key"))
		return tap_done();
	a_donor_without_a_key_refuses_keys(&daemon);
	a_data_connection_needs_a_fresh_proof(&daemon);
	another_version_is_refused(&daemon);
	garbage_is_hung_up_on(&daemon);
	a_crowd_does_not_keep_a_client_out(&daemon);
	a_misbehaving_client_loses_its_connection(&daemon);
	a_tampered_message_ends_the_connection(&daemon);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor that saw garbage and tampering ends with 0 after SIGTERM");
	clients_beyond_the_limit_are_refused();
	a_killed_donor_is_started_anew_at_once();
	return tap_done();
}
