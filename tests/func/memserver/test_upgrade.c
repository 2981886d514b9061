/* SIGUSR2: the donor replaces itself by its program file, and clients find their leases and pages again. */
#include "tests/func/memserver/client.h"
#include "tests/lib/folder.h"
#include "tests/lib/text.h"
#include "tests/lib/wait.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct donor_process donor;

/* Starts a donor on a port that it keeps in an upgrade. */
static void donor_start_fixed(const char *const *arguments)
{
	donor_start_list(&donor, NULL, arguments);
	donor_end(&donor);
	donor_again(&donor);
}

/* Asks for an upgrade. Returns true if the log then has @says. */
static bool upgrade(const char *says)
{
	donor.log[0] = '\0';
	kill(donor.pid, SIGUSR2);
	return donor_log_wait(&donor, says);
}

/* The same for an upgrade that succeeds. Waits until the next program listens, which it logs in the next line. */
static bool upgraded(const char *says)
{
	char both[128];

	snprintf(both, sizeof both, "%sfarpage-memserver: no key", says);
	return upgrade(both);
}

/* Returns true if the donor's descriptor @name is closed by execve(2). */
static bool is_closed_on_exec(const char *name)
{
	char path[320], text[64] = "";
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/fdinfo/%s", (int)donor.pid, name);
	file = fopen(path, "re");
	while (file && fgets(text, sizeof text, file) && strncmp(text, "flags:", 6) != 0)
		;
	if (file)
		fclose(file);
	return strtoul(text + 6, NULL, 8) & O_CLOEXEC;
}

/* Returns the number of the donor's descriptors. *ret_kept is how many of them execve(2) would not close, beyond the
   standard ones. */
static unsigned descriptors(unsigned *ret_kept)
{
	char path[64];
	unsigned count = 0;
	struct dirent *entry;
	DIR *folder;

	*ret_kept = 0;
	snprintf(path, sizeof path, "/proc/%d/fd", (int)donor.pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		if (*entry->d_name == '.')
			continue;
		count++;
		*ret_kept += !is_closed_on_exec(entry->d_name);
	}
	if (folder)
		closedir(folder);
	return count;
}

static bool claims(struct client *client, const struct wire_message *before, struct wire_message *ret_granted)
{
	return client_claim(client, before->granted.slab, ret_granted) == 0 &&
	       ret_granted->granted.slab == before->granted.slab;
}

/* Waits until the old connections have ended, and connects again. */
static int come_back(struct client *client)
{
	int status;

	if (client->session)
		client_wait_end(client, client->session);
	status = client_come(client);
	return status ? status : client_attach(client, 0);
}

static void a_client_finds_its_pages_again(struct client *client)
{
	struct wire_message kept, released, again, other;
	const uint64_t incarnation = client->welcome.welcome.incarnation;
	unsigned before, after, kept_before, kept_after;

	ok(client_lease(client, &kept) == 0 && client_lease(client, &released) == 0, "a client leases two slabs");
	memset(client->buffer, 0x5a, CLIENT_BUFFER);
	ok(client_put(client, &kept, CLIENT_BUFFER) == 0 && client_put(client, &released, CLIENT_BUFFER) == 0 &&
	       client_release(client, released.granted.slab) == 0,
	   "the client writes both slabs, and releases one");
	before = descriptors(&kept_before);
	ok(upgraded("took over 1 slab of 1 client\n"), "SIGUSR2 makes the next program take over the leased slab");
	ok(client_wait_end(client, client->session) && client_notices(client, WIRE_SUSPEND) == 1,
	   "the donor says SUSPEND before it ends the client's connections");
	ok(come_back(client) == 0, "the client connects to the next program");
	ok(client->welcome.welcome.incarnation == incarnation && client->welcome.welcome.slabs == 1,
	   "the next program has the incarnation of the program before, and knows the client's slab");
	ok(claims(client, &kept, &again), "the client claims the slab by its name");
	memset(client->buffer, 0, CLIENT_BUFFER);
	ok(client_get(client, &again, CLIENT_BUFFER) == 0 && client->buffer[0] == 0x5a &&
	       !memcmp(client->buffer, client->buffer + 1, CLIENT_BUFFER - 1),
	   "the slab has its contents");
	ok(client_claim(client, released.granted.slab, &other) == WIRE_REASON_TAKEN,
	   "a slab released before the upgrade cannot be claimed");
	ok(client_lease(client, &other) == 0 && other.granted.slab != released.granted.slab,
	   "a slab that is leased again has a new name");
	ok(client_get(client, &other, CLIENT_BUFFER) == 0 && !client->buffer[0] &&
	       !memcmp(client->buffer, client->buffer + 1, CLIENT_BUFFER - 1),
	   "a slab that is leased again is zero");
	after = descriptors(&kept_after);
	ok(after == before, "the next program has no descriptors left of the program before (%u, %u)", before, after);
	ok(kept_after == kept_before, "the slabs' file is not inherited by other programs (%u, %u)", kept_before,
	   kept_after);
	ok(client_release(client, other.granted.slab) == 0 && client_release(client, kept.granted.slab) == 0,
	   "the client releases its slabs to the next program");
}

