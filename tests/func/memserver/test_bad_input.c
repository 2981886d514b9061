/* Bad input: for each mistake the donor logs one line with the cause and the next step, and exits with status 1. */
#include "common/auth.h"
#include "tests/func/memserver/daemon.h"
#include "tests/tap.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The daemon must end by itself with status 1, and log one line that has both texts. */
static void refused(const char *what, const char *const *arguments, const char *cause, const char *next_step)
{
	static struct daemon daemon;
	int status;

	daemon_spawn(&daemon, arguments);
	status = daemon_wait(&daemon);
	if (!ok(status == 1 && daemon_log_lines(&daemon) == 1 && strstr(daemon.log, cause) &&
		    strstr(daemon.log, next_step) && !*daemon.output,
		"%s", what))
		printf("# status %d, output '%s', log: %s\n", status, daemon.output, daemon.log);
	else
		printf("# %s", daemon.log);
}

static void bad_options_are_refused(void)
{
	refused("a donor without --donate does not start", ARGS("--insecure"), "nothing to lend", "--donate 2G");
	refused("a donor with --donate 0 does not start", ARGS("--donate", "0"), "nothing to lend", "--donate 2G");
	refused("a donor whose --donate is no size does not start", ARGS("--donate", "lots"), "lots", "64M");
	refused("a donor whose --reserve is no size does not start", ARGS("--donate", "64M", "--reserve", "some"),
		"--reserve some", "10%");
	refused("a donor with a --reserve above 100% does not start", ARGS("--donate", "64M", "--reserve", "101%"),
		"--reserve 101%", "10%");
	refused("a donor with --donate auto and no memory beyond its reserve does not start",
		ARGS("--donate", "auto", "--reserve", "1000T"), "no slab to lend", "smaller --reserve");
	refused("a donor with --revoke-deadline 0 does not start", ARGS("--donate", "64M", "--revoke-deadline", "0"),
		"--revoke-deadline", "1");
	refused("a donor whose --domain has a space does not start", ARGS("--donate", "64M", "--domain", "rack 1"),
		"--domain 'rack 1'", "like rack1");
	refused("a donor with an empty --domain does not start", ARGS("--donate", "64M", "--domain", ""), "--domain",
		"write a NAME");
	refused("a donor whose --domain has 32 characters does not start",
		ARGS("--donate", "64M", "--domain", "01234567890123456789012345678901"), "1 to 31", "like rack1");
	refused("a donor whose --drain-file is in a missing folder does not start",
		ARGS("--donate", "64M", "--drain-file", "/no/where"), "--drain-file /no/where: No such file",
		"make its folder");
	refused("a donor whose --drain-file has other contents does not start",
		ARGS("--donate", "64M", "--drain-file", "/proc/version"),
		"--drain-file /proc/version: is something else", "would be removed");
	refused("a donor whose --drain-file is a folder does not start",
		ARGS("--donate", "64M", "--drain-file", "/tmp"), "--drain-file /tmp", "give the name of one");
	refused("a donor that lends less than one slab does not start", ARGS("--donate", "1M"),
		"less than one slab of 64M", "smaller --slab");
	refused("a donor that lends more than the machine's memory does not start", ARGS("--donate", "1000T"), "has",
		"at most");
	refused("a donor with --slab 48M does not start", ARGS("--donate", "1G", "--slab", "48M"), "power of two",
		"give 64M");
	refused("a donor with --slab 4K does not start", ARGS("--donate", "1G", "--slab", "4K"),
		"power of two between 1M and 1G", "give 64M");
	refused("a donor whose --quota is below one slab does not start", ARGS("--donate", "128M", "--quota", "1M"),
		"--quota 1M", "at least that");
	refused("a donor with an unknown option does not start", ARGS("--donate", "64M", "--colour"), "--colour",
		"--help");
	refused("a donor with an argument does not start", ARGS("--donate", "64M", "now"), "'now'", "--help");
	refused("a donor with an option that lacks its value does not start", ARGS("--donate"), "--donate", "--help");
	refused("a donor whose --grace is no number does not start", ARGS("--donate", "64M", "--grace", "soon"),
		"--grace", "soon");
}

