/* settings: see settings.h. */
#include "memserver/settings.h"

#include "common/log.h"
#include "common/metrics_http.h"
#include "common/size.h"
#include "common/uri.h"
#include "fabric/fabric.h"
#include "memserver/drain_file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SLAB_MIN ((uint64_t)1 << 20)
#define SLAB_MAX ((uint64_t)1 << 30)
#define DEFAULT_LISTEN "tcp://127.0.0.1:7470"

static const char default_listen[] = DEFAULT_LISTEN;

/* The most data connections of one client. Each store of the client has one connection per thread. */
#define SESSION_CONNS 64u

static void defaults_set(struct settings *settings)
{
	*settings = (struct settings){
	    .slab = 64 << 20,
	    .revoke_s = 10,
	    .grace_s = 900,
	    .heartbeat_ms = 200,
	    .spin_us = FABRIC_CONFIG_DEFAULT.spin_us,
	    .clients = 256,
	    .listen = {.items = {default_listen}, .count = 1},
	};
}

/* Reads argv into @settings, or answers --help. */
static int options_read(struct settings *s, int argc, char **argv)
{
	const struct config_setting table[] = {
	    {"listen", CONFIG_LIST, &s->listen, 0, 0, "URI",
	     "address to listen on: tcp://, rdma://, or auto:// for both; may be repeated (default " DEFAULT_LISTEN
	     ")"},
	    {"donate", CONFIG_STRING, &s->donate_text, 0, 0, "SIZE",
	     "the most memory to lend; auto: all memory except --reserve (required)"},
	    {"slab", CONFIG_SIZE, &s->slab, 0, 0, "SIZE", "unit of lent memory, a power of two (default 64M)"},
	    {"reserve", CONFIG_STRING, &s->reserve_text, 0, 0, "SIZE",
	     "memory that this machine keeps available, as a size or like 10%; slabs are taken back for it "
	     "(default 5%, with auto 10%)"},
	    {"revoke-deadline", CONFIG_NUMBER, &s->revoke_s, 1, 3600, "SECONDS",
	     "the time in which memory is taken back (default 10)"},
	    {"quota", CONFIG_SIZE, &s->quota, 0, 0, "SIZE", "the most that one client may lease (default: no limit)"},
	    {"domain", CONFIG_STRING, &s->failure_domain, 0, 0, "NAME",
	     "the failure domain of this machine, like rack1: clients never keep two replicas in one domain "
	     "(default: each donor has its own)"},
	    {"drain-file", CONFIG_STRING, &s->drain_file, 0, 0, "FILE",
	     "exists while this donor is drained, so that it stays drained when it restarts (default: `drained` in "
	     "$STATE_DIRECTORY, which the systemd unit sets; without that, none)"},
	    {"clients", CONFIG_NUMBER, &s->clients, 1, LEASE_SESSIONS_MAX, "N",
	     "the most clients at a time (default 256)"},
	    {"key", CONFIG_LIST, &s->key_files, 0, 0, "FILE",
	     "key that clients must know, see `farpage key`; may be repeated, and each key is valid"},
	    {"keys", CONFIG_STRING, &s->key_folder, 0, 0, "FOLDER",
	     "keys of several clients, in files NAME.key: each name has its own leases"},
	    {"client-quota", CONFIG_LIST, &s->client_quotas, 0, 0, "NAME=SIZE",
	     "the most that all clients with the keys of a name may lease together; may be repeated"},
	    {"admin-key", CONFIG_LIST, &s->admin_key_files, 0, 0, "FILE",
	     "key that `farpage donors drain` and undrain need; may be repeated"},
	    {"insecure", CONFIG_FLAG, &s->insecure, 0, 0, NULL,
	     "listen beyond loopback without a key: anyone who reaches the port may lease memory"},
	    {"grace", CONFIG_NUMBER, &s->grace_s, 0, 86400, "SECONDS",
	     "how long leases outlive a client that fell silent, at most (default 900)"},
	    {"heartbeat", CONFIG_NUMBER, &s->heartbeat_ms, 10, 600000, "MS",
	     "a client silent for four of these has vanished (default 200)"},
	    {"spin-us", CONFIG_NUMBER, &s->spin_us, 0, 1000000, "US",
	     "how long to poll for requests before sleeping (default 50)"},
	    {"metrics", CONFIG_STRING, &s->metrics, 0, 0, "PORT",
	     "serve metrics for Prometheus over HTTP, on loopback or at ADDRESS:PORT (default: none)"},
	    {"huge", CONFIG_FLAG, &s->huge, 0, 0, NULL, "take hugetlb pages while there are any"},
	    {"mlock", CONFIG_FLAG, &s->lock, 0, 0, NULL, "lock lent memory, so that this machine never swaps it out"},
	    {"config", CONFIG_STRING, &s->config_file, 0, 0, "FILE", "read further settings from this file"},
	    {"verbose", CONFIG_FLAG, &s->verbose, 0, 0, NULL, "log more"},
	    {"version", CONFIG_FLAG, &s->version, 0, 0, NULL, "print the version"},
	    {0},
	};
	int at = config_read(table, "farpage-memserver", argc, argv, "--config");

	if (at == -ECANCELED) {
		printf("farpage-memserver lends memory of this machine to farpage clients on others.\n\n"
		       "usage: farpage-memserver --donate SIZE|auto [--listen URI]... [--key FILE]... [OPTION]...\n"
		       "       farpage-memserver --donate 8G --listen auto://10.0.0.7 --key /etc/farpage/key\n\n");
		config_help(table);
		printf("\nSizes are written 64M, 2G. See farpage-memserver(8).\n");
		return -ECANCELED;
	}
	if (at < 0)
		return -EINVAL;
	if (at < argc) {
		log_error("'%s' is not an option; farpage-memserver takes options only, see --help", argv[at]);
		return -EINVAL;
	}
	return 0;
}

