/* Keys of several clients: whose they are, what each name may lease, who may drain, and how a key is replaced. */
#include "common/auth.h"
#include "tests/func/memserver/client.h"
#include "tests/func/memserver/daemon.h"
#include "tests/tap.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* Heartbeats far apart: clients here are silent while others speak. */
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

/* Comes, and goes again. */
static int visit(const struct daemon *daemon, unsigned key, const char *name)
{
	struct client client;
	int status = come(&client, daemon, key, name);

	client_close(&client);
	return status;
}

static void test_names(struct daemon *daemon)
{
	struct client one, two, bob;
	struct wire_message grant;

	ok(come(&one, daemon, ALICE, "one") == 0 && come(&two, daemon, ALICE_TOO, "two") == 0,
	   "both keys of a name are good");
	ok(come(&bob, daemon, BOB, "bob") == 0, "the key of another name is good");
	ok(visit(daemon, STRANGER, "stranger") == WIRE_REASON_KEY, "a key that is nobody's is refused");
	ok(daemon_log_wait(daemon, "has come, key alice, tcp://") && daemon_log_wait(daemon, "has come, key bob, "),
	   "the log says whose key it was");
	ok(client_lease(&one, &grant) == 0 && client_lease(&two, &grant) == 0,
	   "two clients of a name lease what it may have");
	ok(client_lease(&one, &grant) == WIRE_REASON_FULL && client_lease(&two, &grant) == WIRE_REASON_FULL,
	   "neither gets more than the name may have together");
	ok(client_lease(&bob, &grant) == 0 && client_lease(&bob, &grant) == 0 && client_lease(&bob, &grant) == 0,
	   "another name is not kept from more");
	ok(visit(daemon, BOB, "one") == WIRE_REASON_KEY, "nobody takes over the leases of another name");
	ok(client_wait_capacity(&one, 5 << 20, 3) && one.session, "the client whose id was tried never noticed");
	ok(visit(daemon, ALICE_TOO, "one") == 0, "another key of the same name goes on with its leases");
	client_close(&one);
	client_bye(&two);
	client_wait_end(&two, two.session);
	client_bye(&bob);
	client_wait_end(&bob, bob.session);
	client_close(&two);
	client_close(&bob);
}

static void test_admin(struct daemon *daemon)
{
	struct wire_message answer, grant;
	struct client bob, admin;

	ok(come(&bob, daemon, BOB, "bob") == 0 && client_attach(&bob, 0) == 0 && client_lease(&bob, &grant) == 0,
	   "a client leases a slab");
	ok(client_drain(&bob, WIRE_DRAIN_WAIT, 0, &answer) == WIRE_REASON_ADMIN &&
	       client_drain(&bob, WIRE_DRAIN_FORCE, 1000, &answer) == WIRE_REASON_ADMIN &&
	       client_drain(&bob, WIRE_DRAIN_END, 0, &answer) == WIRE_REASON_ADMIN,
	   "a client may neither drain nor undrain");
	ok(client_holder(&bob, 0, &answer) == WIRE_REASON_ADMIN, "a client may not see who leases what");
	ok(daemon_log_wait(daemon, "not allowed to drain by force (key bob, tcp://"), "the log says who tried");
	ok(client_drain(&bob, WIRE_DRAIN_ASK, 0, &answer) == 0 && answer.draining.capacity.state == WIRE_STATE_LENDING,
	   "nothing has come of it");
	ok(come(&admin, daemon, ADMIN, "admin") == 0 && client_holder(&admin, 0, &answer) == 0,
	   "the admin key sees who leases what");
	ok(client_drain(&admin, WIRE_DRAIN_FORCE, 1000, &answer) == 0 && client_wait_notices(&bob, WIRE_REVOKED, 1),
	   "the admin key drains by force");
	ok(daemon_log_wait(daemon, "draining by force (key admin, tcp://"), "one line says who did");
	ok(client_drain(&admin, WIRE_DRAIN_END, 0, &answer) == 0 &&
	       daemon_log_wait(daemon, "lending again (key admin, tcp://"),
	   "the admin key undrains, and one line says so");
	client_close(&bob);
	client_close(&admin);
}

/* A new key beside the old one, then without it. */
static void test_rotation(struct daemon *daemon)
{
	struct wire_capacity capacity;
	struct client client;
	char added[128];

	snprintf(added, sizeof added, "%s/bob.2.key", keys_path);
	ok(come(&client, daemon, BOB, "client") == 0, "a client has come with the old key");
	ok(visit(daemon, BOB_NEW, "new") == WIRE_REASON_KEY, "a key not yet there is refused");
	rename(paths[BOB_NEW], added);
	kill(daemon->pid, SIGHUP);
	ok(daemon_log_wait(daemon, "memserver: reloaded"), "the keys are read anew");
	ok(visit(daemon, BOB_NEW, "new") == 0 && visit(daemon, BOB, "old") == 0, "both keys are valid");
	unlink(paths[BOB]);
	daemon->log[0] = '\0';
	kill(daemon->pid, SIGHUP);
	ok(daemon_log_wait(daemon, "memserver: reloaded"), "the keys are read once more");
	ok(visit(daemon, BOB, "old") == WIRE_REASON_KEY && visit(daemon, BOB_NEW, "new") == 0,
	   "only the new key is valid");
	ok(client_status(&client, &capacity) == 0 && client.session, "the client that is there goes on");
	client_close(&client);
	chmod(added, 0644);
	daemon->log[0] = '\0';
	kill(daemon->pid, SIGHUP);
	ok(daemon_log_wait(daemon, "not reloaded: the settings stay as they were") && strstr(daemon->log, "chmod 600"),
	   "a key file that others may read is refused");
	ok(visit(daemon, BOB_NEW, "new") == 0, "then the keys are those of before");
	unlink(added);
}

/* Keys, but none for an administrator. */
static void test_without_admin(void)
{
	static struct daemon daemon;
	struct wire_message answer;
	struct client client;

	if (!ok(daemon_start(&daemon, ARGS(LENDS, "--key", paths[ALICE], "--key", paths[ALICE_TOO])),
		"a donor with two keys, and none for an administrator"))
		return;
	ok(visit(&daemon, ALICE, "old") == 0 && come(&client, &daemon, ALICE_TOO, "new") == 0, "each key is valid");
	ok(client_drain(&client, WIRE_DRAIN_WAIT, 0, &answer) == 0 && client_holder(&client, 0, &answer) == 0 &&
	       client_drain(&client, WIRE_DRAIN_END, 0, &answer) == 0,
	   "whoever has a key may drain, where nothing is taken by force");
	ok(client_drain(&client, WIRE_DRAIN_FORCE, 1000, &answer) == WIRE_REASON_ADMIN, "nobody may drain by force");
	client_close(&client);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "the donor ends in order");
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
		"a donor with keys of two clients and an administrator's"))
		return tap_done();
	test_names(&daemon);
	test_admin(&daemon);
	test_rotation(&daemon);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "the donor ends in order, after all of that");
	test_without_admin();
	for (unsigned i = 0; i < KEYS; i++)
		unlink(paths[i]);
	rmdir(keys_path);
	rmdir(folder);
	return tap_done();
}
