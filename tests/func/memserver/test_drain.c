/* Draining a donor, on the wire: what clients hear, what the operator is told, and what is taken only by force. */
#include "common/clock.h"
#include "tests/func/memserver/client.h"
#include "tests/func/memserver/daemon.h"
#include "tests/tap.h"

#include <signal.h>
#include <stdlib.h>
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

/* All who hold something, as the operator is told. */
static unsigned holders(struct client *operator, struct wire_message * replies, unsigned max)
{
	unsigned count = 0;

	for (uint32_t from = 0; count < max; count++) {
		if (client_holder(operator, from, &replies[count]) || !replies[count].holder_reply.next)
			break;
		from = replies[count].holder_reply.next;
	}
	return count;
}

/* Asks until so many slabs are left. */
static bool wait_slabs(struct client *operator, uint32_t slabs, struct wire_message *draining)
{
	uint64_t end = clock_now() + UINT64_C(1000000) * DAEMON_WAIT_MS;

	while (clock_now() < end && !client_drain(operator, WIRE_DRAIN_ASK, 0, draining))
		if (draining->draining.slabs == slabs)
			return true;
	return false;
}

static void test_wait(struct daemon *daemon)
{
	struct wire_message one, two, other, draining, more, replies[4];
	struct client client, vanished, operator;

	come(&client, daemon, "client");
	come(&vanished, daemon, "vanished");
	come(&operator, daemon, "operator");
	ok(!client_lease(&client, &one) && !client_lease(&client, &two) && !client_lease(&vanished, &other),
	   "three slabs of two clients");
	client_close(&vanished);
	ok(client_drain(&operator, WIRE_DRAIN_ASK, 0, &draining) == 0 && draining.draining.slabs == 3 &&
	       draining.draining.capacity.state == WIRE_STATE_LENDING,
	   "asking how far it is drains nothing");
	ok(client_drain(&operator, WIRE_DRAIN_WAIT, 0, &draining) == 0 && draining.draining.slabs == 3 &&
	       draining.draining.holders == 2 && draining.draining.left_ms == WIRE_NO_DEADLINE &&
	       draining.draining.capacity.state == WIRE_STATE_DRAINING,
	   "draining: what there is, and no deadline");
	ok(holders(&operator, replies, 4) == 2 && replies[0].holder_reply.slabs == 2 &&
	       !memcmp(replies[0].holder_reply.name, "clie", 4) && strchr(replies[0].holder_reply.peer, ':'),
	   "who holds what, from where (%s)", replies[0].holder_reply.peer);
	ok(client_wait_notices(&client, WIRE_REVOKE, 2) && client.notices[0].revoke.deadline_ms == WIRE_NO_DEADLINE,
	   "clients are asked for it when it suits them");
	ok(client_lease(&client, &more) == WIRE_REASON_DRAINING, "nothing more is lent");
	ok(client_read(&client, one.granted.address, one.granted.rkey, 4096) == 0, "what is leased can be used");
	ok(client_release(&client, one.granted.slab) == 0, "and released");
	ok(wait_slabs(&operator, 2, &draining), "which the operator sees");
	ok(client_drain(&operator, WIRE_DRAIN_END, 0, &draining) == 0 &&
	       draining.draining.capacity.state == WIRE_STATE_LENDING,
	   "undrained");
	ok(client_wait_notices(&client, WIRE_KEEP, 1) && client_noticed(&client, WIRE_KEEP, two.granted.slab),
	   "clients may keep what they have");
	ok(client_lease(&client, &more) == 0, "and get more");
	client_bye(&client);
	client_wait_end(&client, client.session);
	client_close(&client);
	client_close(&operator);
}

static void test_force(struct daemon *daemon)
{
	struct wire_message one, draining, granted;
	struct client client, operator;

	come(&client, daemon, "client");
	come(&operator, daemon, "operator");
	ok(!client_lease(&client, &one), "a slab");
	ok(client_drain(&operator, WIRE_DRAIN_FORCE, 1000, &draining) == 0 && draining.draining.left_ms > 0 &&
	       draining.draining.left_ms <= 1000,
	   "drained by force: a deadline");
	ok(client_wait_notices(&client, WIRE_REVOKED, 1) && client_noticed(&client, WIRE_REVOKED, one.granted.slab),
	   "what is not released is taken");
	ok(client_claim(&client, one.granted.slab, &granted) == WIRE_REASON_TAKEN, "and is not its client's any more");
	ok(wait_slabs(&operator, 0, &draining) && !draining.draining.holders, "the donor is empty");
	ok(client_read(&client, one.granted.address, one.granted.rkey, 4096) < 0, "and its key dead");
	client_close(&client);
	client_close(&operator);
}