/* --- Sizes ----------------------------------------------------------------------------------------------- */

static int slab_check(const struct settings *s)
{
	char text[SIZE_TEXT_MAX];

	if (s->slab >= SLAB_MIN && s->slab <= SLAB_MAX && !(s->slab & (s->slab - 1)))
		return 0;
	log_error("--slab %s: must be a power of two between 1M and 1G; give 64M, or leave it out",
		  size_format(s->slab, text));
	return -EINVAL;
}

/* Parses text like "10%" as a part of @whole. */
static int percent_parse(const char *text, uint64_t whole, uint64_t *ret_bytes)
{
	char *end;
	unsigned long percent = strtoul(text, &end, 10);

	if (end == text || *text < '0' || *text > '9' || strcmp(end, "%") != 0 || percent > 100)
		return -EINVAL;
	*ret_bytes = (uint64_t)((unsigned __int128)whole * percent / 100);
	return 0;
}

static int size_read(const char *option, const char *text, uint64_t *ret_bytes)
{
	int status = size_parse(text, ret_bytes);

	if (status < 0)
		log_error("--%s %s: %s; write it like 64M or 2G%s", option, text,
			  status == -ERANGE ? "too large" : "not a size",
			  strcmp(option, "donate") == 0 ? ", or auto for all that --reserve leaves" : ", or like 10%");
	return status;
}

/* Sets `donate` to all that the reserve leaves, in whole slabs up to LEASE_SLABS_MAX. */
static int donate_auto(struct settings *s, const struct machine_memory *memory)
{
	char total[SIZE_TEXT_MAX], keep[SIZE_TEXT_MAX];
	uint64_t slabs = memory->total > s->reserve ? (memory->total - s->reserve) / s->slab : 0;

	if (!slabs) {
		log_error("--donate auto: this machine or control group has %s of memory and keeps %s (--reserve), "
			  "which leaves no slab to lend; give a smaller --reserve",
			  size_format(memory->total, total), size_format(s->reserve, keep));
		return -EINVAL;
	}
	s->donate = (slabs < LEASE_SLABS_MAX ? slabs : LEASE_SLABS_MAX) * s->slab;
	return 0;
}

