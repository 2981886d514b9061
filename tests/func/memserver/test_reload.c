/* SIGHUP: the donor reads its settings again, keeps its old settings if the new ones are wrong, and ends no lease. */
#include "tests/func/memserver/client.h"
#include "tests/lib/folder.h"
#include "tests/lib/text.h"
#include "wire/auth.h"

#include <signal.h>
#include <unistd.h>

static struct donor_process donor;
static const char *path;

static void config_write(const char *settings)
{
	char text[512];

	snprintf(text, sizeof text, "[farpage-memserver]\nheartbeat = 10000\n%s%s",
		 strstr(settings, "slab") ? "" : "slab = 1M\n", settings);
	text_write(path, text);
}

/* Empties the donor's log and makes the donor read @settings. Returns true if the log then has @says. */
static bool reload(const char *settings, const char *says)
{
	config_write(settings);
	donor.log[0] = '\0';
	kill(donor.pid, SIGHUP);
	return donor_log_wait(&donor, "reloaded") && donor_log_wait(&donor, says);
}

/* Returns the grace time in ms that the donor tells a new client, or 0 if it refuses the client. */
static uint32_t grace_told(void)
{
	struct client client;
	uint32_t grace;

	client_init(&client, donor.uri, NULL, "asks");
	grace = client_come(&client) == 0 ? client.welcome.welcome.grace_ms : 0;
	client_leave(&client);
	return grace;
}

static uint64_t donated(struct client *client)
{
	struct wire_capacity capacity = {0};

	client_status(client, &capacity);
	return capacity.donated >> 20;
}

static void a_reload_applies_new_settings(struct client *client, const struct wire_message *grant)
{
	struct wire_message more, denied;

	ok(reload("donate = 8M\ngrace = 7\nquota = 2M\nverbose = yes\n", "memserver: reloaded\n"),
	   "SIGHUP makes the donor read its settings again and log that in one line");
	ok(client_get(client, grant, 4096) == 0 && client->session,
	   "a client keeps its session and slab across a reload");
	ok(grace_told() == 7000, "a new client is told the reloaded grace time");
	ok(donor_log_wait(&donor, " -> established"), "a reloaded verbose setting makes the donor log connections");
	ok(client_lease(client, &more) == 0 && client_lease(client, &denied) == WIRE_REASON_FULL,
	   "a client leases up to the reloaded quota, and no more");
	ok(client_release(client, more.granted.slab) == 0 && reload("donate = 3M\n", "memserver: reloaded\n") &&
	       donated(client) == 3,
	   "a reload with a smaller donate setting lends less");
	ok(reload("donate = 6M\n", "memserver: reloaded\n") && donated(client) == 6,
	   "a reload with a larger donate setting lends more");
	ok(reload("donate = 64M\nclients = 3\nspin-us = 7\n",
		  "as before until the next start: donate (more than at the start), clients, spin-us\n") &&
	       donated(client) == 8,
	   "a reload logs the settings that wait for the next start in one line");
}

static void a_bad_reload_changes_nothing(struct client *client)
{
	ok(reload("donate = 4M\ngrace = 9\n", "memserver: reloaded\n"), "a reload takes correct settings");
	ok(reload("donate = lots\ngrace = 5\n", "not reloaded: the settings stay as they were") &&
	       strstr(donor.log, "lots"),
	   "a reload with a bad size is refused, and the log has the bad value");
	ok(reload("donate = 4M\ncolour = red\n", "not reloaded: ") && strstr(donor.log, "colour"),
	   "a reload with an unknown setting is refused, and the log has its name");
	ok(reload("donate = 4M\nkey = /no/where\n", "not reloaded: "), "a reload with a missing key file is refused");
	unlink(path);
	donor.log[0] = '\0';
	kill(donor.pid, SIGHUP);
	ok(donor_log_wait(&donor, "not reloaded: ") && strstr(donor.log, path),
	   "a reload without the configuration file is refused, and the log has its path");
	ok(grace_told() == 9000 && donated(client) == 4 && client->session,
	   "refused reloads leave the settings and the session as they were");
}

/* Leases from before a donor's first key belong to no key's name. So a client with any key may claim them. */
static void a_lease_survives_the_donors_first_key(void)
{
	struct wire_message grant, claimed;
	const char *key_path = folder_path("key");
	char settings[256];
	uint8_t key[AUTH_KEY_SIZE];
	struct client client;

	snprintf(settings, sizeof settings, "donate = 4M\nkey = %s\n", key_path);
	config_write("donate = 4M\n");
	client_init(&client, "", NULL, "client");
	ok(auth_key_create(key_path) == 0 && auth_key_load(key_path, key) == 0, "auth_key_create() makes a key file");
	donor_start_at(&donor, "tcp://127.0.0.1:0", "--config", path);
	snprintf(client.uri, sizeof client.uri, "%s", donor.uri);
	ok(client_come(&client) == 0 && client_lease(&client, &grant) == 0, "a client leases a slab without a key");
	ok(reload(settings, "memserver: reloaded\n"), "a reload gives the donor its first key");
	ok(grace_told() == 0, "a donor with its first key refuses a client without it");
	fabric_disconnect(client.session);
	client.session = NULL;
	client.key = key;
	ok(client_come(&client) == 0 && client_claim(&client, grant.granted.slab, &claimed) == 0,
	   "a client claims its keyless lease with the new key");
	client_close(&client);
	donor_end(&donor);
}

/* The slab size changes only at the next start. Until then, a quota below the old size would be no limit at all. */
static void a_quota_below_the_slab_in_use_is_refused(void)
{
	config_write("slab = 4M\ndonate = 8M\nquota = 4M\n");
	donor_start_at(&donor, "tcp://127.0.0.1:0", "--config", path);
	ok(reload("slab = 1M\ndonate = 8M\nquota = 1M\n", "less than one slab of 4M, the size of now"),
	   "a reload refuses a quota below one slab of the size in use");
	donor_end(&donor);
}

int main(void)
{
	struct wire_message grant;
	struct client client;

	path = folder_path("config");
	config_write("donate = 8M\n");
	donor_start_at(&donor, "tcp://127.0.0.1:0", "--config", path);
	ok(client_enter(&client, &donor, NULL, "client") == 0 && client_attach(&client, 0) == 0 &&
	       client_lease(&client, &grant) == 0,
	   "a client leases a slab before any reload");
	a_reload_applies_new_settings(&client, &grant);
	a_bad_reload_changes_nothing(&client);
	client_close(&client);
	donor_end(&donor);
	a_lease_survives_the_donors_first_key();
	a_quota_below_the_slab_in_use_is_refused();
	return tap_done();
}
