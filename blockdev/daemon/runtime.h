/*
 * runtime: the folder of a device, /run/farpage/NAME. FARPAGE_RUNTIME names another folder in place of /run/farpage.
 *
 * Theory of operation. The folder has everything that the next daemon needs to know about the device. The folder is a
 * ramfs mount of its own. A ramfs is never swapped out, so reading the folder never needs the device.
 *
 * The processes of the daemon hold a lock (flock) on the file `pid` as long as they live. If nobody holds the lock, the
 * daemon has left the device or has crashed. Daemons create, adopt and remove folders under a lock of the parent
 * folder.
 *
 * Files in a folder:
 *
 *   pid          process id of the keeper
 *   options      options of the daemon, one per line
 *   device       the device, once it exists (public)
 *   state        the store's state file (client/far.h)
 *   control      the control socket (control.h)
 *   frontend     the front end's folder
 *   watermarks   see watermarks.h
 *   status       the daemon's status (status.h), renewed every second (public)
 *
 * All users can read the public files. Only root can read the other files, and use the socket.
 *
 * The functions here are for the daemon that owns a folder. devices.h has the functions for any process.
 *
 * Threads. The main thread calls all functions. They work even if the machine has no free memory. Only runtime_list()
 * allocates.
 */
#ifndef BLOCKDEV_RUNTIME_H
#define BLOCKDEV_RUNTIME_H

#include "blockdev/devices.h"

struct runtime {
	char name[RUNTIME_NAME_MAX + 1];
	char folder[RUNTIME_PATH_MAX];
	int lock; /* descriptor of the locked `pid` */
};

/* Creates the folder. Returns 0, or -errno after one logged line: -EEXIST if the name is in use, -EPERM, and so
   on. */
int runtime_create(const char *name, struct runtime *ret_runtime);
/* Adopts a folder whose daemon has ended. The folder may be empty. Waits up to @wait_ms for a daemon that is about
   to end. Returns 0, or -errno after one logged line: -ENOENT if there is no such folder, -EBUSY if its daemon
   lives, and so on. */
int runtime_adopt(const char *name, unsigned wait_ms, struct runtime *ret_runtime);
void runtime_remove(struct runtime *runtime);
/* Unlocks the folder and leaves it for the next daemon. */
void runtime_leave(struct runtime *runtime);

/* Replaces a file of the folder atomically. Returns 0 or -errno. */
int runtime_write(const struct runtime *runtime, const char *file, const void *data, size_t length);
int runtime_write_device(const struct runtime *runtime, const struct runtime_device *device);

/* Opens the file `status` for runtime_publish(), and creates it if needed. Returns a descriptor that the caller closes,
   or -errno. */
int runtime_public(const struct runtime *runtime);
/* Replaces the text of the file `status`. Does nothing if @public is negative. runtime_read_status() recognises a text
   that it has read during the replacement. */
void runtime_publish(int public, const char *text);

void runtime_unlink(const struct runtime *runtime, const char *file);

/* Locks the parent folder, for a decision that concerns all devices. While the folder is locked, the caller may call
   only the functions that read and write files. Returns a descriptor, or -errno. Closing the descriptor unlocks the
   folder. */
int runtime_lock(void);

#endif