int settings_parse_sizes(struct settings *settings, const struct machine_memory *memory)
{
	struct settings *s = settings;

	s->automatic = s->donate_text && strcmp(s->donate_text, "auto") == 0;
	if (!s->reserve_text)
		s->reserve = memory->total / (s->automatic ? 10 : 20);
	else if (percent_parse(s->reserve_text, memory->total, &s->reserve) < 0 &&
		 size_read("reserve", s->reserve_text, &s->reserve) < 0)
		return -EINVAL;
	if (slab_check(s) < 0)
		return -EINVAL;
	if (s->automatic)
		return donate_auto(s, memory);
	if (s->donate_text && size_read("donate", s->donate_text, &s->donate) < 0)
		return -EINVAL;
	return 0;
}

/* Rounds down to a number that is easy to read and type: whole GiB from 4 GiB on, otherwise whole slabs. */
static uint64_t round_down(uint64_t bytes, uint64_t slab)
{
	uint64_t unit = bytes >= (uint64_t)4 << 30 ? (uint64_t)1 << 30 : slab;

	return bytes / unit * unit;
}

static int donate_check(const struct settings *s, const struct machine_memory *memory)
{
	char donate[SIZE_TEXT_MAX], other[SIZE_TEXT_MAX], keep[SIZE_TEXT_MAX], most[SIZE_TEXT_MAX];
	uint64_t lendable = memory->total > s->reserve ? memory->total - s->reserve : 0;

	size_format(s->donate, donate);
	if (!s->donate)
		log_error("nothing to lend: give how much with --donate, like --donate 2G, or --donate auto");
	else if (s->donate < s->slab)
		log_error("--donate %s: less than one slab of %s; give at least that, or a smaller --slab", donate,
			  size_format(s->slab, other));
	else if (s->donate > lendable)
		log_error("--donate %s: this machine or control group has %s of memory and keeps %s (--reserve); give "
			  "at most %s",
			  donate, size_format(memory->total, other), size_format(s->reserve, keep),
			  size_format(round_down(lendable, s->slab), most));
	else if (s->donate / s->slab > LEASE_SLABS_MAX)
		log_error("--donate %s: more than %u slabs of %s; give a larger --slab", donate, LEASE_SLABS_MAX,
			  size_format(s->slab, other));
	else if (s->quota && s->quota < s->slab)
		log_error("--quota %s: less than one slab of %s; give at least that", size_format(s->quota, keep),
			  size_format(s->slab, other));
	else
		return 0;
	return -EINVAL;
}

int settings_check_sizes(struct settings *settings, const struct machine_memory *memory)
{
	if (slab_check(settings) < 0 || donate_check(settings, memory) < 0)
		return -EINVAL;
	return 0;
}

int settings_check_failure_domain(const struct settings *settings)
{
	if (!settings->failure_domain || wire_failure_domain_is_valid(settings->failure_domain))
		return 0;
	log_error("--domain '%s': must be 1 to %u letters, digits, and of . _ - ; write it like rack1",
		  settings->failure_domain, WIRE_FAILURE_DOMAIN_SIZE - 1);
	return -EINVAL;
}

static int lock_check(const struct settings *s)
{
	struct rlimit limit;
	char text[SIZE_TEXT_MAX];

	if (!s->lock || !geteuid() || getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur >= s->donate)
		return 0;
	log_error("--mlock: this process may lock only %s; raise it with `ulimit -l` or LimitMEMLOCK=",
		  size_format(limit.rlim_cur, text));
	return -EINVAL;
}

static bool address_is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;

		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	}
	return address->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

