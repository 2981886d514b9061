/*
 * settings: how the daemon is to serve a device: its options, and the file of the folder that keeps them for the daemon
 * that goes on with it. Every mistake is one line that names the cause and the next step.
 *
 * Threads: the main thread's, before there are others.
 */
#ifndef BLOCKDEV_SETTINGS_H
#define BLOCKDEV_SETTINGS_H

#include "common/auth.h"
#include "common/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a configuration file. */
#define SETTINGS_SECTION "farpage-blockdev"
#define SETTINGS_TABLE_MAX 24
#define SETTINGS_SIZE_MIN ((uint64_t)1 << 20)
#define SETTINGS_SIZE_MAX ((uint64_t)1 << 46)

struct settings {
	const char *name, *frontend;
	uint64_t size, rebuild_rate; /* rebuild_rate 0: the default */
	uint64_t scrub_rate;
	struct config_list donors;
	const char *key_file, *log_file, *config_file, *backup;
	unsigned queues, depth, spin_us, timeout_ms, replicas, grace_s;
	unsigned ready_fd; /* 0: none */
	bool memory, overcommit, verbose, encrypt;
	bool swap; /* the device is to be swap space: the daemon runs in real time, the kernel's reserves are raised */
	bool keep_vm;       /* not the latter */
	bool adopt, remove; /* what to do: else attach */
	bool version;
	uint8_t key[AUTH_KEY_SIZE];
};

/* 0 and all checked; -EINVAL after one logged line; -ECANCELED when --help or --version was asked for and answered.
   To adopt or remove, the rest is what the device's folder says (options given now win). */
int settings_read(struct settings *settings, int argc, char **argv);

/* The parts of it, for commands that start the daemon with options of their own besides. */
void settings_defaults(struct settings *settings);
/* What a device has, for config_read(); how many (the end is not marked). */
unsigned settings_table(struct settings *settings, struct config_setting ret_table[SETTINGS_TABLE_MAX]);
/* -EINVAL after one logged line. Reads the key. */
int settings_check(struct settings *settings);

/* What the device @name is served with, unchecked and without the key, as its folder says; its strings live until the
   next call. -EINVAL after one logged line: there is none. */
int settings_kept(const char *name, struct settings *ret_settings);
/* The options as runtime.h's file keeps them; its length. */
size_t settings_write(const struct settings *settings, char *ret_text, size_t size);

#endif
