#include "blockdev/daemon/settings.h"

#include "blockdev/daemon/runtime.h"
#include "client/far.h"
#include "common/donors_option.h"
#include "common/log.h"
#include "common/metrics_http.h"
#include "common/size.h"
#include "common/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGUMENTS_MAX 256
#define LOG_FILE "/dev/kmsg"

void settings_defaults(struct settings *settings)
{
	*settings = (struct settings){
	    .frontend = "auto",
	    .spin_us = FABRIC_CONFIG_DEFAULT.spin_us,
	    .scrub_rate = FAR_SCRUB_RATE,
	    .replicas = 1,
	    .grace_s = 60,
	    .log_file = LOG_FILE,
	};
}

unsigned settings_table(struct settings *s, struct config_setting ret_table[SETTINGS_TABLE_MAX])
{
	const struct config_setting table[] = {
	    {"name", CONFIG_STRING, &s->name, 0, 0, "NAME", "name of the device"},
	    {"size", CONFIG_SIZE, &s->size, 0, 0, "SIZE",
	     "size of the device, in whole pages of 4096 bytes (required)"},
	    {"donor", CONFIG_LIST, &s->donors, 0, 0, "URI",
	     "a donor, tcp://HOST[:PORT], rdma:// or auto://; may be repeated; or @FILE, a donors file"},
	    {"key", CONFIG_STRING, &s->key_file, 0, 0, "FILE", "the key shared with the donors, see `farpage key`"},
	    {"frontend", CONFIG_STRING, &s->frontend, 0, 0, "KIND",
	     "ublk, fuse, or auto: ublk where the kernel has it (default auto)"},
	    {"queues", CONFIG_NUMBER, &s->queues, 0, 64, "N",
	     "number of queues, each with a thread (0, the default: the front end chooses)"},
	    {"depth", CONFIG_NUMBER, &s->depth, 0, 1024, "N",
	     "requests of a queue at a time (0, the default: the front end chooses)"},
	    {"replicas", CONFIG_NUMBER, &s->replicas, 1, FAR_REPLICAS_MAX, "N",
	     "donors that hold each page (default 1)"},
	    {"rebuild-rate", CONFIG_SIZE, &s->rebuild_rate, 1, 0, "SIZE",
	     "how much is copied per second after a replica is lost (default 256M)"},
	    {"scrub-rate", CONFIG_SIZE, &s->scrub_rate, 0, 0, "SIZE",
	     "how much the scrubber reads and checks per second (default 2M; 0: none)"},
	    {"encrypt", CONFIG_FLAG, &s->encrypt, 0, 0, NULL,
	     "encrypt pages before they leave, with a key that stays here"},
	    {"backup", CONFIG_STRING, &s->backup, 0, 0, "PATH",
	     "a file or block device: keep a copy of all pages there, in case all donors of a page die"},
	    {"spin-us", CONFIG_NUMBER, &s->spin_us, 0, 1000000, "US",
	     "how long to poll for requests and answers before sleeping (default 50)"},
	    {"timeout-ms", CONFIG_NUMBER, &s->timeout_ms, 100, 600000, "MS",
	     "a donor that cannot be reached for this long is lost, and its pages with it (default 600000; "
	     "with another copy in reach 5000)"},
	    {"grace", CONFIG_NUMBER, &s->grace_s, 2, 86400, "SECONDS",
	     "how long donors should keep the pages of a daemon that died (default 60)"},
	    {"overcommit", CONFIG_FLAG, &s->overcommit, 0, 0, NULL,
	     "the device may be larger than what donors have free"},
	    {"memory", CONFIG_FLAG, &s->memory, 0, 0, NULL,
	     "serve memory of the daemon instead of donors' memory, to measure front ends"},
	    {"swap", CONFIG_FLAG, &s->swap, 0, 0, NULL,
	     "the device will be swap space: serve it in real time, and raise the kernel's reserves meanwhile"},
	    {"keep-vm-settings", CONFIG_FLAG, &s->keep_vm, 0, 0, NULL,
	     "with --swap: do not change vm.min_free_kbytes, vm.watermark_scale_factor and the control group"},
	    {"metrics", CONFIG_STRING, &s->metrics, 0, 0, "PORT",
	     "serve metrics for Prometheus over HTTP, on loopback or at ADDRESS:PORT (default: none)"},
	    {"log", CONFIG_STRING, &s->log_file, 0, 0, "FILE",
	     "where to log once the device is ready, if started by farpage (default /dev/kmsg)"},
	    {"verbose", CONFIG_FLAG, &s->verbose, 0, 0, NULL, "log more"},
	};

	_Static_assert(sizeof table <= SETTINGS_TABLE_MAX * sizeof table[0], "room for all");
	memcpy(ret_table, table, sizeof table);
	return sizeof table / sizeof table[0];
}

