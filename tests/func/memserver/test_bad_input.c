/* Bad input: for each mistake the donor logs one line with the cause and the next step, and exits with status 2, or 1
   if the machine is at fault. */
#include "tests/lib/donor.h"
#include "tests/lib/folder.h"
#include "tests/lib/text.h"
#include "wire/auth.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static struct donor_process donor;

/*
 * A donor with these arguments must end by itself with status 2, and log one line that has both texts. If the machine
 * is at fault, and not a setting, the status is 1.
 */
#define refused(what, cause, next_step, ...)                                                                           \
	refused_with(2, what, cause, next_step, (const char *const[]){__VA_ARGS__, NULL})
#define failed(what, cause, next_step, ...)                                                                            \
	refused_with(1, what, cause, next_step, (const char *const[]){__VA_ARGS__, NULL})
static void refused_with(int wanted, const char *what, const char *cause, const char *next_step,
			 const char *const *arguments)
{
	int status;

	donor_spawn_list(&donor, arguments);
	status = donor_wait(&donor);
	if (!ok(status == wanted && donor_log_lines(&donor) == 1 && strstr(donor.log, cause) &&
		    strstr(donor.log, next_step) && !*donor.output,
		"%s does not start", what))
		printf("# status %d, output '%s', log: %s\n", status, donor.output, donor.log);
	else
		printf("# %s", donor.log);
}

static void bad_options_are_refused(void)
{
	refused("a donor without --donate", "nothing to lend", "--donate 2G", "--insecure");
	refused("a donor with --donate 0", "nothing to lend", "--donate 2G", "--donate", "0");
	refused("a donor whose --donate is no size", "lots", "64M", "--donate", "lots");
	refused("a donor whose --reserve is no size", "--reserve some", "10%", "--donate", "64M", "--reserve", "some");
	refused("a donor with a --reserve above 100%", "--reserve 101%", "10%", "--donate", "64M", "--reserve", "101%");
	refused("a donor with --donate auto and no memory beyond its reserve", "no slab to lend", "smaller --reserve",
		"--donate", "auto", "--reserve", "1000T");
	refused("a donor with --revoke-deadline 0", "--revoke-deadline", "1", "--donate", "64M", "--revoke-deadline",
		"0");
	refused("a donor whose --domain has a space", "--domain 'rack 1'", "like rack1", "--donate", "64M", "--domain",
		"rack 1");
	refused("a donor with an empty --domain", "--domain", "write a NAME", "--donate", "64M", "--domain", "");
	refused("a donor whose --domain has 32 characters", "1 to 31", "like rack1", "--donate", "64M", "--domain",
		"01234567890123456789012345678901");
	refused("a donor whose --drain-file is in a missing folder", "--drain-file /no/where: No such file",
		"make its folder", "--donate", "64M", "--drain-file", "/no/where");
	refused("a donor whose --drain-file has other contents", "--drain-file /proc/version: is another file",
		"would be removed", "--donate", "64M", "--drain-file", "/proc/version");
	refused("a donor whose --drain-file is a folder", "--drain-file /tmp", "give the name of a file", "--donate",
		"64M", "--drain-file", "/tmp");
	refused("a donor that lends less than one slab", "less than one slab of 64M", "smaller --slab", "--donate",
		"1M");
	refused("a donor that lends more than the machine's memory", "has", "at most", "--donate", "1000T");
	refused("a donor with --slab 48M", "power of two", "give 64M", "--donate", "1G", "--slab", "48M");
	refused("a donor with --slab 4K", "power of two between 1M and 1G", "give 64M", "--donate", "1G", "--slab",
		"4K");
	refused("a donor whose --quota is below one slab", "--quota 1M", "at least that", "--donate", "128M", "--quota",
		"1M");
	refused("a donor with an unknown option", "--colour", "--help", "--donate", "64M", "--colour");
	refused("a donor with an argument", "'now'", "--help", "--donate", "64M", "now");
	refused("a donor with an option that lacks its value", "--donate", "--help", "--donate");
	refused("a donor whose --grace is no number", "--grace", "soon", "--donate", "64M", "--grace", "soon");
}

static void bad_addresses_are_refused(void)
{
	refused("a donor whose --listen is a bare number", "'7470'", "tcp://127.0.0.1:7470", "--donate", "64M",
		"--listen", "7470");
	refused("a donor whose --listen has port 99999", "not an address", "tcp://127.0.0.1:7470", "--donate", "64M",
		"--listen", "tcp://127.0.0.1:99999");
	refused("a donor whose --listen has an unknown scheme", "pigeon://127.0.0.1:7470", "tcp://", "--donate", "64M",
		"--listen", "pigeon://127.0.0.1:7470");
	failed("a donor whose --listen has an unknown host name", "no.such.host.invalid", "address of this machine",
	       "--donate", "64M", "--listen", "tcp://no.such.host.invalid");
	refused("a donor without a key that listens beyond loopback", "there is no key", "--insecure", "--donate",
		"64M", "--listen", "tcp://0.0.0.0:0");
	failed("a donor whose --listen is rdma:// does not start without an RDMA device",
	       "no RDMA device at that address", "tcp://", "--donate", "64M", "--listen", "rdma://127.0.0.1:7470");
	failed("a donor whose --listen is another machine's address", "192.0.2.1", "ip address", "--donate", "64M",
	       "--insecure", "--listen", "tcp://192.0.2.1:7470");
}

