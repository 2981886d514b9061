/* Draining a donor, on the wire: notices to clients, replies to the operator, and slabs taken by force. */
#include "tests/func/memserver/client.h"
#include "tests/lib/folder.h"
#include "tests/lib/wait.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define SLAB (1u << 20)

static struct donor_process donor;

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
	return wait_until(!client_drain(operator, WIRE_DRAIN_ASK, 0, draining) && draining->draining.slabs == slabs);
}

static void a_drain_waits_for_its_clients(void)
{
	struct wire_message one, two, other, draining, more, replies[4];
	struct client client, vanished, operator;

	client_arrive(&client, &donor, "client");
	client_init(&vanished, donor.uri, NULL, "vanished");
	vanished.about = (struct wire_about){.host = "node7", .user = "alice", .command = "python3", .pid = 4711};
	if (client_come(&vanished) || client_attach(&vanished, 0))
		tap_bail("a client cannot connect");
	ok(donor_log_wait(&donor, ", and says: python3 (pid 4711) of alice on node7\n"),
	   "the log has what a client says about itself");
	client_arrive(&operator, & donor, "operator");
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
	ok(strcmp(replies[1].holder_reply.about.host, "node7") == 0 &&
	       strcmp(replies[1].holder_reply.about.user, "alice") == 0 &&
	       strcmp(replies[1].holder_reply.about.command, "python3") == 0 &&
	       replies[1].holder_reply.about.pid == 4711 && !*replies[0].holder_reply.about.user,
	   "the holder list has each client's host, user, command and process");
	ok(!*replies[0].holder_reply.key, "the holder list has no key if the donor has none");
	ok(client_wait_notices(&client, WIRE_REVOKE, 2) && client.notices[0].revoke.deadline_ms == WIRE_NO_DEADLINE,
	   "a drain without a deadline recalls each slab of the client without a deadline");
	ok(client_lease(&client, &more) == WIRE_REASON_DRAINING, "a draining donor denies a lease");
	ok(client_get(&client, &one, 4096) == 0, "a client reads a leased slab of a draining donor");
	ok(client_release(&client, one.granted.slab) == 0, "a client releases a slab to a draining donor");
	ok(wait_slabs(&operator, 2, &draining), "the operator sees the number of slabs left after the release");
	ok(client_drain(&operator, WIRE_DRAIN_END, 0, &draining) == 0 &&
	       draining.draining.capacity.state == WIRE_STATE_LENDING,
	   "WIRE_DRAIN_END makes the donor lend again");
	ok(client_wait_notices(&client, WIRE_KEEP, 1) && client_noticed(&client, WIRE_KEEP, two.granted.slab),
	   "an undrained donor tells the client to keep its slab");
	ok(client_lease(&client, &more) == 0, "an undrained donor leases another slab");
	client_leave(&client);
	client_close(&operator);
}

static void a_drain_by_force_takes_slabs_at_its_deadline(void)
{
	struct wire_message one, draining, granted;
	struct client client, operator;

	client_arrive(&client, &donor, "client");
	client_arrive(&operator, & donor, "operator");
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
	ok(client_get(&client, &one, 4096) < 0, "a read with a taken slab's key fails");
	client_close(&client);
	client_close(&operator);
}

static const char *const lends[] = {"--donate", "4M", "--slab", "1M", "--heartbeat", "10000", NULL};

/* Returns the status of a new client's LEASE; 0 means that it gets a slab. */
static int lease_asked(void)
{
	struct wire_message granted;
	struct client client;
	int status;

	client_arrive(&client, &donor, "asks");
	status = client_lease(&client, &granted);
	client_leave(&client);
	return status;
}

static bool drain_sent(enum wire_drain what)
{
	struct wire_message draining;
	struct client operator;
	bool good;

	client_arrive(&operator, & donor, "operator");
	good = client_drain(&operator, what, 1000, &draining) == 0;
	client_close(&operator);
	return good;
}

/* A drained donor stays drained until it is undrained, however its process ends. */
static void a_drained_donor_stays_drained_when_restarted(const char *how, const char *const *arguments,
							 const char *path, enum wire_drain what, int signal)
{
	int end = signal == SIGKILL ? -SIGKILL : 0;

	donor_start_list(&donor, NULL, arguments);
	ok(!lease_asked(), "drained %s: the donor lends before the drain", how);
	ok(access(path, F_OK) < 0 && drain_sent(what) && !access(path, F_OK),
	   "drained %s: the drain makes the drain file", how);
	ok(donor_stop(&donor, signal) == end, "drained %s: the donor ends as expected (%s)", how, strsignal(signal));
	donor_again(&donor);
	ok(strstr(donor.log, "still drained"), "drained %s: the donor starts again and logs that it is still drained",
	   how);
	ok(lease_asked() == WIRE_REASON_DRAINING, "drained %s: the restarted donor denies a lease", how);
	ok(drain_sent(WIRE_DRAIN_ASK) && !access(path, F_OK), "drained %s: WIRE_DRAIN_ASK keeps the drain file", how);
	ok(drain_sent(WIRE_DRAIN_END) && access(path, F_OK) < 0 && !lease_asked(),
	   "drained %s: WIRE_DRAIN_END removes the drain file and the donor lends", how);
	ok(donor_stop(&donor, signal) == end, "drained %s: the undrained donor ends as expected", how);
	donor_again(&donor);
	ok(!lease_asked(), "drained %s: the undrained donor lends after another restart", how);
	donor_end(&donor);
}

static void the_drain_file_keeps_the_drain(void)
{
	const char *path = folder_path("drained");
	char folders[96];
	const char *arguments[] = {lends[0], lends[1],       lends[2], lends[3], lends[4],
				   lends[5], "--drain-file", path,     NULL};

	a_drained_donor_stays_drained_when_restarted("with --drain-file", arguments, path, WIRE_DRAIN_WAIT, SIGTERM);
	a_drained_donor_stays_drained_when_restarted("by force with --drain-file", arguments, path, WIRE_DRAIN_FORCE,
						     SIGKILL);
	snprintf(folders, sizeof folders, "%s:/nowhere", folder());
	setenv("STATE_DIRECTORY", folders, 1);
	a_drained_donor_stays_drained_when_restarted("as a service", lends, path, WIRE_DRAIN_WAIT, SIGTERM);
	unsetenv("STATE_DIRECTORY");
	donor_start_list(&donor, NULL, arguments);
	rmdir(folder());
	ok(drain_sent(WIRE_DRAIN_WAIT) && lease_asked() == WIRE_REASON_DRAINING,
	   "a donor is drained although the folder of its drain file is gone");
	ok(donor_stop(&donor, SIGTERM) == 0 && strstr(donor.log, "started again it lends again"),
	   "the log says that a donor without its drain file's folder lends again when restarted");
	donor_start_list(&donor, NULL, lends);
	ok(drain_sent(WIRE_DRAIN_WAIT) && !donor_stop(&donor, SIGTERM),
	   "a donor without --drain-file is drained and ends");
	donor_again(&donor);
	ok(!lease_asked(), "a donor without --drain-file lends after a restart");
	donor_end(&donor);
}

int main(void)
{
	/* Heartbeats are far apart, because one client is silent while the test waits for the other. */
	donor_start(&donor, "--donate", "8M", "--slab", "1M", "--heartbeat", "10000");
	a_drain_waits_for_its_clients();
	a_drain_by_force_takes_slabs_at_its_deadline();
	donor_end(&donor);
	ok(strstr(donor.log, "draining by force") && strstr(donor.log, "lending again"),
	   "the log has the drain by force and its end");
	the_drain_file_keeps_the_drain();
	return tap_done();
}
