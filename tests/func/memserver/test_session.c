/* Sessions: keys, replays, versions and garbage. A bad client harms no other client. */
#include "common/clock.h"
#include "tests/func/memserver/client.h"
#include "tests/lib/folder.h"
#include "tests/lib/loopback.h"
#include "tests/lib/wait.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define REBIRTHS 50u
#define HELLOS 300u                       /* more handshakes than a donor waits for */
#define HANDSHAKE_NS UINT64_C(5000000000) /* time that a donor gives each handshake */

static struct donor_process donor;
static const uint8_t key_wrong[AUTH_KEY_SIZE] = {1, 2, 3};

static void a_session_needs_the_donors_key(void)
{
	const char *path = folder_path("key");
	uint8_t key[AUTH_KEY_SIZE];
	struct client client;

	ok(auth_key_create(path) == 0 && auth_key_load(path, key) == 0, "auth_key_create() makes a key file");
	donor_start(&donor, "--donate", "64M", "--key", path, "--domain", "rack1");
	ok(client_enter(&client, &donor, key, "good") == 0, "a donor welcomes a client with its key");
	ok(client.welcome.welcome.capacity.donated == 64 << 20 && client.welcome.welcome.capacity.clients == 1 &&
	       client.welcome.welcome.capacity.slab_bytes == 64 << 20,
	   "the welcome has the donor's capacity");
	ok(client.welcome.welcome.grace_ms == 900000 && client.welcome.welcome.heartbeat_ms == 200,
	   "the welcome has the grace time and the heartbeat interval");
	ok(strcmp(client.welcome.welcome.failure_domain, "rack1") == 0, "the welcome has the donor's failure domain");
	client_close(&client);

	ok(client_visit(&donor, key_wrong, "wrong") == WIRE_REASON_KEY, "a donor refuses a client with another key");
	ok(client_visit(&donor, NULL, "none") == WIRE_REASON_KEY_NEEDED,
	   "a donor with a key refuses a client without one");
	ok(donor_log_wait(&donor, "wrong key"), "the log says that a client's key was wrong");
	donor_end(&donor);
}

static void a_donor_without_a_key_refuses_keys(void)
{
	ok(client_visit(&donor, key_wrong, "keyed") == WIRE_REASON_KEY_UNKNOWN,
	   "a donor without a key refuses a client with one");
}

static void a_data_connection_needs_a_fresh_proof(void)
{
	struct client client, other;

	ok(client_enter(&client, &donor, NULL, "attach") == 0 && client_attach(&client, 0) == 0,
	   "a client opens a data connection");
	ok(client_attach(&client, client.counter) == WIRE_REASON_REPLAY,
	   "a data connection with a used counter is refused as a replay");
	ok(client_attach(&client, 0) == 0, "a data connection with the next counter is accepted");
	client_init(&other, donor.uri, NULL, "attach");
	memset(other.session_key, 7, sizeof other.session_key);
	ok(client_attach(&other, 100) == WIRE_REASON_KEY, "a data connection without the session key is refused");
	memset(other.id, 9, sizeof other.id);
	ok(client_attach(&other, 100) == WIRE_REASON_NO_SESSION, "a data connection for an unknown session is refused");
	client_close(&other);
	client_close(&client);
}

static void another_version_is_refused(void)
{
	struct wire_hello hello = {.version = WIRE_VERSION + 1, .role = WIRE_SESSION};
	uint8_t bytes[WIRE_HELLO_SIZE];
	size_t size = wire_encode_hello(&hello, bytes);
	struct wire_reject reject = {0};
	struct fabric_event event;
	struct fabric_conn *conn;
	struct client client;
	int count;

	client_init(&client, donor.uri, NULL, "version");
	fabric_connect(client.fabric, client.domain, donor.uri, bytes, size, NULL, &conn);
	while ((count = fabric_wait(client.fabric, &event, 1, WAIT_MS)) == 0)
		;
	ok(count == 1 && event.kind == FABRIC_DISCONNECTED && event.status == -ECONNREFUSED &&
	       !wire_decode_reject(event.data, event.size, &reject) && reject.reason == WIRE_REASON_VERSION &&
	       reject.detail == WIRE_VERSION,
	   "a hello of another version is refused, and the refusal has the donor's version");
	fabric_disconnect(conn);
	client_close(&client);
}

/* Waits until the other end hangs up. Returns false if it does not. */
static bool hangs_up(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	char bytes[512];

	while (poll(&poll_fd, 1, WAIT_MS) == 1)
		if (read(fd, bytes, sizeof bytes) <= 0)
			return true;
	return false;
}

static void garbage_is_hung_up_on(void)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: donor\r\nUser-Agent: somebody who is lost\r\n\r\n";
	unsigned char noise[4096];
	struct client bystander;
	unsigned ends = 0;
	int fd;

	if (strncmp(donor.uri, "tcp:", 4) != 0) {
		tap_skip("a donor hangs up on garbage", "the donor has none");
		return;
	}
	ok(client_enter(&bystander, &donor, NULL, "bystander") == 0, "a client opens a session before garbage comes");
	fd = loopback_connect(donor.port);
	ok(write(fd, request, sizeof request - 1) > 0 && hangs_up(fd), "a donor hangs up on an HTTP request");
	close(fd);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < sizeof noise; i++)
			noise[i] = (unsigned char)(i * 2654435761u >> (round % 24));
		fd = loopback_connect(donor.port);
		/* The donor hangs up on some of these connections before all bytes are sent. */
		ends += round % 2 && (send(fd, noise, sizeof noise, MSG_NOSIGNAL) < 0 || hangs_up(fd));
		close(fd);
	}
	ok(ends == 25, "a donor hangs up on noise (%u of 25 times)", ends);
	ok(client_wait_capacity(&bystander, 0, 1) && bystander.session,
	   "garbage on other connections does not disturb a client's session");
	client_close(&bystander);
}

