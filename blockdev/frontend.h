/*
 * frontend: how the kernel reaches a disk: through ublk, or through a FUSE file under a loop device.
 *
 * Theory of operation. A front end turns a disk (disk.h) into a block device. It serves each queue of the device with a
 * thread. A ublk device outlives its daemon: it waits, and a new daemon adopts it. The kernel then repeats the requests
 * that were not answered. A FUSE device ends with its daemon.
 *
 * Threads. The daemon's main thread calls all operations. Each returns when it is complete.
 */
#ifndef BLOCKDEV_FRONTEND_H
#define BLOCKDEV_FRONTEND_H

#include "blockdev/devices.h"
#include "blockdev/disk.h"

struct frontend_config {
	const char *name;       /* name of the device, for the names of threads and of the FUSE file */
	const char *folder;     /* an empty folder for this device, in memory */
	unsigned queues, depth; /* depth: requests per queue; 0 for the front end's choice */
	uint32_t request_bytes; /* longest request, or 0 for the front end's choice */
	unsigned spin_us;       /* how long a queue polls before it sleeps, or 0 for never */
	int32_t number;         /* adopt: the number of the device (struct frontend_device) */
	/* start() calls this, unless it is NULL, when the kernel has a device that is not ready yet but outlives this
	   process. */
	void (*made)(void *user, const struct frontend_device *device);
	void *user;
};

struct frontend; /* opaque; begins with the table of operations below */

struct frontend_ops {
	const char *name; /* "ublk", "fuse" */
	bool adopts;      /* the device outlives its daemon */
	/*
	 * Checks whether this machine has the front end. Loads no module. Returns 0, or -errno and one line with the
	 * next step in @ret_why.
	 */
	int (*probe)(char ret_why[256]);
	/* Creates the device, which is ready on return. After a failure there is no device, and one line was logged. */
	int (*start)(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend);
	/* Does the same for a device whose daemon has ended (config->number). Called only if `adopts` is true. */
	int (*adopt)(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend);
	void (*device)(const struct frontend *frontend, struct frontend_device *ret_device);
	/*
	 * Removes the device and frees @frontend. Returns 0, -EBUSY if the device is in use, or another -errno. After
	 * an error nothing has changed.
	 */
	int (*remove)(struct frontend *frontend);
	/* Ends the threads and frees @frontend. The device waits for the next daemon. Called only if `adopts` is
	   true. */
	void (*leave)(struct frontend *frontend);
	/*
	 * Removes the device of a daemon that has ended. Returns 0, -EBUSY, -ENOENT if there is none, or another
	 * -errno.
	 */
	int (*clear)(int32_t number);
};

struct frontend {
	const struct frontend_ops *ops;
};

#endif