static void a_client_that_is_away_finds_its_slab_again(void)
{
	static const struct wire_about alice = {
	    .host = "node7", .user = "alice", .command = "two words\\", .pid = 4711};
	struct client first, client, back, operator;
	struct wire_message grant, again = {0}, holder;
	uint64_t leased_at;
	unsigned held_s;

	client_arrive(&first, &donor, "away");
	ok(client_lease(&first, &grant) == 0, "a client leases a slab");
	leased_at = clock_now();
	ok(wait_until(client_holder(&first, 0, &holder) == 0 && holder.holder_reply.held_s >= 2),
	   "the donor counts the seconds since the client's first slab");
	client_init(&client, donor.uri, NULL, "away");
	client.about = alice;
	ok(client_come(&client) == 0 && client_attach(&client, 0) == 0 && claims(&client, &grant, &again) &&
	       client_holder(&client, 0, &holder) == 0 && holder.holder_reply.held_s >= 2 &&
	       !memcmp(&holder.holder_reply.about, &alice, sizeof alice),
	   "a client that connects again keeps this time, and may be another process");
	client_close(&first);
	grant = again;
	memset(client.buffer, 0x33, 4096);
	ok(client_put(&client, &grant, 4096) == 0, "the client writes a page");
	client_suspend(&client);
	donor_log_wait(&donor, "vanished");
	ok(upgraded("took over 1 slab of 1 client\n"), "an upgrade takes over the slab of a client that is away");
	ok(upgraded("took over 1 slab of 1 client\n"), "a second upgrade takes it over, too");
	client_enter(&operator, & donor, NULL, "operator");
	held_s = (unsigned)((clock_now() - leased_at) / 1000000000);
	ok(client_holder(&operator, 0, &holder) == 0 && holder.holder_reply.slabs == 1 &&
	       holder.holder_reply.away == 1 && !memcmp(&holder.holder_reply.about, &alice, sizeof alice),
	   "the donor lists the client with host, user, command and process after two upgrades");
	ok(holder.holder_reply.held_s >= held_s && held_s >= 2,
	   "the time since the client's first slab goes on in upgrades (%u of %u s)", holder.holder_reply.held_s,
	   held_s);
	client_leave(&operator);
	client_init(&back, donor.uri, NULL, "away");
	ok(client_come(&back) == 0 && client_attach(&back, 0) == 0 && claims(&back, &grant, &again),
	   "the client returns after two upgrades and claims its slab");
	ok(client_get(&back, &again, 4096) == 0 && back.buffer[0] == 0x33, "the page has its contents");
	client_leave(&back);
}

static void a_donor_without_a_grace_time_keeps_leases_in_an_upgrade(void)
{
	struct client client;
	struct wire_message grant, again;

	donor_start_fixed((const char *const[]){"--donate", "8M", "--slab", "1M", "--grace", "0", NULL});
	client_arrive(&client, &donor, "hasty");
	ok(client_lease(&client, &grant) == 0, "a client leases a slab of a donor without a grace time");
	ok(upgraded("took over 1 slab of 1 client\n") && come_back(&client) == 0 && claims(&client, &grant, &again),
	   "the client claims its slab after an upgrade");
	client_leave(&client);
	donor_end(&donor);
}

static void leases_of_a_client_that_does_not_return_end(void)
{
	struct client client, other;
	struct wire_message grant;

	client_init(&client, donor.uri, NULL, "gone");
	client.wished_grace_ms = 1500;
	ok(client_come(&client) == 0 && client_lease(&client, &grant) == 0,
	   "a client with a short grace time leases a slab");
	ok(upgraded("took over 1 slab of 1 client\n"), "an upgrade takes over the slab");
	client_close(&client);
	client_arrive(&other, &donor, "other");
	ok(client_wait_capacity(&other, 0, 1), "the lease of a client that does not return ends");
	client_leave(&other);
}

