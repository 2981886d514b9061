/*
 * runtime: the folder of a device, /run/farpage/NAME (FARPAGE_RUNTIME names another in place of /run/farpage).
 *
 * Theory of operation. All that is known of a device, and all that the next daemon needs to go on with it, is in its
 * folder, which is a ramfs of its own: never swapped out, so that reading it never needs the device. The file `pid` is
 * locked (flock) as long as any process of the daemon lives, so a folder whose lock is free was left by a crash or on
 * purpose. Folders are made, taken over and removed under the lock of the folder above.
 *
 * In a folder: `pid` (of the keeper), `options` (how the daemon was started, an option a line), `device` (once there is
 * one), `state` (the store's: client/far.h), `control` (control.h), `frontend` (the front end's own folder),
 * `watermarks` (watermarks.h).
 *
 * Threads: the main thread's. Everything but runtime_list() may be used where there is no memory to be had: nothing
 * here allocates.
 */
#ifndef BLOCKDEV_RUNTIME_H
#define BLOCKDEV_RUNTIME_H

#include "blockdev/frontend.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RUNTIME_NAME_MAX 32
#define RUNTIME_PATH_MAX 80 /* sockets' addresses take 107 bytes */
#define RUNTIME_OPTIONS_MAX 24576

/* A folder that is this process's. */
struct runtime {
	char name[RUNTIME_NAME_MAX + 1];
	char folder[RUNTIME_PATH_MAX];
	int lock; /* the locked `pid` */
};

/* What the file `device` says. */
struct runtime_device {
	char frontend[16];
	struct frontend_device device;
};

/* Letters, digits, dot, dash and underscore, the first a letter or a digit. -EINVAL after one logged line. */
int runtime_check_name(const char *name);
/* "/run/farpage/NAME/FILE"; @file NULL: the folder. -ENAMETOOLONG: FARPAGE_RUNTIME is too long. */
int runtime_path(const char *name, const char *file, char ret_path[RUNTIME_PATH_MAX + 16]);

/* Makes the folder. -EEXIST: the name is in use; -EPERM; after one logged line. */
int runtime_create(const char *name, struct runtime *ret_runtime);
/* Takes over a folder that was left (there may be nothing in it), waiting up to @wait_ms for a daemon that is about to
   end. -ENOENT: there is none; -EBUSY: its daemon lives; after one logged line. */
int runtime_adopt(const char *name, unsigned wait_ms, struct runtime *ret_runtime);
/* Removes the folder and all in it. */
void runtime_remove(struct runtime *runtime);
/* Leaves the folder to the next daemon. */
void runtime_leave(struct runtime *runtime);

/* Replaces a file of the folder as a whole. */
int runtime_write(const struct runtime *runtime, const char *file, const void *data, size_t length);
int runtime_write_device(const struct runtime *runtime, const struct runtime_device *device);

void runtime_unlink(const struct runtime *runtime, const char *file);

/* Any process: a file as a string; its length, or -ENOENT, -E2BIG, .... */
ssize_t runtime_read(const char *name, const char *file, char *ret_text, size_t size);
int runtime_read_device(const char *name, struct runtime_device *ret_device);
/* Whether a process of its daemon lives. */
bool runtime_is_served(const char *name);
/* The lock under which folders come and go, to be closed; for what is decided by all of them together. None of the
   functions above but reading and writing files may be called with it. -errno. */
int runtime_lock(void);
/* All names, sorted; how many, or -errno. */
int runtime_list(char ret_names[][RUNTIME_NAME_MAX + 1], unsigned max);

#endif
