/* Keys of several clients: their names, each name's quota, the right to drain, and how a key is replaced. */
#include "common/auth.h"
#include "tests/func/memserver/client.h"
#include "tests/func/memserver/daemon.h"
#include "tests/tap.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* Heartbeats are far apart, because clients are silent while others speak. */
#define LENDS "--donate", "8M", "--slab", "1M", "--heartbeat", "10000"

enum { ALICE, ALICE_TOO, BOB, BOB_NEW, ADMIN, STRANGER, KEYS };
static const char *const files[KEYS] = {"keys/alice.key", "keys/alice.key.old", "keys/bob.key", "bob-new", "admin",
					"stranger"};
static char folder[] = "/tmp/farpage-keys-XXXXXX", paths[KEYS][96], keys_path[96];
static uint8_t keys[KEYS][AUTH_KEY_SIZE];

static void keys_make(void)
{
	bool good = mkdtemp(folder) != NULL;

	snprintf(keys_path, sizeof keys_path, "%s/keys", folder);
	good = good && mkdir(keys_path, 0700) == 0;
	for (unsigned i = 0; good && i < KEYS; i++) {
		snprintf(paths[i], sizeof paths[i], "%s/%s", folder, files[i]);
		good = auth_key_create(paths[i]) == 0 && auth_key_load(paths[i], keys[i]) == 0;
	}
	if (good)
		return;
	printf("Bail out! no keys in %s\n", folder);
	exit(EXIT_FAILURE);
}

static int come(struct client *client, const struct daemon *daemon, unsigned key, const char *name)
{
	client_init(client, daemon->uri, keys[key], name);
	return client_come(client);
}

/* Opens a session and closes it. Returns the status of the handshake. */
static int visit(const struct daemon *daemon, unsigned key, const char *name)
{
	struct client client;
	int status = come(&client, daemon, key, name);

	client_close(&client);
	return status;
}

static void each_name_has_its_keys_leases_and_quota(struct daemon *daemon)
{
	struct client one, two, bob;
	struct wire_message grant;

	ok(come(&one, daemon, ALICE, "one") == 0 && come(&two, daemon, ALICE_TOO, "two") == 0,
	   "the donor accepts both keys of one name");
	ok(come(&bob, daemon, BOB, "bob") == 0, "the donor accepts the key of another name");
	ok(visit(daemon, STRANGER, "stranger") == WIRE_REASON_KEY, "the donor refuses an unknown key");
	ok(daemon_log_wait(daemon, "has come, key alice, tcp://") && daemon_log_wait(daemon, "has come, key bob, "),
	   "the log has the name of each client's key");
	ok(client_lease(&one, &grant) == 0 && client_lease(&two, &grant) == 0,
	   "two clients of one name lease slabs up to the name's quota");
	ok(client_lease(&one, &grant) == WIRE_REASON_FULL && client_lease(&two, &grant) == WIRE_REASON_FULL,
	   "the name's quota limits both clients together");
	ok(client_lease(&bob, &grant) == 0 && client_lease(&bob, &grant) == 0 && client_lease(&bob, &grant) == 0,
	   "a client of another name leases more than that quota");
	ok(visit(daemon, BOB, "one") == WIRE_REASON_KEY, "the donor refuses a client id that belongs to another name");
	ok(client_wait_capacity(&one, 5 << 20, 3) && one.session,
	   "the attempt with another name's key does not disturb the owner of the client id");
	ok(visit(daemon, ALICE_TOO, "one") == 0, "a client returns to its id with another key of the same name");
	client_close(&one);
	client_bye(&two);
	client_wait_end(&two, two.session);
	client_bye(&bob);
	client_wait_end(&bob, bob.session);
	client_close(&two);
	client_close(&bob);
}

static void only_the_admin_key_drains(struct daemon *daemon)
{
	struct wire_message answer, grant;
	struct client bob, admin;

	ok(come(&bob, daemon, BOB, "bob") == 0 && client_attach(&bob, 0) == 0 && client_lease(&bob, &grant) == 0,
	   "a client leases a slab before an admin drains");
	ok(client_drain(&bob, WIRE_DRAIN_WAIT, 0, &answer) == WIRE_REASON_ADMIN &&
	       client_drain(&bob, WIRE_DRAIN_FORCE, 1000, &answer) == WIRE_REASON_ADMIN &&
	       client_drain(&bob, WIRE_DRAIN_END, 0, &answer) == WIRE_REASON_ADMIN,
	   "the donor denies a client's drain, drain by force and undrain");
	ok(client_holder(&bob, 0, &answer) == WIRE_REASON_ADMIN, "the donor denies a client the list of holders");
	ok(daemon_log_wait(daemon, "not allowed to drain by force (key bob, tcp://"),
	   "the log names the key of a client that may not drain");
	ok(client_drain(&bob, WIRE_DRAIN_ASK, 0, &answer) == 0 && answer.draining.capacity.state == WIRE_STATE_LENDING,
	   "the donor still lends after a client's denied drain");
	ok(come(&admin, daemon, ADMIN, "admin") == 0 && client_holder(&admin, 0, &answer) == 0,
	   "the admin key gets the list of holders");
	ok(client_drain(&admin, WIRE_DRAIN_FORCE, 1000, &answer) == 0 && client_wait_notices(&bob, WIRE_REVOKED, 1),
	   "a drain by force with the admin key takes a client's slab");
	ok(daemon_log_wait(daemon, "draining by force (key admin, tcp://"),
	   "the log names the admin key that drains by force");
	ok(client_drain(&admin, WIRE_DRAIN_END, 0, &answer) == 0 &&
	       daemon_log_wait(daemon, "lending again (key admin, tcp://"),
	   "the admin key undrains the donor, and the log names it");
	client_close(&bob);
	client_close(&admin);
}

