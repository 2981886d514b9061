/* Bad input: each mistake is one line that names the cause and the next step, and a non-zero exit status. */
#include "common/auth.h"
#include "tests/func/memserver/daemon.h"
#include "tests/tap.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Ends by itself, unhappily, with one line that has both texts. */
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

static void test_options(void)
{
	refused("no --donate", ARGS("--insecure"), "nothing to lend", "--donate 2G");
	refused("--donate 0", ARGS("--donate", "0"), "nothing to lend", "--donate 2G");
	refused("--donate not a size", ARGS("--donate", "lots"), "lots", "64M");
	refused("a reserve that is no size", ARGS("--donate", "64M", "--reserve", "some"), "--reserve some", "10%");
	refused("a reserve beyond 100%", ARGS("--donate", "64M", "--reserve", "101%"), "--reserve 101%", "10%");
	refused("auto, and nothing left", ARGS("--donate", "auto", "--reserve", "1000T"), "no slab to lend",
		"smaller --reserve");
	refused("no time to move anything", ARGS("--donate", "64M", "--revoke-deadline", "0"), "--revoke-deadline",
		"1");
	refused("a failure domain of two words", ARGS("--donate", "64M", "--domain", "rack 1"), "--domain 'rack 1'",
		"like rack1");
	refused("one without a name", ARGS("--donate", "64M", "--domain", ""), "--domain", "write a NAME");
	refused("a name that is too long", ARGS("--donate", "64M", "--domain", "01234567890123456789012345678901"),
		"1 to 31", "like rack1");
	refused("a drain file in a folder that is not there", ARGS("--donate", "64M", "--drain-file", "/no/where"),
		"--drain-file /no/where: No such file", "make its folder");
	refused("a drain file that is something else", ARGS("--donate", "64M", "--drain-file", "/proc/version"),
		"--drain-file /proc/version: is something else", "would be removed");
	refused("a drain file that is a folder", ARGS("--donate", "64M", "--drain-file", "/tmp"), "--drain-file /tmp",
		"give the name of one");
	refused("--donate below a slab", ARGS("--donate", "1M"), "less than one slab of 64M", "smaller --slab");
	refused("--donate beyond the machine", ARGS("--donate", "1000T"), "has", "at most");
	refused("--slab 48M", ARGS("--donate", "1G", "--slab", "48M"), "power of two", "give 64M");
	refused("--slab 4K", ARGS("--donate", "1G", "--slab", "4K"), "power of two between 1M and 1G", "give 64M");
	refused("--quota below a slab", ARGS("--donate", "128M", "--quota", "1M"), "--quota 1M", "at least that");
	refused("an unknown option", ARGS("--donate", "64M", "--colour"), "--colour", "--help");
	refused("an argument", ARGS("--donate", "64M", "now"), "'now'", "--help");
	refused("a missing value", ARGS("--donate"), "--donate", "--help");
	refused("a grace that is no number", ARGS("--donate", "64M", "--grace", "soon"), "--grace", "soon");
}

static void test_addresses(void)
{
	refused("a malformed address", ARGS("--donate", "64M", "--listen", "7470"), "'7470'", "tcp://127.0.0.1:7470");
	refused("another malformed one", ARGS("--donate", "64M", "--listen", "tcp://127.0.0.1:99999"), "not an address",
		"tcp://127.0.0.1:7470");
	refused("a scheme nobody speaks", ARGS("--donate", "64M", "--listen", "pigeon://127.0.0.1:7470"),
		"pigeon://127.0.0.1:7470", "tcp://");
	refused("a name that does not resolve", ARGS("--donate", "64M", "--listen", "tcp://no.such.host.invalid"),
		"no.such.host.invalid", "address of this machine");
	refused("beyond loopback without a key", ARGS("--donate", "64M", "--listen", "tcp://0.0.0.0:0"),
		"there is no key", "--insecure");
	refused("RDMA where there is no device", ARGS("--donate", "64M", "--listen", "rdma://127.0.0.1:7470"),
		"no RDMA device at that address", "tcp://");
	refused("an address of another machine",
		ARGS("--donate", "64M", "--insecure", "--listen", "tcp://192.0.2.1:7470"), "192.0.2.1", "ip address");
}

static void test_port_in_use(void)
{
	static struct daemon first;
	char uri[64];

	if (!ok(daemon_start(&first, ARGS("--donate", "64M")), "a daemon on a free port"))
		return;
	snprintf(uri, sizeof uri, "%s", first.uri);
	refused("the same port again", ARGS("--donate", "64M", "--insecure", "--listen", uri), "in use", "--listen");
	ok(daemon_stop(&first, SIGTERM) == 0, "the first one goes on until it is stopped");
}

