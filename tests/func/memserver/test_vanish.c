/* Clients that vanish: their memory waits for the grace time, and no longer; their old connections are dead at once. */
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

/* A client process with two slabs, which then does nothing. Returns once it has them. */
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

static void test_killed(void)
{
	static struct daemon daemon;
	struct client watcher;
	pid_t pid;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M", "--grace", "1")), "a donor, 1 s of grace"))
		return;
	come(&watcher, &daemon, "watcher");
	pid = process_start(&daemon);
	ok(pid > 0 && client_wait_capacity(&watcher, 2 * SLAB, 2), "another process leases two slabs");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ok(daemon_log_wait(&daemon, "vanished; its 2 slabs are kept for 1 s"), "it is killed: its slabs wait");
	ok(client_wait_capacity(&watcher, 0, 1), "then they are free");
	ok(strstr(daemon.log, "is gone, and its leases with it") || daemon_log_wait(&daemon, "and its leases with it"),
	   "the log says so");
	client_close(&watcher);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
}

static void test_stopped(void)
{
	static struct daemon daemon;
	struct client watcher;
	pid_t pid;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M", "--grace", "0", "--heartbeat", "200")),
		"a donor, 0.2 s of heartbeat"))
		return;
	come(&watcher, &daemon, "watcher");
	pid = process_start(&daemon);
	ok(pid > 0, "another process leases two slabs and falls silent, its connections standing");
	ok(client_wait_capacity(&watcher, 0, 1), "after three heartbeats it has vanished");
	ok(watcher.session, "who answers pings has not");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	client_close(&watcher);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
}

static void test_return(void)
{
	static struct daemon daemon;
	struct client client, again;
	struct wire_message grant;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M", "--grace", "60")), "a donor, much grace"))
		return;
	come(&client, &daemon, "returning");
	ok(client_lease(&client, &grant) == 0, "a lease");
	memset(client.buffer, 0x5a, 4096);
	ok(client_write(&client, grant.granted.address, grant.granted.rkey, 4096) == 0, "and data");
	client_close(&client);
	ok(daemon_log_wait(&daemon, "vanished"), "its client vanishes");

	come(&again, &daemon, "returning");
	ok(daemon_log_wait(&daemon, "has come back"), "and comes back");
	ok(client_read(&again, grant.granted.address, grant.granted.rkey, 4096) == 0 && again.buffer[4095] == 0x5a,
	   "to its data");
	ok(client_release(&again, grant.granted.slab) == 0, "and gives it back");
	client_close(&again);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
}

/* Who hangs up without a word may have died, who says SUSPEND has not. */
static void test_suspend(void)
{
	static struct daemon daemon;
	struct client dies, lives, again;
	struct wire_message grant;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M", "--grace", "60")), "a donor, much grace"))
		return;
	client_init(&dies, daemon.uri, NULL, "dies");
	client_init(&lives, daemon.uri, NULL, "lives");
	dies.wished_grace_ms = lives.wished_grace_ms = 50000;
	dies.wished_closed_ms = lives.wished_closed_ms = 100;
	ok(!client_come(&dies) && !client_lease(&dies, &grant),
	   "a client that wishes for 50 s, and 0.1 s once it hangs up");
	client_close(&dies);
	ok(daemon_log_wait(&daemon, "its 1 slabs are kept for 0.1 s"), "it hangs up: 0.1 s");
	ok(daemon_log_wait(&daemon, "is gone, and its leases with it"), "then its slab is the donor's");
	ok(!client_come(&lives) && !client_attach(&lives, 0) && !client_lease(&lives, &grant), "another one");
	memset(lives.buffer, 0x5a, 4096);
	ok(client_write(&lives, grant.granted.address, grant.granted.rkey, 4096) == 0, "writes");
	client_suspend(&lives);
	ok(daemon_log_wait(&daemon, "its 1 slabs are kept for 50 s"), "it says that it lives, and hangs up: 50 s");
	come(&again, &daemon, "lives");
	ok(again.welcome.welcome.slabs == 1 &&
	       client_read(&again, grant.granted.address, grant.granted.rkey, 4096) == 0 && again.buffer[4095] == 0x5a,
	   "it comes back to its data");
	client_bye(&again);
	client_close(&again);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
}

/* Invariant 6: nothing gets through an old connection once a new one stands. */
static void test_fence(void)
{
	static struct daemon daemon;
	struct client old, new;
	struct wire_message grant;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M")), "a donor"))
		return;
	come(&old, &daemon, "twice");
	ok(client_lease(&old, &grant) == 0, "a client with a lease");
	come(&new, &daemon, "twice");
	ok(client_write(&new, grant.granted.address, grant.granted.rkey, 4096) == 0,
	   "comes again before its end was noticed");
	memset(old.buffer, 0x66, 4096);
	ok(client_write(&old, grant.granted.address, grant.granted.rkey, 4096) < 0, "its old data connection is dead");
	ok(!old.session || client_wait_end(&old, old.session), "and its old session connection");
	ok(client_read(&new, grant.granted.address, grant.granted.rkey, 4096) == 0 && !new.buffer[0],
	   "nothing was written through it");
	client_close(&old);
	client_close(&new);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
}

/* Connections that stand, but prove nothing. */
static void test_handshake_deadline(void)
{
	static struct daemon daemon;
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_SESSION};
	uint8_t bytes[WIRE_HELLO_SIZE];
	size_t size = wire_encode_hello(&hello, bytes);
	struct fabric_conn *conn;
	struct client client;

	if (!ok(daemon_start(&daemon, ARGS("--donate", "4M", "--slab", "1M")), "a donor"))
		return;
	client_init(&client, daemon.uri, NULL, "shy");
	fabric_connect(client.fabric, client.domain, daemon.uri, bytes, size, NULL, &conn);
	client.session = conn;
	ok(client_wait_end(&client, conn), "who never proves itself is hung up on");
	ok(daemon_log_wait(&daemon, "not proved itself in time"), "and the log says why");
	client_close(&client);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	test_killed();
	test_stopped();
	test_return();
	test_suspend();
	test_fence();
	test_handshake_deadline();
	return tap_done();
}
