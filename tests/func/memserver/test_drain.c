/* Draining a donor, on the wire: notices to clients, replies to the operator, and slabs taken by force. */
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

/* Asks for all clients that hold slabs, as the operator does. Returns their number. */
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

/* Asks until the donor has @slabs leased slabs left. Returns false if that takes too long. */
static bool wait_slabs(struct client *operator, uint32_t slabs, struct wire_message *draining)
{
	uint64_t end = clock_now() + UINT64_C(1000000) * DAEMON_WAIT_MS;

	while (clock_now() < end && !client_drain(operator, WIRE_DRAIN_ASK, 0, draining))
		if (draining->draining.slabs == slabs)
			return true;
	return false;
}

static void a_drain_waits_for_its_clients(struct daemon *daemon)
{
	struct wire_message one, two, other, draining, more, replies[4];
	struct client client, vanished, operator;

	come(&client, daemon, "client");
	come(&vanished, daemon, "vanished");
	come(&operator, daemon, "operator");
	ok(!client_lease(&client, &one) && !client_lease(&client, &two) && !client_lease(&vanished, &other),
	   "two clients lease three slabs");
	client_close(&vanished);
	ok(client_drain(&operator, WIRE_DRAIN_ASK, 0, &draining) == 0 && draining.draining.slabs == 3 &&
	       draining.draining.capacity.state == WIRE_STATE_LENDING,
	   "WIRE_DRAIN_ASK counts the slabs and drains nothing");
	ok(client_drain(&operator, WIRE_DRAIN_WAIT, 0, &draining) == 0 && draining.draining.slabs == 3 &&
	       draining.draining.holders == 2 && draining.draining.left_ms == WIRE_NO_DEADLINE &&
	       draining.draining.capacity.state == WIRE_STATE_DRAINING,
	   "WIRE_DRAIN_WAIT starts a drain without a deadline and tells slabs and holders");
	ok(holders(&operator, replies, 4) == 2 && replies[0].holder_reply.slabs == 2 &&
	       !memcmp(replies[0].holder_reply.name, "clie", 4) && strchr(replies[0].holder_reply.peer, ':'),
	   "the holder list has each client's name, slabs and address (%s)", replies[0].holder_reply.peer);
	ok(client_wait_notices(&client, WIRE_REVOKE, 2) && client.notices[0].revoke.deadline_ms == WIRE_NO_DEADLINE,
	   "a drain without a deadline recalls each slab of the client without a deadline");
	ok(client_lease(&client, &more) == WIRE_REASON_DRAINING, "a draining donor denies a lease");
	ok(client_read(&client, one.granted.address, one.granted.rkey, 4096) == 0,
	   "a client reads a leased slab of a draining donor");
	ok(client_release(&client, one.granted.slab) == 0, "a client releases a slab to a draining donor");
	ok(wait_slabs(&operator, 2, &draining), "the operator sees the number of slabs left after the release");
	ok(client_drain(&operator, WIRE_DRAIN_END, 0, &draining) == 0 &&
	       draining.draining.capacity.state == WIRE_STATE_LENDING,
	   "WIRE_DRAIN_END makes the donor lend again");
	ok(client_wait_notices(&client, WIRE_KEEP, 1) && client_noticed(&client, WIRE_KEEP, two.granted.slab),
	   "an undrained donor tells the client to keep its slab");
	ok(client_lease(&client, &more) == 0, "an undrained donor leases another slab");
	client_bye(&client);
	client_wait_end(&client, client.session);
	client_close(&client);
	client_close(&operator);
}

static void a_drain_by_force_takes_slabs_at_its_deadline(struct daemon *daemon)
{
	struct wire_message one, draining, granted;
	struct client client, operator;

	come(&client, daemon, "client");
	come(&operator, daemon, "operator");
	ok(!client_lease(&client, &one), "a client leases a slab before the drain by force");
	ok(client_drain(&operator, WIRE_DRAIN_FORCE, 1000, &draining) == 0 && draining.draining.left_ms > 0 &&
	       draining.draining.left_ms <= 1000,
	   "WIRE_DRAIN_FORCE tells the time left until its deadline");
	ok(client_wait_notices(&client, WIRE_REVOKED, 1) && client_noticed(&client, WIRE_REVOKED, one.granted.slab),
	   "a drain by force takes a slab that is not released");
	ok(client_claim(&client, one.granted.slab, &granted) == WIRE_REASON_TAKEN,
	   "a client's claim for a taken slab is denied");
	ok(wait_slabs(&operator, 0, &draining) && !draining.draining.holders,
	   "the operator sees no slab and no holder after a drain by force");
	ok(client_read(&client, one.granted.address, one.granted.rkey, 4096) < 0,
	   "a read with a taken slab's key fails");
	client_close(&client);
	client_close(&operator);
}