static void bad_addresses_are_refused(void)
{
	refused("a donor whose --listen is a bare number does not start", ARGS("--donate", "64M", "--listen", "7470"),
		"'7470'", "tcp://127.0.0.1:7470");
	refused("a donor whose --listen has port 99999 does not start",
		ARGS("--donate", "64M", "--listen", "tcp://127.0.0.1:99999"), "not an address", "tcp://127.0.0.1:7470");
	refused("a donor whose --listen has an unknown scheme does not start",
		ARGS("--donate", "64M", "--listen", "pigeon://127.0.0.1:7470"), "pigeon://127.0.0.1:7470", "tcp://");
	refused("a donor whose --listen has an unknown host name does not start",
		ARGS("--donate", "64M", "--listen", "tcp://no.such.host.invalid"), "no.such.host.invalid",
		"address of this machine");
	refused("a donor without a key does not listen beyond loopback",
		ARGS("--donate", "64M", "--listen", "tcp://0.0.0.0:0"), "there is no key", "--insecure");
	refused("a donor whose --listen is rdma:// does not start without an RDMA device",
		ARGS("--donate", "64M", "--listen", "rdma://127.0.0.1:7470"), "no RDMA device at that address",
		"tcp://");
	refused("a donor whose --listen is another machine's address does not start",
		ARGS("--donate", "64M", "--insecure", "--listen", "tcp://192.0.2.1:7470"), "192.0.2.1", "ip address");
}

static void a_port_in_use_is_refused(void)
{
	static struct daemon first;
	char uri[64];

	if (!ok(daemon_start(&first, ARGS("--donate", "64M")), "a donor starts on a free port"))
		return;
	snprintf(uri, sizeof uri, "%s", first.uri);
	refused("a second donor on the same port does not start",
		ARGS("--donate", "64M", "--insecure", "--listen", uri), "in use", "--listen");
	ok(daemon_stop(&first, SIGTERM) == 0, "the first donor on the port runs until SIGTERM and exits with 0");
}

static void bad_key_files_are_refused(const char *folder)
{
	static struct daemon daemon;
	char path[128], missing[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/key", folder);
	snprintf(missing, sizeof missing, "%s/none", folder);
	refused("a donor whose --key is a missing file does not start", ARGS("--donate", "64M", "--key", missing),
		"no such file", "farpage key");
	if (!ok(auth_key_create(path) == 0, "auth_key_create() makes a key file"))
		return;
	chmod(path, 0644);
	refused("a donor with a key that others may read does not start", ARGS("--donate", "64M", "--key", path),
		"others than its owner", "chmod 600");
	chmod(path, 0600);
	ok(daemon_start(&daemon, ARGS("--donate", "64M", "--key", path)),
	   "a donor with a key that only its owner may read starts");
	ok(!strstr(daemon.log, "no key"), "a donor with a key does not log that it has none");
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor with a key ends with 0 after SIGTERM");
	file = fopen(path, "w");
	fputs("secret\n", file);
	fclose(file);
	refused("a donor whose --key is no key file does not start", ARGS("--donate", "64M", "--key", path),
		"not a key", "farpage key");
	unlink(path);
}

static void bad_folders_of_keys_are_refused(const char *folder)
{
	char keys[128], one[160], two[160], admin[160];

	snprintf(keys, sizeof keys, "%s/keys", folder);
	snprintf(one, sizeof one, "%s/one.key", keys);
	snprintf(two, sizeof two, "%s/two.key", keys);
	snprintf(admin, sizeof admin, "%s/admin.key", keys);
	refused("a donor whose --keys is a missing folder does not start", ARGS("--donate", "64M", "--keys", keys),
		"No such file", "NAME.key");
	mkdir(keys, 0700);
	refused("a donor whose --keys is an empty folder does not start", ARGS("--donate", "64M", "--keys", keys),
		"there is no key in it", "farpage key");
	if (!ok(auth_key_create(one) == 0, "auth_key_create() makes a key in the folder of keys"))
		return;
	refused("a donor with an admin key and no key for clients does not start",
		ARGS("--donate", "64M", "--admin-key", one), "clients have no key", "--keys FOLDER");
	refused("a donor whose admin key is a client's key, too, does not start",
		ARGS("--donate", "64M", "--keys", keys, "--admin-key", one), "is a key of 'one' already",
		"farpage key");
	refused("a donor with a --client-quota for an unknown name does not start",
		ARGS("--donate", "64M", "--keys", keys, "--client-quota", "two=1G"), "no key has that name",
		"first dot");
	refused("a donor with a --client-quota without a size does not start",
		ARGS("--donate", "64M", "--keys", keys, "--client-quota", "one"), "--client-quota 'one'", "alice=32G");
	chmod(keys, 0770);
	refused("a donor whose folder of keys others may write to does not start",
		ARGS("--donate", "64M", "--keys", keys), "others than its owner", "chmod go-w");
	chmod(keys, 0700);
	link(one, two);
	refused("a donor with one key under two names does not start", ARGS("--donate", "64M", "--keys", keys),
		"is a key of 'one' already", "make another");
	unlink(two);
	link(one, admin);
	refused("a donor with a client's key called admin does not start", ARGS("--donate", "64M", "--keys", keys),
		"no client is called admin", "--admin-key");
	unlink(admin);
	unlink(one);
	rmdir(keys);
}

static void config_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	fputs(text, file);
	fclose(file);
}