static void a_drain_goes_on(void)
{
	struct client client;
	struct wire_message draining, grant;

	client_arrive(&client, &donor, "drains");
	ok(client_drain(&client, WIRE_DRAIN_WAIT, 0, &draining) == 0, "a donor is drained");
	ok(upgraded("took over 0 slabs of 0 clients\n"), "a drained donor is upgraded");
	ok(come_back(&client) == 0 && client_lease(&client, &grant) == WIRE_REASON_DRAINING,
	   "the next program is drained, too");
	ok(client_drain(&client, WIRE_DRAIN_END, 0, &draining) == 0 && client_lease(&client, &grant) == 0,
	   "the next program lends again when the drain ends");
	client_leave(&client);
}

static void donors_that_cannot_be_upgraded_go_on(const char *program)
{
	char config[512];
	const char *path = folder_path("donor.ini"), *own = folder_path("memserver");
	struct client client;
	struct wire_message grant;

	snprintf(config, sizeof config, "cp '%s' '%s'", program, own);
	if (system(config))
		tap_bail("cannot copy %s", program);
	setenv("FARPAGE_MEMSERVER", own, 1);
	text_write(path, "[farpage-memserver]\ndonate = 8M\nslab = 1M\n");
	donor_start_fixed((const char *const[]){"--config", path, NULL});
	client_arrive(&client, &donor, "stays");
	ok(client_lease(&client, &grant) == 0, "a client leases a slab");

	text_write(path, "[farpage-memserver]\ndonate = 8M\nslab = 2M\n");
	ok(upgrade("could not take over") &&
	       strstr(donor.log, "slabs of 1M are leased, and --slab is 2M: give --slab 1M"),
	   "a donor with leases is not upgraded to another --slab, and a line says why");
	text_write(path, "[farpage-memserver]\ndonate = lots\n");
	ok(upgrade("could not take over") && strstr(donor.log, "--donate lots"),
	   "a donor is not upgraded to settings that are wrong, and a line says why");
	text_write(path, "[farpage-memserver]\ndonate = 8M\nslab = 1M\n");
	unlink(own);
	text_write(own, "#!/bin/false\n");
	ok(upgrade("cannot be started: Permission denied\n"),
	   "a donor is not upgraded to a file that cannot be executed");
	chmod(own, 0755);
	ok(upgrade("could not take over"), "a donor is not upgraded to a program that fails");
	unlink(own);
	ok(upgrade("cannot be started: No such file or directory\n"), "a donor is not upgraded to a missing file");
	ok(client_put(&client, &grant, 4096) == 0 && client_get(&client, &grant, 4096) == 0 && client.session,
	   "the client keeps its connections while upgrades fail");
	setenv("FARPAGE_MEMSERVER", program, 1);
	client_leave(&client);
	donor_end(&donor);
}

/* Makes `current` in the test's folder a link to the folder @version, with a copy of the program. */
static void version_install(const char *program, const char *version)
{
	char command[1024];

	snprintf(command, sizeof command, "mkdir '%s/%s' && cp '%s' '%s/%s/memserver' && ln -sfn %s '%s/current'",
		 folder(), version, program, folder(), version, version, folder());
	if (system(command))
		tap_bail("cannot install %s", version);
}

static bool donor_runs(const char *version)
{
	char link[64], path[PATH_MAX] = "", wanted[PATH_MAX];

	snprintf(link, sizeof link, "/proc/%d/exe", (int)donor.pid);
	snprintf(wanted, sizeof wanted, "%s/%s/memserver", folder(), version);
	return readlink(link, path, sizeof path - 1) > 0 && strcmp(path, wanted) == 0;
}

static void a_link_in_the_path_of_the_program_may_be_replaced(const char *program)
{
	static const char *const options[] = {"--donate", "8M", "--slab", "1M", NULL};
	const int here = open(".", O_PATH | O_CLOEXEC);

	version_install(program, "1");
	setenv("FARPAGE_MEMSERVER", folder_path("current/memserver"), 1);
	donor_start_fixed(options);
	ok(donor_runs("1"), "a donor is started by a link to its first version");
	version_install(program, "2");
	ok(upgraded("took over 0 slabs of 0 clients\n") && donor_runs("2"),
	   "an upgrade starts the version to which the link leads now");
	version_install(program, "3");
	ok(upgraded("took over 0 slabs of 0 clients\n") && donor_runs("3"),
	   "the next upgrade starts the next version by the same link");
	donor_end(&donor);

	setenv("FARPAGE_MEMSERVER", "current/memserver", 1);
	if (chdir(folder()) < 0)
		tap_bail("no folder");
	donor_start_fixed(options);
	version_install(program, "4");
	ok(upgraded("took over 0 slabs of 0 clients\n") && donor_runs("4"),
	   "a donor that is started by a relative path is upgraded to the version to which the link leads now");
	donor_end(&donor);
	if (here < 0 || fchdir(here) < 0)
		tap_bail("no way back");
	close(here);
	setenv("FARPAGE_MEMSERVER", program, 1);
}

