/* Clients that vanish: the donor keeps their slabs for the grace time, and fences their old connections at once. */
#include "tests/func/memserver/client.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLAB (1u << 20)

static struct donor_process donor;

/* Starts a client process that leases two slabs and then does nothing. Returns when it has them. */
static pid_t process_start(void)
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
		client_arrive(&client, &donor, "process");
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
	struct client watcher;
	pid_t pid;

	donor_start(&donor, "--donate", "4M", "--slab", "1M", "--grace", "1");
	client_arrive(&watcher, &donor, "watcher");
	pid = process_start();
	ok(pid > 0 && client_wait_capacity(&watcher, 2 * SLAB, 2),
	   "a client process leases two slabs before it is killed");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ok(donor_log_wait(&donor, "vanished; its 2 slabs are kept for 1 s"),
	   "the donor keeps the slabs of a killed client for its grace time");
	ok(client_wait_capacity(&watcher, 0, 1), "the donor frees the slabs of a killed client after its grace time");
	ok(strstr(donor.log, "is gone, and its leases with it") || donor_log_wait(&donor, "and its leases with it"),
	   "the log says that the killed client and its leases are gone");
	client_close(&watcher);
	donor_end(&donor);
}

static void a_silent_client_vanishes_after_three_heartbeats(void)
{
	struct client watcher;
	pid_t pid;

	donor_start(&donor, "--donate", "4M", "--slab", "1M", "--grace", "0", "--heartbeat", "200");
	client_arrive(&watcher, &donor, "watcher");
	pid = process_start();
	ok(pid > 0, "a client process leases two slabs and falls silent with open connections");
	ok(client_wait_capacity(&watcher, 0, 1), "the donor frees the slabs of a client that answers no heartbeats");
	ok(watcher.session, "a client that answers heartbeats keeps its session");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	client_close(&watcher);
	donor_end(&donor);
}

static void a_client_returns_to_its_data(void)
{
	struct client client, again;
	struct wire_message grant;

	donor_start(&donor, "--donate", "4M", "--slab", "1M", "--grace", "60");
	client_arrive(&client, &donor, "returning");
	ok(client_lease(&client, &grant) == 0, "a client leases a slab before it vanishes");
	memset(client.buffer, 0x5a, 4096);
	ok(client_put(&client, &grant, 4096) == 0, "the client writes a page before it vanishes");
	client_close(&client);
	ok(donor_log_wait(&donor, "vanished"), "the log says that the client has vanished");

	client_arrive(&again, &donor, "returning");
	ok(donor_log_wait(&donor, "has come back"), "the log says that the client has come back");
	ok(client_get(&again, &grant, 4096) == 0 && again.buffer[4095] == 0x5a, "the returned client reads its page");
	ok(client_release(&again, grant.granted.slab) == 0, "the returned client releases its slab");
	client_close(&again);
	donor_end(&donor);
}

/* A client that hangs up without a word may have died. A client that sends SUSPEND lives. */
static void a_suspended_clients_slabs_wait_longer(void)
{
	struct client dies, lives, again;
	struct wire_message grant;

	donor_start(&donor, "--donate", "4M", "--slab", "1M", "--grace", "60");
	client_init(&dies, donor.uri, NULL, "dies");
	client_init(&lives, donor.uri, NULL, "lives");
	dies.wished_grace_ms = lives.wished_grace_ms = 50000;
	dies.wished_closed_ms = lives.wished_closed_ms = 100;
	ok(!client_come(&dies) && !client_lease(&dies, &grant),
	   "a client asks for 50 s of grace, and 0.1 s after it hangs up");
	client_close(&dies);
	ok(donor_log_wait(&donor, "its 1 slabs are kept for 0.1 s"),
	   "the donor keeps the slab of a client that hangs up for 0.1 s");
	ok(donor_log_wait(&donor, "is gone, and its leases with it"),
	   "the donor frees the slab of the client that hung up after 0.1 s");
	ok(!client_come(&lives) && !client_attach(&lives, 0) && !client_lease(&lives, &grant),
	   "a second client asks for the same grace times");
	memset(lives.buffer, 0x5a, 4096);
	ok(client_put(&lives, &grant, 4096) == 0, "the second client writes a page before it suspends");
	client_suspend(&lives);
	ok(donor_log_wait(&donor, "its 1 slabs are kept for 50 s"),
	   "the donor keeps the slab of a client that suspends for 50 s");
	client_arrive(&again, &donor, "lives");
	ok(again.welcome.welcome.slabs == 1 && client_get(&again, &grant, 4096) == 0 && again.buffer[4095] == 0x5a,
	   "the suspended client returns and reads its page");
	client_bye(&again);
	client_close(&again);
	donor_end(&donor);
}

/* Invariant 6: once a new connection is established, no operation of the old one is carried out. */
static void an_old_connection_is_fenced_by_a_new_one(void)
{
	struct client old, new;
	struct wire_message grant;

	donor_start(&donor, "--donate", "4M", "--slab", "1M");
	client_arrive(&old, &donor, "twice");
	ok(client_lease(&old, &grant) == 0, "a client leases a slab before it connects again");
	client_arrive(&new, &donor, "twice");
	ok(client_put(&new, &grant, 4096) == 0,
	   "a client with the same id writes to the slab while the old one is connected");
	memset(old.buffer, 0x66, 4096);
	ok(client_put(&old, &grant, 4096) < 0, "a write over the old data connection fails");
	ok(!old.session || client_wait_end(&old, old.session), "the donor ends the old session connection");
	ok(client_get(&new, &grant, 4096) == 0 && !new.buffer[0],
	   "the page has no bytes of the old connection's write");
	client_close(&old);
	client_close(&new);
	donor_end(&donor);
}

/* The connection is established, but the client proves nothing. */
static void an_unproven_connection_is_ended_in_time(void)
{
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_SESSION};
	uint8_t bytes[WIRE_HELLO_SIZE];
	size_t size = wire_encode_hello(&hello, bytes);
	struct fabric_conn *conn;
	struct client client;

	donor_start(&donor, "--donate", "4M", "--slab", "1M");
	client_init(&client, donor.uri, NULL, "shy");
	fabric_connect(client.fabric, client.domain, donor.uri, bytes, size, NULL, &conn);
	client.session = conn;
	ok(client_wait_end(&client, conn), "the donor hangs up on a client that never proves itself");
	ok(donor_log_wait(&donor, "not proved itself in time"),
	   "the log says that the client has not proved itself in time");
	client_close(&client);
	donor_end(&donor);
}

int main(void)
{
	a_killed_clients_slabs_wait_for_its_grace_time();
	a_silent_client_vanishes_after_three_heartbeats();
	a_client_returns_to_its_data();
	a_suspended_clients_slabs_wait_longer();
	an_old_connection_is_fenced_by_a_new_one();
	an_unproven_connection_is_ended_in_time();
	return tap_done();
}
