/*
 * runtime: the folder of a device, /run/farpage/NAME. FARPAGE_RUNTIME names another folder in place of /run/farpage.
 *
 * Theory of operation. The folder holds all that the next daemon needs to know about the device. It is a ramfs of its
 * own. A ramfs is never swapped out, so reading it never needs the device. The file `pid` stays locked (flock) while
 * any process of the daemon lives. If the lock is free, a daemon has left the folder on purpose or has crashed. Folders
 * are created, taken over and removed under the lock of the parent folder.
 *
 * Files in a folder:
 *
 *   pid          process id of the keeper
 *   options      options of the daemon, one per line
 *   device       the device, once it exists
 *   state        the store's state file (client/far.h)
 *   control      the control socket (control.h)
 *   frontend     the front end's folder
 *   watermarks   see watermarks.h
 *
 * The functions here are for the daemon that owns a folder. devices.h has those for any process.
 *
 * Threads. All functions belong to the main thread. They work even if the machine has no free memory; only
 * runtime_list() allocates.
 */
#ifndef BLOCKDEV_RUNTIME_H
#define BLOCKDEV_RUNTIME_H

#include "blockdev/devices.h"

/* A folder that belongs to this process. */
struct runtime {
	char name[RUNTIME_NAME_MAX + 1];
	char folder[RUNTIME_PATH_MAX];
	int lock; /* the locked `pid` */
};

/* Creates the folder. Returns 0, or -errno after one logged line (-EEXIST: the name is in use; -EPERM; ...). */
int runtime_create(const char *name, struct runtime *ret_runtime);
/*
 * Takes over a folder that a daemon has left. The folder may be empty. Waits up to @wait_ms for a daemon that is about
 * to end. Returns 0, or -errno after one logged line (-ENOENT: there is none; -EBUSY: its daemon lives; ...).
 */
int runtime_adopt(const char *name, unsigned wait_ms, struct runtime *ret_runtime);
/* Removes the folder and its contents. */
void runtime_remove(struct runtime *runtime);
/* Leaves the folder to the next daemon. */
void runtime_leave(struct runtime *runtime);

/* Replaces a file of the folder as a whole. Returns 0 or -errno. */
int runtime_write(const struct runtime *runtime, const char *file, const void *data, size_t length);
int runtime_write_device(const struct runtime *runtime, const struct runtime_device *device);

void runtime_unlink(const struct runtime *runtime, const char *file);

/*
 * Takes the lock of the parent folder, for a decision that concerns all devices. The caller closes the descriptor.
 * Before that, it may call only the functions that read and write files. Returns the descriptor or -errno.
 */
int runtime_lock(void);

#endif
