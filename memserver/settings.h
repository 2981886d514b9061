/*
 * settings: the operator's settings, checked against this machine. Reads the command line, the configuration file, the
 * keys, and the machine's memory (machine.h). Each mistake is logged as one line that names the cause and the next
 * step.
 *
 * Threads. settings_read() runs before the program has threads.
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
	bool automatic; /* --donate auto: `donate` is all that the reserve leaves */
	unsigned grace_s, heartbeat_ms, spin_us, clients, revoke_s;
	const char *config_file, *failure_domain, *drain_file, *metrics;
	struct config_list key_files, admin_key_files, client_quotas;
	const char *key_folder;
	bool drained;
	char drain_default[PATH_MAX]; /* used if drain_file is not given */
	bool insecure, huge, lock, verbose, version;
	bool beyond_loopback; /* some address can be reached from other machines */
	struct keyring keys;
	int argc;
	char **argv;
	struct server_config server; /* the result of all settings above; points into this struct */
};

/*
 * Reads and checks all settings. @settings must stay at its address while the server runs. Returns 0. After one logged
 * line it returns -EINVAL if a setting is wrong, or -ENOENT if a name does not resolve. Returns -ECANCELED if --help or
 * --version was asked for and answered.
 */
int settings_read(struct settings *settings, int argc, char **argv);

/*
 * Reads the command line and the configuration file again, and takes over the settings that may change while the
 * server runs. One logged line names the changed settings that wait for the next start. Writes the keys that were
 * valid before to *ret_before. Called by the server's thread; does not use the resolver. Returns 0, or -EINVAL
 * after logging what is wrong; then nothing has changed.
 */
int settings_reload(struct settings *settings, struct keyring *ret_before);

/* The parts of settings_read(), for tests. Each returns 0, or -EINVAL after one logged line. */
/* Parses donate_text and reserve_text on a machine with this memory: sizes, "auto", or "10%". */
int settings_parse_sizes(struct settings *settings, const struct machine_memory *memory);
/* Checks the sizes against each other and against the machine's memory. */
int settings_check_sizes(struct settings *settings, const struct machine_memory *memory);
/* Checks that `failure_domain`, if given, is a valid name (wire.h). */
int settings_check_failure_domain(const struct settings *settings);
/* *ret_loopback says whether all of @uri's addresses are loopback. Returns 0, -EINVAL if @uri is malformed, or -ENOENT
   if its name does not resolve. */
int settings_is_loopback(const char *uri, bool *ret_loopback);

#endif
