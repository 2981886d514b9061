/*
 * settings: what the operator asked for, and whether that makes sense on this machine. Reads the command line, the
 * configuration file, the key, and /proc/meminfo; every mistake is one line that names the cause and the next step.
 * Before there are threads.
 */
#ifndef MEMSERVER_SETTINGS_H
#define MEMSERVER_SETTINGS_H

#include "common/config.h"
#include "common/machine.h"
#include "memserver/keyring.h"
#include "memserver/server.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct settings {
	struct config_list listen;
	const char *donate_text, *reserve_text;
	uint64_t donate, slab, reserve, quota;
	bool automatic; /* --donate auto: `donate` is all that is above the reserve */
	unsigned grace_s, heartbeat_ms, spin_us, clients, revoke_s;
	const char *config_file, *domain, *drain_file;
	struct config_list key_files, admin_key_files, client_quotas;
	const char *key_folder;
	bool drained;
	char drain_default[PATH_MAX]; /* where drain_file is not given */
	bool insecure, huge, lock, verbose, version;
	bool beyond_loopback; /* some address can be reached by others */
	struct keyring keys;
	int argc;
	char **argv;
	struct server_config server; /* what all of the above comes to; points into this struct */
};

/*
 * 0 and everything in place; -EINVAL after one logged line; -ECANCELED when --help or --version was asked for and
 * answered. @settings stays where it is as long as the server runs.
 */
int settings_read(struct settings *settings, int argc, char **argv);

/*
 * Reads the same command line and its file again, and takes over what may change while the server runs; one logged line
 * names what else has changed. What keys were valid before is in *ret_before. -EINVAL after logging what is wrong: then
 * everything is as it was. Called by the server's thread; does not ask the resolver.
 */
int settings_reload(struct settings *settings, struct keyring *ret_before);

/* The parts of it, for tests. -EINVAL after one logged line. */
/* What donate_text and reserve_text say on a machine with this memory: sizes, "auto", "10%". */
int settings_parse_sizes(struct settings *settings, const struct machine_memory *memory);
int settings_check_sizes(struct settings *settings, const struct machine_memory *memory);
/* Whether `domain`, if there is one, is a name (wire.h). */
int settings_check_domain(const struct settings *settings);
/* Whether all of @uri's addresses are this machine's loopback; -EINVAL: malformed, or the name does not resolve. */
int settings_is_loopback(const char *uri, bool *ret_loopback);

#endif