static void the_configuration_file_is_read(const char *folder)
{
	static struct daemon daemon;
	char path[128], where[160];

	snprintf(path, sizeof path, "%s/config", folder);
	refused("a donor whose --config is a missing file does not start", ARGS("--config", path), path,
		"No such file");
	config_write(path, "[farpage-memserver]\ndonate = 64M\nsalb = 1M\n");
	snprintf(where, sizeof where, "%s:3", path);
	refused("a donor with an unknown setting in its configuration does not start", ARGS("--config", path), where,
		"salb");
	config_write(path, "[farpage-memserver]\ndonate = 64M\nlisten = tcp://127.0.0.1:0\n");
	daemon_spawn(&daemon, ARGS("--config", path, "--slab", "1M"));
	ok(daemon_log_wait(&daemon, "no key: listening on loopback only"),
	   "the donor takes its settings from the configuration file");
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor with a configuration file ends with 0 after SIGTERM");
	ok(strstr(daemon.output, "farpage-memserver: listening on tcp://127.0.0.1:"),
	   "the donor listens at the configuration's address");
	unlink(path);
}

/* --help lists the options; each of them must be a setting in the sample configuration. */
static void the_sample_configuration_is_complete(const char *sample)
{
	static struct daemon daemon;
	static char text[1 << 16];
	FILE *file = fopen(sample, "r");
	unsigned missing = 0, options = 0;

	if (!ok(file && fread(text, 1, sizeof text - 1, file) > 0, "the sample configuration can be read"))
		return;
	fclose(file);
	daemon_spawn(&daemon, ARGS("--help"));
	ok(daemon_wait(&daemon) == 0 && !*daemon.log, "--help exits with 0 and logs nothing");
	for (char *at = daemon.output; (at = strstr(at, "\n  --")); at++) {
		char name[32], setting[64];

		if (sscanf(at, "\n  --%31[a-z-]", name) != 1 || !strcmp(name, "config") || !strcmp(name, "version") ||
		    !strcmp(name, "help"))
			continue;
		options++;
		snprintf(setting, sizeof setting, "\n%s%s = ", !strcmp(name, "donate") ? "" : "; ", name);
		if (!strstr(text, setting)) {
			missing++;
			printf("# not in the sample: %s\n", name);
		}
	}
	ok(options > 10 && !missing, "the sample configuration has every setting");
	ok(daemon_start(&daemon, ARGS("--config", sample)), "a donor starts with the unchanged sample configuration");
	ok(daemon_stop(&daemon, SIGTERM) == 0, "a donor with the sample configuration ends with 0 after SIGTERM");
	daemon_spawn(&daemon, ARGS("--version"));
	ok(daemon_wait(&daemon) == 0 && strstr(daemon.output, FARPAGE_VERSION), "--version prints the version");
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/farpage-bad-input-XXXXXX";

	if (argc < 3 || !mkdtemp(folder))
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	bad_options_are_refused();
	bad_addresses_are_refused();
	a_port_in_use_is_refused();
	bad_key_files_are_refused(folder);
	bad_folders_of_keys_are_refused(folder);
	the_configuration_file_is_read(folder);
	the_sample_configuration_is_complete(argv[2]);
	rmdir(folder);
	return tap_done();
}