static void test_key(const char *folder)
{
	static struct daemon daemon;
	char path[128], missing[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/key", folder);
	snprintf(missing, sizeof missing, "%s/none", folder);
	refused("no key file", ARGS("--donate", "64M", "--key", missing), "no such file", "farpage key");
	if (!ok(auth_key_create(path) == 0, "a key"))
		return;
	chmod(path, 0644);
	refused("a key others may read", ARGS("--donate", "64M", "--key", path), "others than its owner", "chmod 600");
	chmod(path, 0600);
	ok(daemon_start(&daemon, ARGS("--donate", "64M", "--key", path)), "a key nobody else may read");
	ok(!strstr(daemon.log, "no key"), "and no word of there being none");
	ok(daemon_stop(&daemon, SIGTERM) == 0, "and a clean end");
	file = fopen(path, "w");
	fputs("secret\n", file);
	fclose(file);
	refused("a file that is no key", ARGS("--donate", "64M", "--key", path), "not a key", "farpage key");
	unlink(path);
}

static void test_keys(const char *folder)
{
	char keys[128], one[160], two[160], admin[160];

	snprintf(keys, sizeof keys, "%s/keys", folder);
	snprintf(one, sizeof one, "%s/one.key", keys);
	snprintf(two, sizeof two, "%s/two.key", keys);
	snprintf(admin, sizeof admin, "%s/admin.key", keys);
	refused("no folder of keys", ARGS("--donate", "64M", "--keys", keys), "No such file", "NAME.key");
	mkdir(keys, 0700);
	refused("an empty folder of keys", ARGS("--donate", "64M", "--keys", keys), "there is no key in it",
		"farpage key");
	if (!ok(auth_key_create(one) == 0, "a key in it"))
		return;
	refused("an administrator's key alone", ARGS("--donate", "64M", "--admin-key", one), "clients have no key",
		"--keys FOLDER");
	refused("a key that is an administrator's, too", ARGS("--donate", "64M", "--keys", keys, "--admin-key", one),
		"is a key of 'one' already", "farpage key");
	refused("a quota of nobody", ARGS("--donate", "64M", "--keys", keys, "--client-quota", "two=1G"),
		"no key has that name", "first dot");
	refused("a quota without a size", ARGS("--donate", "64M", "--keys", keys, "--client-quota", "one"),
		"--client-quota 'one'", "alice=32G");
	chmod(keys, 0770);
	refused("a folder of keys that others may write to", ARGS("--donate", "64M", "--keys", keys),
		"others than its owner", "chmod go-w");
	chmod(keys, 0700);
	link(one, two);
	refused("one key of two names", ARGS("--donate", "64M", "--keys", keys), "is a key of 'one' already",
		"make another");
	unlink(two);
	link(one, admin);
	refused("a client called admin", ARGS("--donate", "64M", "--keys", keys), "no client is called admin",
		"--admin-key");
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

static void test_config(const char *folder)
{
	static struct daemon daemon;
	char path[128], where[160];

	snprintf(path, sizeof path, "%s/config", folder);
	refused("no configuration file", ARGS("--config", path), path, "No such file");
	config_write(path, "[farpage-memserver]\ndonate = 64M\nsalb = 1M\n");
	snprintf(where, sizeof where, "%s:3", path);
	refused("an unknown setting", ARGS("--config", path), where, "salb");
	config_write(path, "[farpage-memserver]\ndonate = 64M\nlisten = tcp://127.0.0.1:0\n");
	daemon_spawn(&daemon, ARGS("--config", path, "--slab", "1M"));
	ok(daemon_log_wait(&daemon, "no key: listening on loopback only"), "settings from the file");
	ok(daemon_stop(&daemon, SIGTERM) == 0, "and a clean end");
	ok(strstr(daemon.output, "farpage-memserver: listening on tcp://127.0.0.1:"), "listening where the file says");
	unlink(path);
}

/* Whether every option of --help is in the sample configuration, and the sample is accepted. */
static void test_sample(const char *sample)
{
	static struct daemon daemon;
	static char text[1 << 16];
	FILE *file = fopen(sample, "r");
	unsigned missing = 0, options = 0;

	if (!ok(file && fread(text, 1, sizeof text - 1, file) > 0, "the sample configuration"))
		return;
	fclose(file);
	daemon_spawn(&daemon, ARGS("--help"));
	ok(daemon_wait(&daemon) == 0 && !*daemon.log, "--help is no error");
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
	ok(options > 10 && !missing, "every setting is in the sample");
	ok(daemon_start(&daemon, ARGS("--config", sample)), "which is accepted as it is");
	ok(daemon_stop(&daemon, SIGTERM) == 0, "and served");
	daemon_spawn(&daemon, ARGS("--version"));
	ok(daemon_wait(&daemon) == 0 && strstr(daemon.output, FARPAGE_VERSION), "--version");
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/farpage-bad-input-XXXXXX";

	if (argc < 3 || !mkdtemp(folder))
		return EXIT_FAILURE;
	daemon_program(argv[1]);
	test_options();
	test_addresses();
	test_port_in_use();
	test_key(folder);
	test_keys(folder);
	test_config(folder);
	test_sample(argv[2]);
	rmdir(folder);
	return tap_done();
}
