/* Who is let in: keys, replays, versions, garbage; and that a bad client harms nobody else. */
#include "tests/func/memserver/client.h"
#include "tests/func/memserver/daemon.h"
#include "tests/tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define REBIRTHS 50u
#define HELLOS 300u /* more than a donor waits for */
#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const uint8_t key_wrong[AUTH_KEY_SIZE] = {1, 2, 3};

static void test_keys(void)
{
	static struct daemon daemon;
	char path[] = "/tmp/farpage-session-XXXXXX";
	uint8_t key[AUTH_KEY_SIZE];
	struct client client;
	int fd = mkstemp(path);

	close(fd);
	unlink(path);
	if (!ok(auth_key_create(path) == 0 && auth_key_load(path, key) == 0, "a key") ||
	    !ok(daemon_start(&daemon, ARGS("--donate", "64M", "--key", path, "--domain", "rack1")), "a donor with it"))
		return;
	client_init(&client, daemon.uri, key, "good");
	ok(client_come(&client) == 0, "the key: welcome");
	ok(client.welcome.welcome.capacity.donated == 64 << 20 && client.welcome.welcome.capacity.clients == 1 &&
	       client.welcome.welcome.capacity.slab_bytes == 64 << 20,
	   "told what there is");
	ok(client.welcome.welcome.grace_ms == 900000 && client.welcome.welcome.heartbeat_ms == 200,
	   "and how long it may be away");
	ok(strcmp(client.welcome.welcome.domain, "rack1") == 0, "and what the donor fails together with");
	client_close(&client);

	client_init(&client, daemon.uri, key_wrong, "wrong");
	ok(client_come(&client) == WIRE_REASON_KEY, "another key: refused");
	client_close(&client);
	client_init(&client, daemon.uri, NULL, "none");
	ok(client_come(&client) == WIRE_REASON_KEY_NEEDED, "no key: refused");
	client_close(&client);
	ok(daemon_log_wait(&daemon, "wrong key"), "the log says so");
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
	unlink(path);
}

static void test_no_key(struct daemon *daemon)
{
	struct client client;

	client_init(&client, daemon->uri, key_wrong, "keyed");
	ok(client_come(&client) == WIRE_REASON_KEY_UNKNOWN, "a key where the donor has none: refused");
	client_close(&client);
}

static void test_attach(struct daemon *daemon)
{
	struct client client, other;

	client_init(&client, daemon->uri, NULL, "attach");
	ok(client_come(&client) == 0 && client_attach(&client, 0) == 0, "a data connection");
	ok(client_attach(&client, client.counter) == WIRE_REASON_REPLAY, "the same proof again: refused");
	ok(client_attach(&client, 0) == 0, "the next one: accepted");
	client_init(&other, daemon->uri, NULL, "attach");
	memset(other.session_key, 7, sizeof other.session_key);
	ok(client_attach(&other, 100) == WIRE_REASON_KEY, "who only knows the id: refused");
	memset(other.id, 9, sizeof other.id);
	ok(client_attach(&other, 100) == WIRE_REASON_NO_SESSION, "no such session: refused");
	client_close(&other);
	client_close(&client);
}

static void test_version(struct daemon *daemon)
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
	   "another version: refused, and told which one is spoken here");
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

/* Until the other end hangs up; false: it does not. */
static bool hangs_up(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	char bytes[512];

	while (poll(&poll_fd, 1, DAEMON_WAIT_MS) == 1)
		if (read(fd, bytes, sizeof bytes) <= 0)
			return true;
	return false;
}

static void test_garbage(struct daemon *daemon)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: donor\r\nUser-Agent: somebody who is lost\r\n\r\n";
	unsigned char noise[4096];
	struct client bystander;
	int fd;

	if (strncmp(daemon->uri, "tcp:", 4) != 0) {
		tap_skip("garbage on a plain socket", "the donor has none");
		return;
	}
	client_init(&bystander, daemon->uri, NULL, "bystander");
	ok(client_come(&bystander) == 0, "a client minds its business");
	fd = plain_connect(daemon);
	ok(write(fd, request, sizeof request - 1) > 0 && hangs_up(fd), "HTTP: hung up on");
	close(fd);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < sizeof noise; i++)
			noise[i] = (unsigned char)(i * 2654435761u >> (round % 24));
		fd = plain_connect(daemon);
		/* some of these it hangs up on before all is sent */
		if (send(fd, noise, sizeof noise, MSG_NOSIGNAL) > 0 && round % 2)
			hangs_up(fd);
		close(fd);
	}
	ok(true, "noise, fifty times");
	ok(client_wait_capacity(&bystander, 0, 1) && bystander.session, "the other client never noticed");
	client_close(&bystander);
}

