/*
 * devices: functions by which tools handle farpage's block devices on this machine. This is the only header of
 * blockdev/ that other folders may include.
 *
 * Theory of operation. Each device has a daemon, farpage-blockdev, and a folder, /run/farpage/NAME
 * (daemon/runtime.h). The device's options and path are in the folder, so they can be read without the daemon. A
 * request to the daemon is one message to a socket in the folder, and one message back. To start a daemon, a tool
 * passes the options as arguments.
 *
 * A function's prefix is the name of its file: host/use.c has use_find(). The functions for the daemon itself are in
 * those files' own headers.
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
	uint64_t size, rebuild_rate; /* rebuild_rate: bytes per second, or 0 for the default */
	uint64_t scrub_rate;
	struct config_list donors;
	const char *donors_file; /* absolute path of the donors file, or NULL */
	const char *key_file, *log_file, *config_file, *backup, *metrics;
	const char *user; /* the daemon's user, for the donors' operators, or NULL; not an option, and not kept */
	unsigned queues, depth, spin_us, timeout_ms, replicas, grace_s;
	unsigned ready_fd; /* 0 for none */
	bool memory, overcommit, verbose, encrypt;
	/* The device will be swap space, so the daemon runs in real time and raises the kernel's reserves. */
	bool swap;
	bool keep_vm;       /* the daemon does not change the kernel's reserves or its control group */
	bool adopt, remove; /* if both are false, a new device is attached */
	bool version;
	uint8_t key[AUTH_KEY_SIZE];
};

void settings_defaults(struct settings *settings);
/* Writes a device's options as a table for config_read(), without an end mark. Returns their number. */
unsigned settings_table(struct settings *settings, struct config_setting ret_table[SETTINGS_TABLE_MAX]);
/* Checks the settings and reads the key. Returns 0, or -EINVAL after one logged line. */
int settings_check(struct settings *settings);
/* Reads the options of device @name from its folder, unchecked and without the key. The strings are valid until the
   next call. Returns 0, or -EINVAL after one logged line if there is no such device. */
int settings_kept(const char *name, struct settings *ret_settings);
/* Returns how many ms a request may wait for a donor out of reach, at most. */
unsigned settings_timeout_ms(const struct settings *settings);
/* Writes the options one per line, as in the folder's file. Returns the length. */
size_t settings_write(const struct settings *settings, char *ret_text, size_t size);

/* --- The devices' folders: daemon/runtime.c -------------------------------------------------------------- */

#define RUNTIME_NAME_MAX 32
#define RUNTIME_PATH_MAX 80       /* because a socket's path has at most 107 bytes */
#define RUNTIME_OPTIONS_MAX 24576 /* size of the file `options` */
#define FRONTEND_PATH_MAX 64

struct frontend_device {
	char path[FRONTEND_PATH_MAX]; /* "/dev/ublkb0" */
	int32_t number;               /* number of the ublk or loop device: 0 in "/dev/ublkb0" */
};

/* The contents of the file `device`. */
struct runtime_device {
	char frontend[16];
	struct frontend_device device;
};

/* Checks a name: letters, digits, dot, dash and underscore, beginning with a letter or digit. Returns 0, or -EINVAL
   after one logged line. */
int runtime_check_name(const char *name);
/* Writes the names of all devices, sorted. Returns their number or -errno. Allocates memory. */
int runtime_list(char ret_names[][RUNTIME_NAME_MAX + 1], unsigned max);
/* Writes "/run/farpage/NAME/FILE", or the folder if @file is NULL. Returns 0, or -ENAMETOOLONG if FARPAGE_RUNTIME is
   too long. */
int runtime_path(const char *name, const char *file, char ret_path[RUNTIME_PATH_MAX + 16]);
/* Reads a file as a string. Returns its length, or -errno (-ENOENT, -E2BIG, ...). */
ssize_t runtime_read(const char *name, const char *file, char *ret_text, size_t size);
/* Any user may call these two functions. runtime_read_status() reads the status that the daemon has last written, as
   JSON (daemon/status.h). Returns its length, or -errno: -ESTALE if the daemon has written none for some seconds. */
ssize_t runtime_read_status(const char *name, char *ret_text, size_t size);
int runtime_read_device(const char *name, struct runtime_device *ret_device);
/* Returns true if a process of the device's daemon lives. */
bool runtime_is_served(const char *name);

/* --- A device's daemon and users: daemon/control.c, host/use.c ------------------------------------------- */

#define CONTROL_REPLY_MAX 32768
#define USE_TEXT_MAX 160

enum control_verb {
	CONTROL_STATUS,
	CONTROL_DETACH, /* remove the device and end the daemon; refused while the device is in use */
	CONTROL_LEAVE,  /* end the daemon and leave the device for the next daemon */
	CONTROL_VERBS
};

/*
 * Sends a request to the daemon of device @name and writes the answer as a string: JSON for CONTROL_STATUS
 * (daemon/status.h), else "ok", or "error: " and the cause. Returns the answer's length or -errno:
 *
 *   -ENOENT, -ECONNREFUSED   there is no daemon
 *   -ETIMEDOUT               no answer in time; the daemon notices that the caller has timed out
 */
int control_ask(const char *name, enum control_verb verb, unsigned timeout_ms, char ret_reply[CONTROL_REPLY_MAX]);
/* Writes the first use of the device that this function finds: "swap space", "mounted on /mnt", "used by dm-0", "open
   in process 7". The file @path, such as "/dev/ublkb0", may be missing. Returns false if there is no use. */
bool use_find(const char *path, char ret_text[USE_TEXT_MAX]);

/* --- Kinds of devices on this machine: frontends.c, ublk/ublk_control.c, host/group.c --------------------- */

#define FRONTENDS_NOTE_MAX 512

struct frontend_ops; /* see frontend.h */
extern const struct frontend_ops frontend_ublk, frontend_fuse;

/* Returns the first front end that works on this machine, or NULL. Writes why the front ends before that do not work,
   or "". Logs nothing. */
const struct frontend_ops *frontends_any(char ret_why[FRONTENDS_NOTE_MAX]);
/* Returns true if devices of the front end @name outlive their daemon. */
bool frontends_adopts(const char *name);
/* Returns the most data that a device can have in progress, in KiB. @queues and @depth may be 0 for the default. */
uint64_t frontends_flight_kib(const struct frontend_ops *ops, unsigned queues, unsigned depth);
/* Returns 1 if this kernel's ublk devices outlive their daemon and repeat unanswered requests, otherwise 0. Returns
   -ENODATA if the kernel does not say so (before Linux 6.5), or -errno if ublk cannot be opened. */
int ublk_control_recovers(void);
/* Returns true if this process can create a control group for a daemon that serves swap space. */
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
	struct watermarks found, set; /* found: values before the first device existed; set: values for this device */
};

#define WATERMARKS_TEXT_MAX 192 /* size of a record's text, and of a line about a record */

/* Returns the values that a machine with @memory_kib of memory needs, if a device has up to @flight_kib of data in
   progress. */
struct watermarks watermarks_needed(uint64_t memory_kib, uint64_t flight_kib);
/* Reads the kernel's values. Returns 0 or -errno. */
int watermarks_read(struct watermarks *ret_now);
/* Reads the record of a device. Returns 0, -ENOENT if the device has no record, or another -errno. */
int watermarks_record_read(const char *name, struct watermarks_record *ret_record);
/* Writes the changes, such as "vm.min_free_kbytes 2727 -> 35519, ...". Returns false and writes "" if there are
   none. */
bool watermarks_changes(const struct watermarks_record *record, char ret_text[WATERMARKS_TEXT_MAX]);

#endif