static int options_read(struct settings *s, int argc, char **argv)
{
	const struct config_setting own[] = {
	    {"adopt", CONFIG_FLAG, &s->adopt, 0, 0, NULL, "serve a device whose daemon has ended"},
	    {"remove", CONFIG_FLAG, &s->remove, 0, 0, NULL, "remove a device whose daemon has ended"},
	    {"ready-fd", CONFIG_NUMBER, &s->ready_fd, 3, INT_MAX, "N",
	     "a descriptor that gets the device's path when the device is ready"},
	    {"config", CONFIG_STRING, &s->config_file, 0, 0, "FILE", "read further settings from this file"},
	    {"version", CONFIG_FLAG, &s->version, 0, 0, NULL, "print the version"},
	    {0},
	};
	struct config_setting table[SETTINGS_TABLE_MAX + sizeof own / sizeof own[0]];
	int at;

	memcpy(table + settings_table(s, table), own, sizeof own);
	at = config_read(table, SETTINGS_SECTION, argc, argv, "--config");
	if (at == -ECANCELED) {
		printf(SETTINGS_SECTION " serves a block device whose contents are in donors' memory.\n"
					"Usually `farpage disk` and `farpage swap` start it.\n\n"
					"usage: " SETTINGS_SECTION
					" --name NAME --size SIZE --donor URI... [OPTION...]\n"
					"       " SETTINGS_SECTION " --name NAME --adopt\n\n");
		config_help(table);
		printf("\nSizes are written 64M, 2G. See " SETTINGS_SECTION "(8).\n");
		return -ECANCELED;
	}
	if (at < 0)
		return -EINVAL;
	if (at < argc) {
		log_error("'%s' is not an option; " SETTINGS_SECTION " takes options only, see --help", argv[at]);
		return -EINVAL;
	}
	return 0;
}

/* --- The options in the folder --------------------------------------------------------------------------- */

size_t settings_write(const struct settings *s, char *ret_text, size_t size)
{
	struct text text = {.at = ret_text, .size = size};

	text_add(&text, "--name=%s\n--size=%llu\n--frontend=%s\n", s->name, (unsigned long long)s->size, s->frontend);
	if (s->donors_file)
		text_add(&text, "--donor=@%s\n", s->donors_file);
	for (unsigned i = 0; i < s->donors.count && !s->donors_file; i++)
		text_add(&text, "--donor=%s\n", s->donors.items[i]);
	if (s->key_file)
		text_add(&text, "--key=%s\n", s->key_file);
	text_add(&text, "--queues=%u\n--depth=%u\n--replicas=%u\n", s->queues, s->depth, s->replicas);
	if (s->rebuild_rate)
		text_add(&text, "--rebuild-rate=%llu\n", (unsigned long long)s->rebuild_rate);
	text_add(&text, "--scrub-rate=%llu\n", (unsigned long long)s->scrub_rate);
	if (s->backup)
		text_add(&text, "--backup=%s\n", s->backup);
	text_add(&text, "--spin-us=%u\n--grace=%u\n", s->spin_us, s->grace_s);
	if (s->timeout_ms)
		text_add(&text, "--timeout-ms=%u\n", s->timeout_ms);
	if (s->metrics)
		text_add(&text, "--metrics=%s\n", s->metrics);
	text_add(&text, "--log=%s\n", s->log_file);
	if (s->encrypt)
		text_add(&text, "--encrypt\n");
	if (s->memory)
		text_add(&text, "--memory\n");
	if (s->overcommit)
		text_add(&text, "--overcommit\n");
	if (s->swap)
		text_add(&text, "--swap\n");
	if (s->keep_vm)
		text_add(&text, "--keep-vm-settings\n");
	if (s->verbose)
		text_add(&text, "--verbose\n");
	assert(!text.cut);
	return text.length;
}