/* Many who say nothing, on plain sockets, and many who ask for a session and prove nothing. */
static void test_crowd(struct daemon *daemon)
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
	/* One after the other: those that have yet to say hello make room for each other. */
	for (unsigned i = 0; i < HELLOS; i++) {
		bool answered = false;

		fabric_connect(crowd.fabric, crowd.domain, daemon->uri, bytes, size, NULL, &conns[i]);
		while (!answered && fabric_wait(crowd.fabric, &event, 1, DAEMON_WAIT_MS) > 0)
			answered = event.conn == conns[i] &&
				   (event.kind == FABRIC_ESTABLISHED || event.kind == FABRIC_DISCONNECTED);
		there += answered;
	}
	client_init(&client, daemon->uri, NULL, "client");
	ok(there == HELLOS && client_come(&client) == 0, "a client comes in all the same");
	ok(daemon_log_wait(daemon, "too many are waiting"), "the log says who did not");
	client_close(&client);
	client_close(&crowd);
	for (unsigned i = 0; i < 300; i++)
		if (fds[i])
			close(fds[i]);
}

static void test_rudeness(struct daemon *daemon)
{
	struct wire_message message = {.type = WIRE_PING};
	uint8_t bytes[WIRE_SEALED_MAX];
	struct client client;

	client_init(&client, daemon->uri, NULL, "rude");
	ok(client_come(&client) == 0, "a client");
	client_send_raw(&client, client.session, "rubbish", 7);
	ok(client_wait_end(&client, client.session), "sends what is no message: ended");
	ok(daemon_log_wait(daemon, "is not what its client said next"), "the log says why");
	ok(client_come(&client) == 0, "comes again");
	client_send_raw(&client, client.session, bytes, client_seal(&client, WIRE_WELCOME, bytes));
	ok(client_wait_end(&client, client.session), "sends what is not for a client to send: ended");
	ok(client_come(&client) == 0 && client_attach(&client, 0) == 0, "comes again, with a data connection");
	client_send_raw(&client, client.data, bytes, wire_encode(&message, bytes));
	ok(client_wait_end(&client, client.data) && client.session,
	   "sends a message there: that connection is ended only");
	client_close(&client);
}

/* Somebody on the way to the donor sends, changes, repeats, takes out or swaps what a client says. */
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

static void test_tampering(struct daemon *daemon)
{
	static const char *const names[] = {"forged", "changed", "cut", "repeated", "left out", "swapped"};
	struct wire_message granted, claimed;
	struct client client;

	client_init(&client, daemon->uri, NULL, "victim");
	ok(client_come(&client) == 0 && client_lease(&client, &granted) == 0, "a client with a slab");
	for (enum tampering how = FORGED; how < TAMPERINGS; how++) {
		tamper(&client, how);
		ok(client_wait_end(&client, client.session), "a message is %s: its session's connection is ended",
		   names[how]);
		ok(client_come(&client) == 0 && client_claim(&client, granted.granted.slab, &claimed) == 0,
		   "the client comes back and has its slab");
	}
	client_close(&client);
}

static void test_too_many(void)
{
	static struct daemon daemon;
	struct client one, two;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "64M", "--clients", "1")), "a donor for one client"))
		return;
	client_init(&one, daemon.uri, NULL, "one");
	client_init(&two, daemon.uri, NULL, "two");
	ok(client_come(&one) == 0, "one");
	ok(client_come(&two) == WIRE_REASON_FULL, "another: refused");
	client_bye(&one);
	ok(client_wait_end(&one, one.session), "the first says goodbye");
	ok(client_come(&two) == 0, "the other may come");
	client_close(&one);
	client_close(&two);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
}

/* A service manager does that. The kernel gives the port of the killed one free some milliseconds after its end. */
static void a_killed_donor_is_started_anew_at_once(void)
{
	static struct daemon daemon;
	char uri[sizeof daemon.uri];
	unsigned started = 0;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "64M")), "a donor that will be killed"))
		return;
	snprintf(uri, sizeof uri, "%s", daemon.uri);
	for (unsigned i = 0; i < REBIRTHS && daemon_stop(&daemon, SIGKILL) == -SIGKILL; i++)
		started += daemon_start_at(&daemon, uri, ARGS("--donate", "64M"));
	ok(started == REBIRTHS, "%u of %u times it is killed and started anew at the same port", started, REBIRTHS);
	if (started == REBIRTHS)
		daemon_stop(&daemon, SIGTERM);
}

int main(int argc, char **argv)
{
	static struct daemon daemon;

	if (argc < 2)
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	test_keys();
	if (!ok(daemon_start(&daemon, ARGS("--donate", "64M")), "a donor without a key"))
		return tap_done();
	test_no_key(&daemon);
	test_attach(&daemon);
	test_version(&daemon);
	test_garbage(&daemon);
	test_crowd(&daemon);
	test_rudeness(&daemon);
	test_tampering(&daemon);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end after all of that");
	test_too_many();
	a_killed_donor_is_started_anew_at_once();
	return tap_done();
}