int settings_is_loopback(const char *text, bool *ret_loopback)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *addresses;
	struct uri uri;
	int status;

	if (uri_parse(text, FABRIC_DEFAULT_PORT, &uri) < 0 || !uri_is_donor(&uri)) {
		log_error("--listen '%s': not an address; write it like " DEFAULT_LISTEN, text);
		return -EINVAL;
	}
	status = getaddrinfo(uri.host, NULL, &hints, &addresses);
	if (status) {
		log_error("--listen %s: %s: %s; give an address of this machine", text, uri.host, gai_strerror(status));
		return -ENOENT;
	}
	*ret_loopback = true;
	for (const struct addrinfo *at = addresses; at; at = at->ai_next)
		if (!address_is_loopback(at->ai_addr))
			*ret_loopback = false;
	freeaddrinfo(addresses);
	return 0;
}

/* --- Keys ------------------------------------------------------------------------------------------------ */

static int keys_read(struct settings *s)
{
	int status = 0;

	for (unsigned i = 0; !status && i < s->key_files.count; i++)
		status = keyring_add_file(&s->keys, s->key_files.items[i], "key", false);
	if (!status && s->key_folder)
		status = keyring_add_folder(&s->keys, s->key_folder);
	if (!status && s->admin_key_files.count && !s->keys.count) {
		log_error("--admin-key: clients have no key, so anybody may do anything; give --key FILE, or --keys "
			  "FOLDER, too");
		status = -EINVAL;
	}
	for (unsigned i = 0; !status && i < s->admin_key_files.count; i++)
		status = keyring_add_file(&s->keys, s->admin_key_files.items[i], "admin", true);
	for (unsigned i = 0; !status && i < s->client_quotas.count; i++)
		status = keyring_set_quota(&s->keys, s->client_quotas.items[i]);
	return status;
}

/* --- Addresses ------------------------------------------------------------------------------------------- */

static int listen_check(struct settings *s)
{
	bool loopback;
	int status;

	if (s->listen.count > SERVER_LISTEN_MAX) {
		log_error("--listen: at most %u addresses", SERVER_LISTEN_MAX);
		return -EINVAL;
	}
	for (unsigned i = 0; i < s->listen.count; i++) {
		status = settings_is_loopback(s->listen.items[i], &loopback);
		if (status < 0)
			return status;
		if (loopback)
			continue;
		s->beyond_loopback = true;
		if (!s->keys.count && !s->insecure) {
			log_error("--listen %s: others can reach that address, and there is no key; make one with "
				  "`farpage key FILE` and give --key FILE, or --insecure",
				  s->listen.items[i]);
			return -EINVAL;
		}
	}
	return 0;
}

/* --- Drained --------------------------------------------------------------------------------------------- */

/* Finds the drain file and reads it. $STATE_DIRECTORY may have several directories, separated by colons. */
static int drain_check(struct settings *s)
{
	const char *folder = getenv("STATE_DIRECTORY");

	if (!s->drain_file && folder && *folder) {
		int size = snprintf(s->drain_default, sizeof s->drain_default, "%.*s/drained",
				    (int)strcspn(folder, ":"), folder);

		if (size < 0 || (size_t)size >= sizeof s->drain_default) {
			log_error("$STATE_DIRECTORY is too long; give --drain-file FILE");
			return -EINVAL;
		}
		return drain_file_read(s->drain_default, &s->drained);
	}
	return s->drain_file ? drain_file_read(s->drain_file, &s->drained) : 0;
}

/* --- All settings ---------------------------------------------------------------------------------------- */