static const char *const lends[] = {"--donate", "4M", "--slab", "1M", "--heartbeat", "10000", NULL};

/* What a LEASE is answered with; 0: a slab. */
static int lease_asked(const struct daemon *daemon)
{
	struct wire_message granted;
	struct client client;
	int status;

	come(&client, daemon, "asks");
	status = client_lease(&client, &granted);
	client_bye(&client);
	client_wait_end(&client, client.session);
	client_close(&client);
	return status;
}

static bool drain_sent(const struct daemon *daemon, enum wire_drain what)
{
	struct wire_message draining;
	struct client operator;
	bool good;

	come(&operator, daemon, "operator");
	good = client_drain(&operator, what, 1000, &draining) == 0;
	client_close(&operator);
	return good;
}

/* Drained stays drained, however the program ends, and until it is undrained. */
static void test_again(const char *how, const char *const *arguments, const char *path, enum wire_drain what,
		       int signal)
{
	static struct daemon daemon;
	int end = signal == SIGKILL ? -SIGKILL : 0;

	if (!ok(daemon_start(&daemon, arguments) && !lease_asked(&daemon), "%s: a donor lends", how))
		return;
	ok(access(path, F_OK) < 0 && drain_sent(&daemon, what) && !access(path, F_OK), "%s: drained, there is a file",
	   how);
	ok(daemon_stop(&daemon, signal) == end, "%s: %s", how, strsignal(signal));
	if (!ok(daemon_start(&daemon, arguments) && strstr(daemon.log, "still drained"), "%s: it is started again",
		how))
		return;
	ok(lease_asked(&daemon) == WIRE_REASON_DRAINING, "%s: and lends nothing", how);
	ok(drain_sent(&daemon, WIRE_DRAIN_ASK) && !access(path, F_OK), "%s: asking how far it is ends nothing", how);
	ok(drain_sent(&daemon, WIRE_DRAIN_END) && access(path, F_OK) < 0 && !lease_asked(&daemon),
	   "%s: undrained, it lends, and there is no file", how);
	ok(daemon_stop(&daemon, signal) == end && daemon_start(&daemon, arguments) && !lease_asked(&daemon),
	   "%s: also when it is started once more", how);
	daemon_stop(&daemon, SIGTERM);
}

static void test_drain_file(void)
{
	static struct daemon daemon;
	char folder[] = "/tmp/farpage-drain-XXXXXX", path[64], folders[96];
	const char *arguments[] = {lends[0], lends[1],       lends[2], lends[3], lends[4],
				   lends[5], "--drain-file", path,     NULL};

	if (!mkdtemp(folder)) {
		printf("Bail out! no folder\n");
		exit(EXIT_FAILURE);
	}
	snprintf(path, sizeof path, "%s/drained", folder);
	test_again("a file", arguments, path, WIRE_DRAIN_WAIT, SIGTERM);
	test_again("by force", arguments, path, WIRE_DRAIN_FORCE, SIGKILL);
	snprintf(folders, sizeof folders, "%s:/nowhere", folder);
	setenv("STATE_DIRECTORY", folders, 1);
	test_again("a service", lends, path, WIRE_DRAIN_WAIT, SIGTERM);
	unsetenv("STATE_DIRECTORY");
	ok(daemon_start(&daemon, arguments), "a donor");
	rmdir(folder);
	ok(drain_sent(&daemon, WIRE_DRAIN_WAIT) && lease_asked(&daemon) == WIRE_REASON_DRAINING,
	   "without its folder it is drained all the same");
	ok(daemon_stop(&daemon, SIGTERM) == 0 && strstr(daemon.log, "started again it lends again"),
	   "and says what is wrong");
	ok(daemon_start(&daemon, lends) && drain_sent(&daemon, WIRE_DRAIN_WAIT) && !daemon_stop(&daemon, SIGTERM) &&
	       daemon_start(&daemon, lends) && !lease_asked(&daemon),
	   "without a file it is forgotten");
	daemon_stop(&daemon, SIGTERM);
}

int main(int argc, char **argv)
{
	static struct daemon daemon;

	if (argc < 2)
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	/* Heartbeats far apart: one client here is silent while the other waits. */
	if (!ok(daemon_start(&daemon, ARGS("--donate", "8M", "--slab", "1M", "--heartbeat", "10000")), "a donor"))
		return tap_done();
	test_wait(&daemon);
	test_force(&daemon);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a clean end");
	ok(strstr(daemon.log, "draining by force") && strstr(daemon.log, "lending again"), "the log tells of it");
	test_drain_file();
	return tap_done();
}
