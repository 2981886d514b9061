/*
 * devices: what tools may know of farpage's block devices on this machine, and how they talk to a device's daemon. This
 * is the only header of blockdev/ for other folders.
 *
 * Theory of operation. Each device has a daemon, farpage-blockdev, and a folder, /run/farpage/NAME (daemon/runtime.h).
 * The folder keeps the device's options and its path, so they can be read without the daemon. A request to the daemon
 * is one message to the socket in the folder, and one message back. Starting a daemon needs only its options, one per
 * line, as arguments.
 *
 * A function's prefix names the file that has it: host/use.c has use_find(). The other functions of these files, for
 * the daemon itself, are in the files' own headers.
 *
 * Threads. The main thread calls these functions. control_ask() and use_find() may be called by any thread.
 */
#ifndef BLOCKDEV_DEVICES_H
#define BLOCKDEV_DEVICES_H

#include "common/config.h"
#include "wire/auth.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- A device's options: daemon/settings.c --------------------------------------------------------------- */

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
	const char *key_file, *log_file, *config_file, *backup, *metrics;
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
/* Writes the options as the folder's file keeps them, one per line. Returns the length. */
size_t settings_write(const struct settings *settings, char *ret_text, size_t size);

/* --- The devices' folders: daemon/runtime.c -------------------------------------------------------------- */

#define RUNTIME_NAME_MAX 32
#define RUNTIME_PATH_MAX 80       /* because a socket address holds 107 bytes */
#define RUNTIME_OPTIONS_MAX 24576 /* size of the file `options` */
#define FRONTEND_PATH_MAX 64

struct frontend_device {
	char path[FRONTEND_PATH_MAX]; /* "/dev/ublkb0" */
	int32_t number;               /* the number of the ublk or loop device: 0 in "/dev/ublkb0" */
};

/* The contents of the file `device`. */
struct runtime_device {
	char frontend[16];
	struct frontend_device device;
};

/*
 * Checks a name: letters, digits, dot, dash and underscore, the first a letter or a digit. Returns 0, or -EINVAL after
 * one logged line.
 */
int runtime_check_name(const char *name);
/* Writes all names, sorted. Returns their number or -errno. Allocates memory. */
int runtime_list(char ret_names[][RUNTIME_NAME_MAX + 1], unsigned max);
/*
 * Writes "/run/farpage/NAME/FILE", or the folder if @file is NULL. Returns 0, or -ENAMETOOLONG if FARPAGE_RUNTIME is
 * too long.
 */
int runtime_path(const char *name, const char *file, char ret_path[RUNTIME_PATH_MAX + 16]);
/* Reads a file as a string. Returns its length, or -errno (-ENOENT, -E2BIG, ...). */
ssize_t runtime_read(const char *name, const char *file, char *ret_text, size_t size);
int runtime_read_device(const char *name, struct runtime_device *ret_device);
/* Returns true if a process of the device's daemon lives. */
bool runtime_is_served(const char *name);

/* --- A device's daemon and users: daemon/control.c, host/use.c ------------------------------------------- */

#define CONTROL_REPLY_MAX 32768
#define USE_TEXT_MAX 160

enum control_verb {
	CONTROL_STATUS,
	CONTROL_DETACH, /* end the device and the daemon; refused while the device is in use */
	CONTROL_LEAVE,  /* end the daemon and leave the device to the next one */
	CONTROL_VERBS
};

/*
 * Sends a request to the daemon of device @name and writes the answer as a string: JSON for CONTROL_STATUS
 * (daemon/status.h), else "ok", or "error: " and the cause. Returns the answer's length or -errno:
 *
 *   -ENOENT, -ECONNREFUSED   there is no daemon
 *   -ETIMEDOUT               no answer came in time; the daemon notices that nobody waits for it
 */
int control_ask(const char *name, enum control_verb verb, unsigned timeout_ms, char ret_reply[CONTROL_REPLY_MAX]);
/*
 * Writes the first use that it finds: "swap space", "mounted on /mnt", "used by dm-0", "open in process 7". @path, such
 * as "/dev/ublkb0", need not exist any more. Returns false if no use is known.
 */
bool use_find(const char *path, char ret_text[USE_TEXT_MAX]);

/* --- Kinds of devices on this machine: frontends.c, ublk/ublk_control.c, host/group.c --------------------- */

#define FRONTENDS_NOTE_MAX 512

struct frontend_ops; /* a front end (frontend.h) */
extern const struct frontend_ops frontend_ublk, frontend_fuse;

/*
 * Returns the first front end that this machine has, or NULL. @ret_why says why the front ends before it cannot be
 * used, or is "". Logs nothing.
 */
const struct frontend_ops *frontends_any(char ret_why[FRONTENDS_NOTE_MAX]);
/* Returns true if devices of the front end of this name outlive their daemon. */
bool frontends_adopts(const char *name);
/*
 * Returns the most data that a device may have in progress, in KiB. @queues and @depth are 0 for the front end's
 * choice.
 */
uint64_t frontends_flight_kib(const struct frontend_ops *ops, unsigned queues, unsigned depth);
/*
 * Returns 1 if this kernel's ublk devices outlive their daemon and repeat unanswered requests, 0 if not. Returns
 * -ENODATA if the kernel does not report its features (before Linux 6.5), or the -errno of opening ublk.
 */
int ublk_control_recovers(void);
/* Returns true if this process can create the control group in which a daemon serves swap space. */
bool group_possible(void);

/* --- The kernel's reserves while a device is swap space: host/watermarks.c ------------------------------- */

enum watermark {
	WATERMARK_MIN,   /* vm.min_free_kbytes */
	WATERMARK_SCALE, /* vm.watermark_scale_factor */
	WATERMARKS
};
const char *watermark_name(enum watermark which); /* "vm.min_free_kbytes" */

struct watermarks {
	uint64_t at[WATERMARKS];
};

/* The record of one device. */
struct watermarks_record {
	struct watermarks found, set; /* the values before the first device, and the values that this device set */
};

#define WATERMARKS_TEXT_MAX 192 /* size of a record's text, and of a line about a record */

/* Returns the values that a machine with this memory needs for a device with up to @flight_kib of requests in
   progress. */
struct watermarks watermarks_needed(uint64_t memory_kib, uint64_t flight_kib);
/* Reads the kernel's values. Returns 0, or -errno if one cannot be read. */
int watermarks_read(struct watermarks *ret_now);
/* Reads the record of a device. Returns 0, -ENOENT if it has none, or another -errno. */
int watermarks_record_read(const char *name, struct watermarks_record *ret_record);
/*
 * Writes the changes like "vm.min_free_kbytes 2727 -> 35519, ...". Returns false, with an empty text, if there are
 * none.
 */
bool watermarks_changes(const struct watermarks_record *record, char ret_text[WATERMARKS_TEXT_MAX]);

#endif