static void server_fill(struct settings *s)
{
	const uint64_t slabs = s->donate / s->slab;

	s->server = (struct server_config){
	    .listen = s->listen.items,
	    .listen_count = s->listen.count,
	    .beyond_loopback = s->beyond_loopback,
	    .metrics = s->metrics,
	    .drained = s->drained,
	    .reserve = s->reserve,
	    .slabs = (uint32_t)slabs,
	    .donor =
		{
		    .keys = &s->keys,
		    .failure_domain = s->failure_domain,
		    .drain_file = s->drain_file       ? s->drain_file
				  : *s->drain_default ? s->drain_default
						      : NULL,
		    .limits = {.slabs = (uint32_t)slabs,
			       .slab_bytes = s->slab,
			       .sessions = s->clients,
			       .session_slabs = (uint32_t)(s->quota / s->slab < slabs ? s->quota / s->slab : 0),
			       .session_conns = SESSION_CONNS,
			       .grace_ns = (uint64_t)s->grace_s * 1000000000,
			       .heartbeat_ns = (uint64_t)s->heartbeat_ms * 1000000,
			       .revoke_ns = (uint64_t)s->revoke_s * 1000000000},
		    .slabs = {.slabs = (uint32_t)slabs,
			      .bytes = s->slab,
			      .reserve = s->reserve,
			      .huge = s->huge,
			      .lock = s->lock},
		},
	};
	s->server.donor.fabric = FABRIC_CONFIG_DEFAULT;
	s->server.donor.fabric.spin_us = s->spin_us;
	/* A client whose machine acknowledges slowly must not fail before its heartbeats are missed. */
	if (s->heartbeat_ms > s->server.donor.fabric.io_ms / LEASE_HEARTBEATS_MISSED)
		s->server.donor.fabric.io_ms = LEASE_HEARTBEATS_MISSED * s->heartbeat_ms;
}

/* Reads and checks all settings except the addresses and the drain file. */
static int all_read(struct settings *s, int argc, char **argv)
{
	struct machine_memory memory;
	int status;

	defaults_set(s);
	s->argc = argc;
	s->argv = argv;
	status = options_read(s, argc, argv);
	if (status < 0 || s->version)
		return status;
	status = machine_memory_read(&memory);
	if (status < 0) {
		log_error("cannot tell how much memory there is: /proc/meminfo: %s", strerror(-status));
		return status;
	}
	if (settings_parse_sizes(s, &memory) < 0 || settings_check_sizes(s, &memory) < 0 || lock_check(s) < 0 ||
	    settings_check_failure_domain(s) < 0 || (s->metrics && metrics_http_check(s->metrics) < 0) ||
	    keys_read(s) < 0)
		return -EINVAL;
	return 0;
}

