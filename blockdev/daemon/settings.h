/*
 * settings: the options of a daemon, and the file in the device's folder that keeps them for the next daemon. Each
 * mistake is logged as one line that names the cause and the next step.
 *
 * Threads. The main thread calls these functions before it starts other threads.
 */
#ifndef BLOCKDEV_SETTINGS_H
#define BLOCKDEV_SETTINGS_H

#include "common/auth.h"
#include "common/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Section of a configuration file. */
#define SETTINGS_SECTION "farpage-blockdev"
#define SETTINGS_TABLE_MAX 24
#define SETTINGS_SIZE_MIN ((uint64_t)1 << 20)
#define SETTINGS_SIZE_MAX ((uint64_t)1 << 46)

struct settings {
	const char *name, *frontend;
	uint64_t size, rebuild_rate; /* rebuild_rate: 0 for the default */
	uint64_t scrub_rate;
	struct config_list donors;
	const char *donors_file; /* absolute path of the file that names the donors, or NULL */
	const char *key_file, *log_file, *config_file, *backup;
	unsigned queues, depth, spin_us, timeout_ms, replicas, grace_s;
	unsigned ready_fd; /* 0 for none */
	bool memory, overcommit, verbose, encrypt;
	/* The device will be swap space. The daemon runs in real time and raises the kernel's reserves. */
	bool swap;
	bool keep_vm;       /* leaves the kernel's reserves and the control group as they are */
	bool adopt, remove; /* the order to the daemon; if both are false, attach */
	bool version;
	uint8_t key[AUTH_KEY_SIZE];
};

/*
 * Reads and checks the options. For an adoption or a removal, options that are not given come from the device's folder.
 * Returns 0, -EINVAL after one logged line, or -ECANCELED if --help or --version was asked for and answered.
 */
int settings_read(struct settings *settings, int argc, char **argv);

/* --- Parts of settings_read(), for commands that start the daemon with further options ------------------- */
void settings_defaults(struct settings *settings);
/* Fills a table for config_read() with a device's options. Returns their number; the table has no end mark. */
unsigned settings_table(struct settings *settings, struct config_setting ret_table[SETTINGS_TABLE_MAX]);
/* Checks the settings and reads the key. Returns 0, or -EINVAL after one logged line. */
int settings_check(struct settings *settings);

/*
 * Reads the options of the device @name from its folder, unchecked and without the key. The strings live until the next
 * call. Returns 0, or -EINVAL after one logged line if there is none.
 */
int settings_kept(const char *name, struct settings *ret_settings);
/* Writes the options as the folder's file keeps them (runtime.h). Returns the length. */
size_t settings_write(const struct settings *settings, char *ret_text, size_t size);

#endif