/* Refuses options that would change an existing device. */
static int fixed_check(const struct settings *given)
{
	if (!given->size && !given->donors.count && !given->memory)
		return 0;
	log_error("%s cannot change a device: leave --size, --donor and --memory out",
		  given->adopt ? "--adopt" : "--remove");
	return -EINVAL;
}

/* Reads the options again: first those in the folder, then the command line. */
static int kept_read(struct settings *settings, int argc, char **argv)
{
	static char text[RUNTIME_OPTIONS_MAX]; /* the settings point into this text */
	char *all[ARGUMENTS_MAX + 1] = {argv[0]}, *rest = text, *line;
	const char *name = settings->name;
	int count = 1;
	ssize_t length = runtime_read(name, "options", text, sizeof text);

	if (length == -ENOENT && settings->remove) /* the daemon died before it wrote the file */
		return 0;
	if (length < 0) {
		if (length == -ENOENT)
			log_error("there is no device %s to adopt: see `farpage disk list`", name);
		else
			log_error("cannot read the options of %s: %s", name, strerror((int)-length));
		return -EINVAL;
	}
	while ((line = strsep(&rest, "\n")) && *line && count < ARGUMENTS_MAX)
		all[count++] = line;
	for (int i = 1; i < argc && count < ARGUMENTS_MAX; i++)
		all[count++] = argv[i];
	settings_defaults(settings);
	return options_read(settings, count, all);
}

int settings_kept(const char *name, struct settings *ret_settings)
{
	char *argv[] = {(char[]){SETTINGS_SECTION}, NULL};
	struct settings settings = {.name = name};

	if (runtime_check_name(name) < 0 || kept_read(&settings, 1, argv) < 0)
		return -EINVAL;
	*ret_settings = settings;
	return 0;
}

/* --- Checks ---------------------------------------------------------------------------------------------- */

static int size_check(const struct settings *s)
{
	const unsigned long long bytes = s->size;
	char least[SIZE_TEXT_MAX], most[SIZE_TEXT_MAX];

	if (!s->size)
		log_error("no size given: say how large the device shall be, like --size 2G");
	else if (s->size % STORE_PAGE)
		log_error("--size: %llu bytes are not whole pages of %u; give %llu, or write it like 64M", bytes,
			  STORE_PAGE, (bytes / STORE_PAGE + 1) * STORE_PAGE);
	else if (s->size < SETTINGS_SIZE_MIN || s->size > SETTINGS_SIZE_MAX)
		log_error("--size: %llu bytes are out of range; it can be %s to %s", bytes,
			  size_format(SETTINGS_SIZE_MIN, least), size_format(SETTINGS_SIZE_MAX, most));
	else
		return 0;
	return -EINVAL;
}

static int store_check(const struct settings *s)
{
	if (s->memory && s->donors.count)
		log_error("--memory and --donor: give one of them");
	else if (!s->memory && !s->donors.count && !s->donors_file)
		log_error("no donor given: name each with --donor tcp://HOST[:PORT]");
	else if (s->memory && s->backup)
		log_error("--memory and --backup: give one of them");
	else if (s->replicas > 1 && s->replicas > s->donors.count && !s->adopt)
		log_error("--replicas %u: only %u donors are given; give as many at least", s->replicas,
			  s->donors.count);
	else
		return 0;
	return -EINVAL;
}