int settings_read(struct settings *settings, int argc, char **argv)
{
	int status = all_read(settings, argc, argv);

	if (status < 0)
		return status;
	if (settings->version) {
		printf("farpage-memserver %s\n", FARPAGE_VERSION);
		return -ECANCELED;
	}
	log_setup("farpage-memserver", settings->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
	status = listen_check(settings);
	if (status == 0 && drain_check(settings) < 0)
		status = -EINVAL;
	if (status == 0)
		server_fill(settings);
	return status;
}

/* --- Reload ---------------------------------------------------------------------------------------------- */

/* Frees the text of a setting, unless it is part of the command line or a literal. */
static void string_free(const struct settings *s, const char *text)
{
	for (int i = 0; i < s->argc && s->argv[i]; i++)
		if ((uintptr_t)text >= (uintptr_t)s->argv[i] &&
		    (uintptr_t)text <= (uintptr_t)s->argv[i] + strlen(s->argv[i]))
			return;
	if (text != default_listen)
		free((void *)(uintptr_t)text);
}

static void strings_free(struct settings *s)
{
	const char *const strings[] = {s->donate_text, s->reserve_text, s->config_file, s->failure_domain,
				       s->drain_file,  s->key_folder,   s->metrics};
	const struct config_list *const lists[] = {&s->listen, &s->key_files, &s->admin_key_files, &s->client_quotas};

	for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
		string_free(s, strings[i]);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		for (unsigned j = 0; j < lists[i]->count; j++)
			string_free(s, lists[i]->items[j]);
}

static bool texts_differ(const char *one, const char *other)
{
	return one && other ? strcmp(one, other) != 0 : one != other;
}

static bool lists_differ(const struct config_list *one, const struct config_list *other)
{
	if (one->count != other->count)
		return true;
	for (unsigned i = 0; i < one->count; i++)
		if (strcmp(one->items[i], other->items[i]) != 0)
			return true;
	return false;
}

/* Writes the names of settings that changed but wait for the next start, like "listen, slab", or "". */
static void waiting_format(const struct settings *s, const struct settings *next, char *text, size_t size)
{
	const struct {
		const char *name;
		bool waits;
	} all[] = {
	    {"listen", lists_differ(&s->listen, &next->listen)},
	    {"donate (more than at the start)", next->donate / s->slab > s->server.donor.limits.slabs},
	    {"slab", s->slab != next->slab},
	    {"domain", texts_differ(s->failure_domain, next->failure_domain)},
	    {"drain-file", texts_differ(s->drain_file, next->drain_file)},
	    {"clients", s->clients != next->clients},
	    {"heartbeat", s->heartbeat_ms != next->heartbeat_ms},
	    {"spin-us", s->spin_us != next->spin_us},
	    {"metrics", texts_differ(s->metrics, next->metrics)},
	    {"huge", s->huge != next->huge},
	    {"mlock", s->lock != next->lock},
	};

	*text = '\0';
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i].waits)
			snprintf(text + strlen(text), size - strlen(text), "%s%s", *text ? ", " : "", all[i].name);
}

/* Takes over the settings that may change. `donate` never grows beyond the slabs that the donor began with. */
static void take_over(struct settings *s, const struct settings *next)
{
	const uint64_t most = s->server.donor.limits.slabs * s->slab;

	s->donate = next->donate / s->slab * s->slab < most ? next->donate / s->slab * s->slab : most;
	s->reserve = next->reserve;
	s->revoke_s = next->revoke_s;
	s->quota = next->quota;
	s->grace_s = next->grace_s;
	s->verbose = next->verbose;
	s->insecure = next->insecure;
	s->keys = next->keys;
	s->server.reserve = s->reserve;
	s->server.slabs = (uint32_t)(s->donate / s->slab);
	s->server.donor.limits.session_slabs =
	    s->quota / s->slab < s->server.slabs ? (uint32_t)(s->quota / s->slab) : 0;
	s->server.donor.limits.grace_ns = (uint64_t)s->grace_s * 1000000000;
	s->server.donor.limits.revoke_ns = (uint64_t)s->revoke_s * 1000000000;
	log_set_level(s->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
}

int settings_reload(struct settings *settings, struct keyring *ret_before)
{
	static struct settings next; /* too large for the stack */
	char waiting[256];
	int status = all_read(&next, settings->argc, settings->argv);

	if (status == 0 && settings->beyond_loopback && !next.keys.count && !next.insecure) {
		log_error("others can reach this donor, and there is no key any more; give --key FILE, or --insecure");
		status = -EINVAL;
	}
	/* The size of slabs does not change, whatever the files say now. */
	if (status == 0 && next.quota && next.quota < settings->slab) {
		char quota[SIZE_TEXT_MAX], slab[SIZE_TEXT_MAX];

		log_error("--quota %s: less than one slab of %s, the size of now; give at least that",
			  size_format(next.quota, quota), size_format(settings->slab, slab));
		status = -EINVAL;
	}
	if (status < 0) {
		log_error("not reloaded: the settings stay as they were");
	} else {
		waiting_format(settings, &next, waiting, sizeof waiting);
		*ret_before = settings->keys;
		take_over(settings, &next);
		log_info("reloaded%s%s", *waiting ? "; as before until the next start: " : "", waiting);
	}
	strings_free(&next);
	memset(&next, 0, sizeof next);
	return status < 0 ? -EINVAL : 0;
}