static const char *const lends[] = {"--donate", "4M", "--slab", "1M", "--heartbeat", "10000", NULL};

/* Returns the status of a new client's LEASE; 0 means that it gets a slab. */
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

/* A drained donor stays drained until it is undrained, however its process ends. */
static void a_drained_donor_stays_drained_when_restarted(const char *how, const char *const *arguments,
							 const char *path, enum wire_drain what, int signal)
{
	static struct daemon daemon;
	int end = signal == SIGKILL ? -SIGKILL : 0;

	if (!ok(daemon_start(&daemon, arguments) && !lease_asked(&daemon),
		"drained %s: the donor lends before the drain", how))
		return;
	ok(access(path, F_OK) < 0 && drain_sent(&daemon, what) && !access(path, F_OK),
	   "drained %s: the drain makes the drain file", how);
	ok(daemon_stop(&daemon, signal) == end, "drained %s: the donor ends as expected (%s)", how, strsignal(signal));
	if (!ok(daemon_start(&daemon, arguments) && strstr(daemon.log, "still drained"),
		"drained %s: the donor starts again and logs that it is still drained", how))
		return;
	ok(lease_asked(&daemon) == WIRE_REASON_DRAINING, "drained %s: the restarted donor denies a lease", how);
	ok(drain_sent(&daemon, WIRE_DRAIN_ASK) && !access(path, F_OK),
	   "drained %s: WIRE_DRAIN_ASK keeps the drain file", how);
	ok(drain_sent(&daemon, WIRE_DRAIN_END) && access(path, F_OK) < 0 && !lease_asked(&daemon),
	   "drained %s: WIRE_DRAIN_END removes the drain file and the donor lends", how);
	ok(daemon_stop(&daemon, signal) == end && daemon_start(&daemon, arguments) && !lease_asked(&daemon),
	   "drained %s: the undrained donor lends after another restart", how);
	daemon_stop(&daemon, SIGTERM);
}

static void the_drain_file_keeps_the_drain(void)
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
	a_drained_donor_stays_drained_when_restarted("with --drain-file", arguments, path, WIRE_DRAIN_WAIT, SIGTERM);
	a_drained_donor_stays_drained_when_restarted("by force with --drain-file", arguments, path, WIRE_DRAIN_FORCE,
						     SIGKILL);
	snprintf(folders, sizeof folders, "%s:/nowhere", folder);
	setenv("STATE_DIRECTORY", folders, 1);
	a_drained_donor_stays_drained_when_restarted("as a service", lends, path, WIRE_DRAIN_WAIT, SIGTERM);
	unsetenv("STATE_DIRECTORY");
	ok(daemon_start(&daemon, arguments), "a donor with a drain file starts");
	rmdir(folder);
	ok(drain_sent(&daemon, WIRE_DRAIN_WAIT) && lease_asked(&daemon) == WIRE_REASON_DRAINING,
	   "a donor is drained although the folder of its drain file is gone");
	ok(daemon_stop(&daemon, SIGTERM) == 0 && strstr(daemon.log, "started again it lends again"),
	   "the log says that a donor without its drain file's folder lends again when restarted");
	ok(daemon_start(&daemon, lends) && drain_sent(&daemon, WIRE_DRAIN_WAIT) && !daemon_stop(&daemon, SIGTERM) &&
	       daemon_start(&daemon, lends) && !lease_asked(&daemon),
	   "a donor without --drain-file lends after a restart");
	daemon_stop(&daemon, SIGTERM);
}

int main(int argc, char **argv)
{
	static struct daemon daemon;

	if (argc < 2)
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	/* Heartbeats are far apart, because one client is silent while the test waits for the other. */
	if (!ok(daemon_start(&daemon, ARGS("--donate", "8M", "--slab", "1M", "--heartbeat", "10000")),
		"a donor starts"))
		return tap_done();
	a_drain_waits_for_its_clients(&daemon);
	a_drain_by_force_takes_slabs_at_its_deadline(&daemon);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor that was drained ends with 0 after SIGTERM");
	ok(strstr(daemon.log, "draining by force") && strstr(daemon.log, "lending again"),
	   "the log has the drain by force and its end");
	the_drain_file_keeps_the_drain();
	return tap_done();
}