/* The folder gets a new key beside the old one, then loses the old one. */
static void keys_are_replaced_at_a_reload(struct daemon *daemon)
{
	struct wire_capacity capacity;
	struct client client;
	char added[128];

	snprintf(added, sizeof added, "%s/bob.2.key", keys_path);
	ok(come(&client, daemon, BOB, "client") == 0, "a client opens a session with the old key");
	ok(visit(daemon, BOB_NEW, "new") == WIRE_REASON_KEY, "the donor refuses the new key before it reads it");
	rename(paths[BOB_NEW], added);
	kill(daemon->pid, SIGHUP);
	ok(daemon_log_wait(daemon, "memserver: reloaded"), "SIGHUP makes the donor read the keys again");
	ok(visit(daemon, BOB_NEW, "new") == 0 && visit(daemon, BOB, "old") == 0,
	   "the donor accepts the old and the new key");
	unlink(paths[BOB]);
	daemon->log[0] = '\0';
	kill(daemon->pid, SIGHUP);
	ok(daemon_log_wait(daemon, "memserver: reloaded"), "SIGHUP makes the donor read the keys without the old one");
	ok(visit(daemon, BOB, "old") == WIRE_REASON_KEY && visit(daemon, BOB_NEW, "new") == 0,
	   "the donor refuses the removed key and accepts the new one");
	ok(client_status(&client, &capacity) == 0 && client.session,
	   "the session that was opened with the removed key goes on");
	client_close(&client);
	chmod(added, 0644);
	daemon->log[0] = '\0';
	kill(daemon->pid, SIGHUP);
	ok(daemon_log_wait(daemon, "not reloaded: the settings stay as they were") && strstr(daemon->log, "chmod 600"),
	   "a reload with a key file that others may read is refused");
	ok(visit(daemon, BOB_NEW, "new") == 0, "the donor keeps its former keys after a refused reload");
	unlink(added);
}

/* The donor has keys for clients, but no admin key. */
static void any_key_drains_a_donor_without_an_admin_key(void)
{
	static struct daemon daemon;
	struct wire_message answer;
	struct client client;

	if (!ok(daemon_start(&daemon, ARGS(LENDS, "--key", paths[ALICE], "--key", paths[ALICE_TOO])),
		"a donor with two keys and no admin key starts"))
		return;
	ok(visit(&daemon, ALICE, "old") == 0 && come(&client, &daemon, ALICE_TOO, "new") == 0,
	   "a donor without an admin key accepts each of its keys");
	ok(client_drain(&client, WIRE_DRAIN_WAIT, 0, &answer) == 0 && client_holder(&client, 0, &answer) == 0 &&
	       client_drain(&client, WIRE_DRAIN_END, 0, &answer) == 0,
	   "any key may drain and undrain a donor without an admin key");
	ok(client_drain(&client, WIRE_DRAIN_FORCE, 1000, &answer) == WIRE_REASON_ADMIN,
	   "a donor without an admin key denies a drain by force");
	client_close(&client);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor without an admin key ends with 0 after SIGTERM");
}

int main(int argc, char **argv)
{
	static struct daemon daemon;

	if (argc < 2)
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	keys_make();
	if (!ok(daemon_start(&daemon, ARGS(LENDS, "--keys", keys_path, "--admin-key", paths[ADMIN], "--client-quota",
					   "alice=2M")),
		"a donor with a folder of keys and an admin key starts"))
		return tap_done();
	each_name_has_its_keys_leases_and_quota(&daemon);
	only_the_admin_key_drains(&daemon);
	keys_are_replaced_at_a_reload(&daemon);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor with a folder of keys ends with 0 after SIGTERM");
	any_key_drains_a_donor_without_an_admin_key();
	for (unsigned i = 0; i < KEYS; i++)
		unlink(paths[i]);
	rmdir(keys_path);
	rmdir(folder);
	return tap_done();
}
