/* Keys of several clients: their names, each name's quota, the right to drain, and how a key is replaced. */
#include "tests/func/memserver/client.h"
#include "tests/lib/folder.h"
#include "wire/auth.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

/* Heartbeats are far apart, because each client is silent while the test uses another. */
#define LENDS "--donate", "8M", "--slab", "1M", "--heartbeat", "10000"

enum { ALICE, ALICE_TOO, BOB, BOB_NEW, ADMIN, STRANGER, KEYS };
static const char *const files[KEYS] = {"keys/alice.key", "keys/alice.key.old", "keys/bob.key", "bob-new", "admin",
					"stranger"};
static struct donor_process donor;
static const char *paths[KEYS], *keys_path;
static uint8_t keys[KEYS][AUTH_KEY_SIZE];

static void keys_make(void)
{
	keys_path = folder_path("keys");
	mkdir(keys_path, 0700);
	for (unsigned i = 0; i < KEYS; i++) {
		paths[i] = folder_path(files[i]);
		if (auth_key_create(paths[i]) < 0 || auth_key_load(paths[i], keys[i]) < 0)
			tap_bail("no key %s", paths[i]);
	}
}

/* Opens a session and closes it. Returns the status of the handshake. */
static int visit(unsigned key, const char *name)
{
	return client_visit(&donor, keys[key], name);
}

static void each_name_has_its_keys_leases_and_quota(void)
{
	struct client one, two, bob;
	struct wire_message grant;

	ok(client_enter(&one, &donor, keys[ALICE], "one") == 0 &&
	       client_enter(&two, &donor, keys[ALICE_TOO], "two") == 0,
	   "the donor accepts both keys of one name");
	ok(client_enter(&bob, &donor, keys[BOB], "bob") == 0, "the donor accepts the key of another name");
	ok(visit(STRANGER, "stranger") == WIRE_REASON_KEY, "the donor refuses an unknown key");
	ok(donor_log_wait(&donor, "has come, key alice, tcp://") && donor_log_wait(&donor, "has come, key bob, "),
	   "the log has the name of each client's key");
	ok(client_lease(&one, &grant) == 0 && client_lease(&two, &grant) == 0,
	   "two clients of one name lease slabs up to the name's quota");
	ok(client_lease(&one, &grant) == WIRE_REASON_FULL && client_lease(&two, &grant) == WIRE_REASON_FULL,
	   "the name's quota limits both clients together");
	ok(client_lease(&bob, &grant) == 0 && client_lease(&bob, &grant) == 0 && client_lease(&bob, &grant) == 0,
	   "a client of another name leases more than that quota");
	ok(visit(BOB, "one") == WIRE_REASON_KEY, "the donor refuses a client id that belongs to another name");
	ok(client_wait_capacity(&one, 5 << 20, 3) && one.session,
	   "the attempt with another name's key does not disturb the owner of the client id");
	ok(visit(ALICE_TOO, "one") == 0, "a client returns to its id with another key of the same name");
	client_close(&one);
	client_leave(&two);
	client_leave(&bob);
}

static void only_the_admin_key_drains(void)
{
	struct wire_message answer, grant;
	struct client bob, admin;

	ok(client_enter(&bob, &donor, keys[BOB], "bob") == 0 && client_attach(&bob, 0) == 0 &&
	       client_lease(&bob, &grant) == 0,
	   "a client leases a slab before an admin drains");
	ok(client_drain(&bob, WIRE_DRAIN_WAIT, 0, &answer) == WIRE_REASON_ADMIN &&
	       client_drain(&bob, WIRE_DRAIN_FORCE, 1000, &answer) == WIRE_REASON_ADMIN &&
	       client_drain(&bob, WIRE_DRAIN_END, 0, &answer) == WIRE_REASON_ADMIN,
	   "the donor denies a client's drain, drain by force and undrain");
	ok(client_holder(&bob, 0, &answer) == WIRE_REASON_ADMIN, "the donor denies a client the list of holders");
	ok(donor_log_wait(&donor, "not allowed to drain by force (key bob, tcp://"),
	   "the log names the key of a client that may not drain");
	ok(client_drain(&bob, WIRE_DRAIN_ASK, 0, &answer) == 0 && answer.draining.capacity.state == WIRE_STATE_LENDING,
	   "the donor still lends after a client's denied drain");
	ok(client_enter(&admin, &donor, keys[ADMIN], "admin") == 0 && client_holder(&admin, 0, &answer) == 0,
	   "the admin key gets the list of holders");
	while (answer.holder_reply.next && strcmp(answer.holder_reply.key, "bob") != 0 &&
	       client_holder(&admin, answer.holder_reply.next, &answer) == 0)
		;
	ok(!memcmp(answer.holder_reply.name, "bob", 4) && strcmp(answer.holder_reply.key, "bob") == 0,
	   "the list of holders has the name of each client's key");
	ok(client_drain(&admin, WIRE_DRAIN_FORCE, 1000, &answer) == 0 && client_wait_notices(&bob, WIRE_REVOKED, 1),
	   "a drain by force with the admin key takes a client's slab");
	ok(donor_log_wait(&donor, "draining by force (key admin, tcp://"),
	   "the log names the admin key that drains by force");
	ok(client_drain(&admin, WIRE_DRAIN_END, 0, &answer) == 0 &&
	       donor_log_wait(&donor, "lending again (key admin, tcp://"),
	   "the admin key undrains the donor, and the log names it");
	client_close(&bob);
	client_close(&admin);
}

