/* Clients that vanish: the donor keeps their slabs for the grace time, and fences their old connections at once. */
#include "tests/func/memserver/client.h"
#include "tests/func/memserver/daemon.h"
#include "tests/tap.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SLAB (1u << 20)

static void come(struct client *client, const struct daemon *daemon, const char *name)
{
	client_init(client, daemon->uri, NULL, name);
	if (client_come(client) || client_attach(client, 0)) {
		printf("Bail out! %s cannot come\n", name);
		exit(EXIT_FAILURE);
	}
}

/* Starts a client process that leases two slabs and then does nothing. Returns when it has them. */
static pid_t process_start(const struct daemon *daemon)
{
	int ready[2];
	pid_t pid, parent = getpid();
	char byte;

	if (pipe(ready) < 0)
		abort();
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct wire_message grant;
		struct client client;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		come(&client, daemon, "process");
		if (client_lease(&client, &grant) || client_lease(&client, &grant))
			_exit(1);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		pid = -1;
	close(ready[0]);
	return pid;
}

static void a_killed_clients_slabs_wait_for_its_grace_time(void)
{
	static struct daemon daemon;
	struct client watcher;
	pid_t pid;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M", "--grace", "1")),
		"a donor starts with 1 s of grace"))
		return;
	come(&watcher, &daemon, "watcher");
	pid = process_start(&daemon);
	ok(pid > 0 && client_wait_capacity(&watcher, 2 * SLAB, 2),
	   "a client process leases two slabs before it is killed");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ok(daemon_log_wait(&daemon, "vanished; its 2 slabs are kept for 1 s"),
	   "the donor keeps the slabs of a killed client for its grace time");
	ok(client_wait_capacity(&watcher, 0, 1), "the donor frees the slabs of a killed client after its grace time");
	ok(strstr(daemon.log, "is gone, and its leases with it") || daemon_log_wait(&daemon, "and its leases with it"),
	   "the log says that the killed client and its leases are gone");
	client_close(&watcher);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor whose client was killed ends with 0 after SIGTERM");
}

static void a_silent_client_vanishes_after_three_heartbeats(void)
{
	static struct daemon daemon;
	struct client watcher;
	pid_t pid;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M", "--grace", "0", "--heartbeat", "200")),
		"a donor starts with 0.2 s of heartbeat and no grace"))
		return;
	come(&watcher, &daemon, "watcher");
	pid = process_start(&daemon);
	ok(pid > 0, "a client process leases two slabs and falls silent with open connections");
	ok(client_wait_capacity(&watcher, 0, 1), "the donor frees the slabs of a client that answers no heartbeats");
	ok(watcher.session, "a client that answers heartbeats keeps its session");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	client_close(&watcher);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor whose client fell silent ends with 0 after SIGTERM");
}

static void a_client_returns_to_its_data(void)
{
	static struct daemon daemon;
	struct client client, again;
	struct wire_message grant;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M", "--grace", "60")),
		"a donor starts with 60 s of grace"))
		return;
	come(&client, &daemon, "returning");
	ok(client_lease(&client, &grant) == 0, "a client leases a slab before it vanishes");
	memset(client.buffer, 0x5a, 4096);
	ok(client_write(&client, grant.granted.address, grant.granted.rkey, 4096) == 0,
	   "the client writes a page before it vanishes");
	client_close(&client);
	ok(daemon_log_wait(&daemon, "vanished"), "the log says that the client has vanished");

	come(&again, &daemon, "returning");
	ok(daemon_log_wait(&daemon, "has come back"), "the log says that the client has come back");
	ok(client_read(&again, grant.granted.address, grant.granted.rkey, 4096) == 0 && again.buffer[4095] == 0x5a,
	   "the returned client reads its page");
	ok(client_release(&again, grant.granted.slab) == 0, "the returned client releases its slab");
	client_close(&again);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor whose client returned ends with 0 after SIGTERM");
}