static void a_port_that_the_system_chose_prevents_an_upgrade(void)
{
	donor_start_list(&donor, NULL, (const char *const[]){"--donate", "4M", "--slab", "1M", NULL});
	ok(upgrade("names no port"), "a donor at a port that the system chose is not upgraded, and a line says why");
	donor_end(&donor);
}

static void a_list_that_cannot_be_read_is_refused(void)
{
	setenv("FARPAGE_HANDOVER", "99", 1);
	donor_spawn_list(&donor, (const char *const[]){"--donate", "4M", "--slab", "1M", NULL});
	unsetenv("FARPAGE_HANDOVER");
	ok(donor_wait(&donor) == 1 && strstr(donor.log, "FARPAGE_HANDOVER=99") && donor_log_lines(&donor) == 1,
	   "a program that cannot read the list of leases ends with status 1 and one line");
}

/* Starts a donor with a list of this version, which has one client with one slab. The client's id is "old". */
static void donor_take_over(unsigned version)
{
	int slabs = memfd_create("slabs", 0), list = memfd_create("list", 0);
	char number[16];

	if (slabs < 0 || list < 0 || ftruncate(slabs, 4 << 20) < 0)
		tap_bail("cannot make files");
	dprintf(list,
		"farpage-handover %u\nincarnation 77\nslab-bytes 1048576\nmemory %d -1\ndraining 0\ngeneration 5\n"
		"client 6f6c6400000000000000000000000000 20000000000 . tcp://10.0.0.7:4321\nslab 0 5 0 0 0 0\nend\n",
		version, slabs);
	snprintf(number, sizeof number, "%d", list);
	setenv("FARPAGE_HANDOVER", number, 1);
	if (version == 1)
		donor_start_list(&donor, NULL, (const char *const[]){"--donate", "4M", "--slab", "1M", NULL});
	else
		donor_spawn_list(&donor, (const char *const[]){"--donate", "4M", "--slab", "1M", NULL});
	unsetenv("FARPAGE_HANDOVER");
	close(slabs);
	close(list);
}

static void lists_of_other_versions_are_read_or_refused(void)
{
	static const struct wire_about nothing = {0};
	struct wire_message holder, granted;
	struct client client;

	donor_take_over(1);
	client_enter(&client, &donor, NULL, "operator");
	ok(client_holder(&client, 0, &holder) == 0 && holder.holder_reply.slabs == 1 &&
	       !memcmp(holder.holder_reply.name, "old", 4) &&
	       strcmp(holder.holder_reply.peer, "tcp://10.0.0.7:4321") == 0,
	   "a donor takes over the leases in a list of version 1");
	ok(!memcmp(&holder.holder_reply.about, &nothing, sizeof nothing) && holder.holder_reply.held_s < 3600,
	   "the client has no host, user and command, and its time begins with the upgrade");
	client_leave(&client);
	client_init(&client, donor.uri, NULL, "old");
	client.about = (struct wire_about){.host = "node8", .user = "bob", .command = "sort", .pid = 8};
	ok(client_come(&client) == 0 && client_claim(&client, (uint64_t)5 << 32, &granted) == 0 &&
	       client_holder(&client, 0, &holder) == 0 && strcmp(holder.holder_reply.about.user, "bob") == 0,
	   "the client has a host, user and command when it has come back");
	client_leave(&client);
	donor_end(&donor);
	donor_take_over(3);
	ok(donor_wait(&donor) == 1 && strstr(donor.log, "cannot read") && donor_log_lines(&donor) == 1,
	   "a program that is older than the list of leases ends with status 1 and one line");
}

int main(void)
{
	const char *program = getenv("FARPAGE_MEMSERVER");
	struct client client;

	if (!program)
		tap_bail("FARPAGE_MEMSERVER is not set");
	donor_start_fixed((const char *const[]){"--donate", "8M", "--slab", "1M", NULL});
	client_arrive(&client, &donor, "keeps");
	a_client_finds_its_pages_again(&client);
	client_leave(&client);
	a_client_that_is_away_finds_its_slab_again();
	leases_of_a_client_that_does_not_return_end();
	a_drain_goes_on();
	donor_end(&donor);
	a_donor_without_a_grace_time_keeps_leases_in_an_upgrade();
	donors_that_cannot_be_upgraded_go_on(program);
	a_link_in_the_path_of_the_program_may_be_replaced(program);
	a_port_that_the_system_chose_prevents_an_upgrade();
	a_list_that_cannot_be_read_is_refused();
	lists_of_other_versions_are_read_or_refused();
	return tap_done();
}