/* The folder gets a new key beside the old one, then loses the old one. */
static void keys_are_replaced_at_a_reload(void)
{
	struct wire_capacity capacity;
	struct client client;
	const char *added = folder_path("keys/bob.2.key");

	ok(client_enter(&client, &donor, keys[BOB], "client") == 0, "a client opens a session with the old key");
	ok(visit(BOB_NEW, "new") == WIRE_REASON_KEY, "the donor refuses the new key before it reads it");
	rename(paths[BOB_NEW], added);
	kill(donor.pid, SIGHUP);
	ok(donor_log_wait(&donor, "memserver: reloaded"), "SIGHUP makes the donor read the keys again");
	ok(visit(BOB_NEW, "new") == 0 && visit(BOB, "old") == 0, "the donor accepts the old and the new key");
	unlink(paths[BOB]);
	donor.log[0] = '\0';
	kill(donor.pid, SIGHUP);
	ok(donor_log_wait(&donor, "memserver: reloaded"), "SIGHUP makes the donor read the keys without the old one");
	ok(visit(BOB, "old") == WIRE_REASON_KEY && visit(BOB_NEW, "new") == 0,
	   "the donor refuses the removed key and accepts the new one");
	ok(client_status(&client, &capacity) == 0 && client.session,
	   "the session that was opened with the removed key goes on");
	client_close(&client);
	chmod(added, 0644);
	donor.log[0] = '\0';
	kill(donor.pid, SIGHUP);
	ok(donor_log_wait(&donor, "not reloaded: the settings stay as they were") && strstr(donor.log, "chmod 600"),
	   "a reload with a key file that others may read is refused");
	ok(visit(BOB_NEW, "new") == 0, "the donor keeps its former keys after a refused reload");
	unlink(added);
}

/* The donor has keys for clients, but no admin key. */
static void any_key_drains_a_donor_without_an_admin_key(void)
{
	struct wire_message answer;
	struct client client;

	donor_start(&donor, LENDS, "--key", paths[ALICE], "--key", paths[ALICE_TOO]);
	ok(visit(ALICE, "old") == 0 && client_enter(&client, &donor, keys[ALICE_TOO], "new") == 0,
	   "a donor without an admin key accepts each of its keys");
	ok(client_drain(&client, WIRE_DRAIN_WAIT, 0, &answer) == 0 && client_holder(&client, 0, &answer) == 0 &&
	       client_drain(&client, WIRE_DRAIN_END, 0, &answer) == 0,
	   "any key may drain and undrain a donor without an admin key");
	ok(client_drain(&client, WIRE_DRAIN_FORCE, 1000, &answer) == WIRE_REASON_ADMIN,
	   "a donor without an admin key denies a drain by force");
	client_close(&client);
	donor_end(&donor);
}

int main(void)
{
	keys_make();
	donor_start(&donor, LENDS, "--keys", keys_path, "--admin-key", paths[ADMIN], "--client-quota", "alice=2M");
	each_name_has_its_keys_leases_and_quota();
	only_the_admin_key_drains();
	keys_are_replaced_at_a_reload();
	donor_end(&donor);
	any_key_drains_a_donor_without_an_admin_key();
	return tap_done();
}