/* A client that hangs up without a word may have died. A client that sends SUSPEND lives. */
static void a_suspended_clients_slabs_wait_longer(void)
{
	static struct daemon daemon;
	struct client dies, lives, again;
	struct wire_message grant;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M", "--grace", "60")),
		"a donor starts with 60 s of grace"))
		return;
	client_init(&dies, daemon.uri, NULL, "dies");
	client_init(&lives, daemon.uri, NULL, "lives");
	dies.wished_grace_ms = lives.wished_grace_ms = 50000;
	dies.wished_closed_ms = lives.wished_closed_ms = 100;
	ok(!client_come(&dies) && !client_lease(&dies, &grant),
	   "a client asks for 50 s of grace, and 0.1 s after it hangs up");
	client_close(&dies);
	ok(daemon_log_wait(&daemon, "its 1 slabs are kept for 0.1 s"),
	   "the donor keeps the slab of a client that hangs up for 0.1 s");
	ok(daemon_log_wait(&daemon, "is gone, and its leases with it"),
	   "the donor frees the slab of the client that hung up after 0.1 s");
	ok(!client_come(&lives) && !client_attach(&lives, 0) && !client_lease(&lives, &grant),
	   "a second client asks for the same grace times");
	memset(lives.buffer, 0x5a, 4096);
	ok(client_write(&lives, grant.granted.address, grant.granted.rkey, 4096) == 0,
	   "the second client writes a page before it suspends");
	client_suspend(&lives);
	ok(daemon_log_wait(&daemon, "its 1 slabs are kept for 50 s"),
	   "the donor keeps the slab of a client that suspends for 50 s");
	come(&again, &daemon, "lives");
	ok(again.welcome.welcome.slabs == 1 &&
	       client_read(&again, grant.granted.address, grant.granted.rkey, 4096) == 0 && again.buffer[4095] == 0x5a,
	   "the suspended client returns and reads its page");
	client_bye(&again);
	client_close(&again);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor whose client suspended ends with 0 after SIGTERM");
}

/* Invariant 6: nothing gets through an old connection when a new one is established. */
static void an_old_connection_is_fenced_by_a_new_one(void)
{
	static struct daemon daemon;
	struct client old, new;
	struct wire_message grant;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M")), "a donor starts"))
		return;
	come(&old, &daemon, "twice");
	ok(client_lease(&old, &grant) == 0, "a client leases a slab before it connects again");
	come(&new, &daemon, "twice");
	ok(client_write(&new, grant.granted.address, grant.granted.rkey, 4096) == 0,
	   "a client with the same id writes to the slab while the old one is connected");
	memset(old.buffer, 0x66, 4096);
	ok(client_write(&old, grant.granted.address, grant.granted.rkey, 4096) < 0,
	   "a write over the old data connection fails");
	ok(!old.session || client_wait_end(&old, old.session), "the donor ends the old session connection");
	ok(client_read(&new, grant.granted.address, grant.granted.rkey, 4096) == 0 && !new.buffer[0],
	   "the page has no bytes of the old connection's write");
	client_close(&old);
	client_close(&new);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor that fenced a connection ends with 0 after SIGTERM");
}

/* The connection is established, but the client proves nothing. */
static void an_unproven_connection_is_ended_in_time(void)
{
	static struct daemon daemon;
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_SESSION};
	uint8_t bytes[WIRE_HELLO_SIZE];
	size_t size = wire_encode_hello(&hello, bytes);
	struct fabric_conn *conn;
	struct client client;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M")), "a donor starts"))
		return;
	client_init(&client, daemon.uri, NULL, "shy");
	fabric_connect(client.fabric, client.domain, daemon.uri, bytes, size, NULL, &conn);
	client.session = conn;
	ok(client_wait_end(&client, conn), "the donor hangs up on a client that never proves itself");
	ok(daemon_log_wait(&daemon, "not proved itself in time"),
	   "the log says that the client has not proved itself in time");
	client_close(&client);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor that hung up on a client ends with 0 after SIGTERM");
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	a_killed_clients_slabs_wait_for_its_grace_time();
	a_silent_client_vanishes_after_three_heartbeats();
	a_client_returns_to_its_data();
	a_suspended_clients_slabs_wait_longer();
	an_old_connection_is_fenced_by_a_new_one();
	an_unproven_connection_is_ended_in_time();
	return tap_done();
}