static int key_check(struct settings *s)
{
	/* Absolute paths, because the next daemon may have another working folder. */
	if (config_complete_path("key", &s->key_file) < 0 || config_complete_path("log", &s->log_file) < 0 ||
	    config_complete_path("backup", &s->backup) < 0)
		return -EINVAL;
	if (s->backup && strchr(s->backup, '\n')) {
		log_error("--backup: a path with a line break cannot be kept; name another file");
		return -EINVAL;
	}
	if (!s->key_file)
		return 0;
	if (strchr(s->key_file, '\n')) {
		log_error("--key: a path with a line break cannot be kept; rename the file");
		return -EINVAL;
	}
	return auth_key_load_or_tell(s->key_file, s->key) < 0 ? -EINVAL : 0;
}

/* Checks that the options fit the file in the folder, one per line (settings_write()). */
static int kept_check(const struct settings *s)
{
	size_t length = 1024; /* for the other options */

	if (s->donors_file)
		length += strlen(s->donors_file);
	for (unsigned i = 0; i < s->donors.count && !s->donors_file; i++) {
		length += strlen(s->donors.items[i]) + sizeof "--donor=";
		if (strchr(s->donors.items[i], '\n')) {
			log_error(
			    "--donor: an address cannot have a line break; give each address with its own --donor");
			return -EINVAL;
		}
	}
	if (strchr(s->log_file, '\n')) {
		log_error("--log: a path with a line break cannot be kept; name another file");
		return -EINVAL;
	}
	length += strlen(s->log_file) + (s->key_file ? strlen(s->key_file) : 0) + (s->backup ? strlen(s->backup) : 0);
	if (length < RUNTIME_OPTIONS_MAX)
		return 0;
	log_error("the options are too long: addresses and paths can have %u bytes together",
		  RUNTIME_OPTIONS_MAX - 1024);
	return -EINVAL;
}

/* Checks the log file of a new device. An existing device is served even without it. */
static int log_check(const struct settings *s)
{
	int fd;

	if (strcmp(s->log_file, LOG_FILE) == 0)
		return 0;
	fd = open(s->log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0) {
		log_error("--log %s: %m; name a file that can be written", s->log_file);
		return -EINVAL;
	}
	close(fd);
	return 0;
}

static int name_check(const struct settings *s)
{
	if (s->name)
		return runtime_check_name(s->name);
	log_error("no name given: name the device, like --name disk1");
	return -EINVAL;
}

unsigned settings_timeout_ms(const struct settings *s)
{
	return far_last_timeout_ms(
	    &(struct far_config){.timeout_ms = s->timeout_ms, .replicas = s->replicas, .backup = s->backup});
}

static int donors_check(struct settings *s)
{
	const char *file;

	if (donors_option_expand(&s->donors, &file) < 0) {
		if (!s->adopt || s->donors.count != 1)
			return -EINVAL;
		/* The donors file cannot be read. An existing device then keeps the donors that it has, because its
		   pages would otherwise be lost. */
		file = s->donors.items[0] + 1;
		s->donors.count = 0;
	}
	if (file)
		s->donors_file = file;
	if (s->donors_file && strchr(s->donors_file, '\n')) {
		log_error("--donor: a path with a line break cannot be kept; rename the file");
		return -EINVAL;
	}
	return 0;
}

int settings_check(struct settings *s)
{
	return donors_check(s) < 0 || name_check(s) < 0 || size_check(s) < 0 || store_check(s) < 0 ||
		       (s->metrics && metrics_http_check(s->metrics) < 0) || key_check(s) < 0 || kept_check(s) < 0
		   ? -EINVAL
		   : 0;
}

int settings_read(struct settings *settings, int argc, char **argv)
{
	int status;

	settings_defaults(settings);
	status = options_read(settings, argc, argv);
	if (status < 0)
		return status;
	if (settings->version) {
		printf(SETTINGS_SECTION " %s\n", FARPAGE_VERSION);
		return -ECANCELED;
	}
	if (!settings->adopt && !settings->remove)
		return settings_check(settings) < 0 ? -EINVAL : log_check(settings);
	if (name_check(settings) < 0 || fixed_check(settings) < 0 || kept_read(settings, argc, argv) < 0)
		return -EINVAL;
	return settings->remove ? 0 : settings_check(settings);
}
