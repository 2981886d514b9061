/* SIGHUP: the donor reads its settings anew, goes on with what makes no sense as it was, and never ends a lease. */
#include "common/auth.h"
#include "tests/func/memserver/client.h"
#include "tests/func/memserver/daemon.h"
#include "tests/tap.h"

#include <signal.h>
#include <unistd.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static char path[] = "/tmp/farpage-reload-XXXXXX";

static void config_write(const char *settings)
{
	FILE *file = fopen(path, "w");

	fprintf(file, "[farpage-memserver]\nheartbeat = 10000\nslab = 1M\n%s", settings);
	fclose(file);
}

/* Has the donor read these settings; its log since then. */
static bool reload(struct daemon *daemon, const char *settings, const char *says)
{
	config_write(settings);
	daemon->log[0] = '\0';
	kill(daemon->pid, SIGHUP);
	return daemon_log_wait(daemon, "reloaded") && daemon_log_wait(daemon, says);
}

/* What a new client is told: how long it may be away, ms. */
static uint32_t grace_told(const struct daemon *daemon)
{
	struct client client;
	uint32_t grace;

	client_init(&client, daemon->uri, NULL, "asks");
	grace = client_come(&client) == 0 ? client.welcome.welcome.grace_ms : 0;
	client_bye(&client);
	client_wait_end(&client, client.session);
	client_close(&client);
	return grace;
}

static uint64_t donated(struct client *client)
{
	struct wire_capacity capacity = {0};

	client_status(client, &capacity);
	return capacity.donated >> 20;
}

static void test_settings(struct daemon *daemon, struct client *client, const struct wire_message *grant)
{
	struct wire_message more, denied;

	ok(reload(daemon, "donate = 8M\ngrace = 7\nquota = 2M\nverbose = yes\n", "memserver: reloaded\n"),
	   "SIGHUP: the settings are read anew, in one line");
	ok(client_read(client, grant->granted.address, grant->granted.rkey, 4096) == 0 && client->session,
	   "the client that is there goes on, with its slab");
	ok(grace_told(daemon) == 7000, "leases of a new client wait as long as is said now");
	ok(daemon_log_wait(daemon, " -> established"), "more is logged");
	ok(client_lease(client, &more) == 0 && client_lease(client, &denied) == WIRE_REASON_FULL,
	   "one client gets what it may have now, and no more");
	ok(client_release(client, more.granted.slab) == 0 && reload(daemon, "donate = 3M\n", "memserver: reloaded\n") &&
	       donated(client) == 3,
	   "less is lent");
	ok(reload(daemon, "donate = 6M\n", "memserver: reloaded\n") && donated(client) == 6, "more is lent again");
	ok(reload(daemon, "donate = 64M\nclients = 3\nspin-us = 7\n",
		  "as before until the next start: donate (more than at the start), clients, spin-us\n") &&
	       donated(client) == 8,
	   "one line names what has to wait for the next start");
}

static void test_mistakes(struct daemon *daemon, struct client *client)
{
	ok(reload(daemon, "donate = 4M\ngrace = 9\n", "memserver: reloaded\n"), "good settings");
	ok(reload(daemon, "donate = lots\ngrace = 5\n", "not reloaded: the settings stay as they were") &&
	       strstr(daemon->log, "lots"),
	   "a setting that is no size: the log says what is wrong, and that nothing has changed");
	ok(reload(daemon, "donate = 4M\ncolour = red\n", "not reloaded: ") && strstr(daemon->log, "colour"),
	   "an unknown setting: nothing has changed");
	ok(reload(daemon, "donate = 4M\nkey = /no/where\n", "not reloaded: "), "a key that is not there: nothing has");
	unlink(path);
	daemon->log[0] = '\0';
	kill(daemon->pid, SIGHUP);
	ok(daemon_log_wait(daemon, "not reloaded: ") && strstr(daemon->log, path), "no file any more: nothing has");
	ok(grace_told(daemon) == 9000 && donated(client) == 4 && client->session, "all is as it was");
}

/* Leases taken without a key are anybody's when keys come: their client cannot have had one. */
static void test_keys_come(void)
{
	static struct daemon daemon;
	struct wire_message grant, claimed;
	char key_path[128], settings[256];
	uint8_t key[AUTH_KEY_SIZE];
	struct client client;

	snprintf(key_path, sizeof key_path, "%s-key", path);
	snprintf(settings, sizeof settings, "donate = 4M\nkey = %s\n", key_path);
	config_write("donate = 4M\n");
	client_init(&client, "", NULL, "client");
	if (!ok(auth_key_create(key_path) == 0 && auth_key_load(key_path, key) == 0 &&
		    daemon_start_at(&daemon, "tcp://127.0.0.1:0", ARGS("--config", path)),
		"a donor without a key"))
		return;
	snprintf(client.uri, sizeof client.uri, "%s", daemon.uri);
	ok(client_come(&client) == 0 && client_lease(&client, &grant) == 0, "a client leases a slab");
	ok(reload(&daemon, settings, "memserver: reloaded\n"), "the donor is given a key");
	ok(grace_told(&daemon) == 0, "a client without it is refused");
	fabric_disconnect(client.session);
	client.session = NULL;
	client.key = key;
	ok(client_come(&client) == 0 && client_claim(&client, grant.granted.slab, &claimed) == 0,
	   "the client comes back with the key, to what it had");
	client_close(&client);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "the donor ends in order");
	unlink(key_path);
	unlink(path);
}

int main(int argc, char **argv)
{
	static struct daemon daemon;
	struct wire_message grant;
	struct client client;
	int fd = mkstemp(path);

	if (argc < 2 || fd < 0)
		return EXIT_FAILURE;
	close(fd);
	daemon_program(argv[1]);
	config_write("donate = 8M\n");
	if (!ok(daemon_start_at(&daemon, "tcp://127.0.0.1:0", ARGS("--config", path)), "a donor"))
		return tap_done();
	client_init(&client, daemon.uri, NULL, "client");
	ok(client_come(&client) == 0 && client_attach(&client, 0) == 0 && client_lease(&client, &grant) == 0,
	   "a client leases a slab");
	test_settings(&daemon, &client, &grant);
	test_mistakes(&daemon, &client);
	client_close(&client);
	ok(daemon_stop(&daemon, SIGTERM) == 0, "SIGTERM ends it in order");
	test_keys_come();
	return tap_done();
}