/* Many plain sockets say nothing, and many connections ask for a session and prove nothing. */
static void a_crowd_does_not_keep_a_client_out(void)
{
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_SESSION};
	uint8_t bytes[WIRE_HELLO_SIZE];
	const size_t size = wire_encode_hello(&hello, bytes);
	struct fabric_conn *conns[HELLOS];
	struct client crowd, client;
	struct fabric_event event;
	static int fds[300];
	unsigned there = 0;
	uint64_t begun;

	for (unsigned i = 0; i < 300 && strncmp(donor.uri, "tcp:", 4) == 0; i++)
		fds[i] = loopback_connect(donor.port);
	client_init(&crowd, donor.uri, NULL, "crowd");
	begun = clock_now();
	/* Makes one connection after the other, because the donor drops older ones without a hello to make room. */
	for (unsigned i = 0; i < HELLOS; i++) {
		bool answered = false;

		fabric_connect(crowd.fabric, crowd.domain, donor.uri, bytes, size, NULL, &conns[i]);
		while (!answered && fabric_wait(crowd.fabric, &event, 1, WAIT_MS) > 0)
			answered = event.conn == conns[i] &&
				   (event.kind == FABRIC_ESTABLISHED || event.kind == FABRIC_DISCONNECTED);
		there += answered;
	}
	client_init(&client, donor.uri, NULL, "client");
	ok(there == HELLOS && client_come(&client) == 0,
	   "a client opens a session although many connections have proved nothing");
	/* A connection may wait for 5 s. If all connects took longer, too few waited at the same time. */
	if (clock_now() - begun > HANDSHAKE_NS && !strstr(donor.log, "too many are waiting"))
		tap_skip("the log says that too many connections are waiting", "they took more than 5 s to connect");
	else
		ok(donor_log_wait(&donor, "too many are waiting"),
		   "the log says that too many connections are waiting");
	client_close(&client);
	client_close(&crowd);
	for (unsigned i = 0; i < 300; i++)
		if (fds[i])
			close(fds[i]);
}

static void a_misbehaving_client_loses_its_connection(void)
{
	struct wire_message message = {.type = WIRE_PING};
	uint8_t bytes[WIRE_SEALED_MAX];
	struct client client;

	ok(client_enter(&client, &donor, NULL, "rude") == 0, "a client opens a session before it misbehaves");
	client_send_raw(&client, client.session, "rubbish", 7);
	ok(client_wait_end(&client, client.session), "a donor ends a session that sends no valid message");
	ok(donor_log_wait(&donor, "is not what its client said next"),
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

static void a_tampered_message_ends_the_connection(void)
{
	static const char *const names[] = {"forged", "changed", "cut", "repeated", "left out", "swapped"};
	struct wire_message granted, claimed;
	struct client client;

	ok(client_enter(&client, &donor, NULL, "victim") == 0 && client_lease(&client, &granted) == 0,
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
	struct client one, two;

	donor_start(&donor, "--donate", "64M", "--clients", "1");
	client_init(&one, donor.uri, NULL, "one");
	client_init(&two, donor.uri, NULL, "two");
	ok(client_come(&one) == 0, "the only allowed client opens a session");
	ok(client_come(&two) == WIRE_REASON_FULL, "a second client of a donor with --clients 1 is refused");
	client_bye(&one);
	ok(client_wait_end(&one, one.session), "a goodbye ends the only allowed client's session");
	ok(client_come(&two) == 0, "the second client opens a session after the first one's goodbye");
	client_close(&one);
	client_close(&two);
	donor_end(&donor);
}

/* A service manager restarts a donor at once. The kernel frees the port some milliseconds after the end of a
   process. */
static void a_killed_donor_is_started_anew_at_once(void)
{
	unsigned started = 0;

	donor_start(&donor, "--donate", "64M");
	for (; started < REBIRTHS && donor_stop(&donor, SIGKILL) == -SIGKILL; started++)
		donor_again(&donor);
	ok(started == REBIRTHS, "a killed donor starts again at the same port, %u of %u times", started, REBIRTHS);
	donor_end(&donor);
}

int main(void)
{
	a_session_needs_the_donors_key();
	donor_start(&donor, "--donate", "64M");
	a_donor_without_a_key_refuses_keys();
	a_data_connection_needs_a_fresh_proof();
	another_version_is_refused();
	garbage_is_hung_up_on();
	a_crowd_does_not_keep_a_client_out();
	a_misbehaving_client_loses_its_connection();
	a_tampered_message_ends_the_connection();
	donor_end(&donor);
	clients_beyond_the_limit_are_refused();
	a_killed_donor_is_started_anew_at_once();
	return tap_done();
}