static void a_port_in_use_is_refused(void)
{
	static struct donor_process first;

	donor_start(&first, "--donate", "64M");
	failed("a second donor on the same port", "in use", "--listen", "--donate", "64M", "--insecure", "--listen",
	       first.uri);
	donor_end(&first);
}

static void bad_key_files_are_refused(void)
{
	const char *path = folder_path("key");

	refused("a donor whose --key is a missing file", "no such file", "farpage key", "--donate", "64M", "--key",
		path);
	ok(auth_key_create(path) == 0, "auth_key_create() makes a key file");
	chmod(path, 0644);
	refused("a donor with a key that others may read", "others than its owner", "chmod 600", "--donate", "64M",
		"--key", path);
	chmod(path, 0600);
	donor_start(&donor, "--donate", "64M", "--key", path);
	ok(!strstr(donor.log, "no key"), "a donor with a key does not log that it has none");
	donor_end(&donor);
	text_write(path, "secret\n");
	refused("a donor whose --key is no key file", "not a key", "farpage key", "--donate", "64M", "--key", path);
}

static void bad_folders_of_keys_are_refused(void)
{
	const char *keys = folder_path("keys"), *one = folder_path("keys/one.key"), *two = folder_path("keys/two.key");

	refused("a donor whose --keys is a missing folder", "No such file", "NAME.key", "--donate", "64M", "--keys",
		keys);
	mkdir(keys, 0700);
	refused("a donor whose --keys is an empty folder", "there is no key in it", "farpage key", "--donate", "64M",
		"--keys", keys);
	ok(auth_key_create(one) == 0, "auth_key_create() makes a key in the folder of keys");
	refused("a donor with an admin key and no key for clients", "clients have no key", "--keys FOLDER", "--donate",
		"64M", "--admin-key", one);
	refused("a donor whose admin key is a client's key, too,", "is a key of 'one' already", "farpage key",
		"--donate", "64M", "--keys", keys, "--admin-key", one);
	refused("a donor with a --client-quota for an unknown name", "no key has that name", "first dot", "--donate",
		"64M", "--keys", keys, "--client-quota", "two=1G");
	refused("a donor with a --client-quota without a size", "--client-quota 'one'", "alice=32G", "--donate", "64M",
		"--keys", keys, "--client-quota", "one");
	chmod(keys, 0770);
	refused("a donor whose folder of keys others may write to", "others than its owner", "chmod go-w", "--donate",
		"64M", "--keys", keys);
	chmod(keys, 0700);
	link(one, two);
	refused("a donor with one key under two names", "is a key of 'one' already", "make another", "--donate", "64M",
		"--keys", keys);
	unlink(two);
	link(one, folder_path("keys/admin.key"));
	refused("a donor with a client's key called admin", "no client is called admin", "--admin-key", "--donate",
		"64M", "--keys", keys);
}

static void the_configuration_file_is_read(void)
{
	const char *path = folder_path("config");
	char where[128];

	refused("a donor whose --config is a missing file", path, "No such file", "--config", path);
	text_write(path, "[farpage-memserver]\ndonate = 64M\nsalb = 1M\n");
	snprintf(where, sizeof where, "%s:3", path);
	refused("a donor with an unknown setting in its configuration", where, "salb", "--config", path);
	text_write(path, "[farpage-memserver]\ndonate = 64M\nlisten = tcp://127.0.0.1:0\n");
	donor_spawn(&donor, "--config", path, "--slab", "1M");
	ok(donor_log_wait(&donor, "no key: listening on loopback only"),
	   "the donor takes its settings from the configuration file");
	donor_end(&donor);
	ok(strstr(donor.output, "farpage-memserver: listening on tcp://127.0.0.1:"),
	   "the donor listens at the configuration's address");
}

/* --help lists the options; each of them must be a setting in the sample configuration. */
static void the_sample_configuration_is_complete(const char *sample)
{
	static char text[1 << 16];
	FILE *file = fopen(sample, "r");
	unsigned missing = 0, options = 0;

	if (!ok(file && fread(text, 1, sizeof text - 1, file) > 0, "the sample configuration can be read"))
		return;
	fclose(file);
	donor_spawn(&donor, "--help");
	ok(donor_wait(&donor) == 0 && !*donor.log, "--help exits with 0 and logs nothing");
	for (char *at = donor.output; (at = strstr(at, "\n  --")); at++) {
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
	donor_start(&donor, "--config", sample); /* a donor starts with the unchanged sample */
	donor_end(&donor);
	donor_spawn(&donor, "--version");
	ok(donor_wait(&donor) == 0 && strstr(donor.output, FARPAGE_VERSION), "--version prints the version");
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return EXIT_FAILURE;
	bad_options_are_refused();
	bad_addresses_are_refused();
	a_port_in_use_is_refused();
	bad_key_files_are_refused();
	bad_folders_of_keys_are_refused();
	the_configuration_file_is_read();
	the_sample_configuration_is_complete(argv[1]);
	return tap_done();
}
