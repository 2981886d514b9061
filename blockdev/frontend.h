/*
 * frontend: how the kernel reaches a disk: through ublk, or through a FUSE file under a loop device.
 *
 * Theory of operation. A front end turns a disk (disk.h) into a block device, and serves each queue of the device
 * with a thread. A ublk device outlives its daemon: it waits until a new daemon adopts it, and the kernel then
 * repeats the requests that were not answered. A FUSE device ends with its daemon.
 *
 * Threads. The daemon's main thread calls all operations. Each returns when it is complete.
 */
#ifndef BLOCKDEV_FRONTEND_H
#define BLOCKDEV_FRONTEND_H

#include "blockdev/devices.h"
#include "blockdev/disk.h"

struct frontend_config {
	const char *name;       /* the device's name, for threads and the FUSE file */
	const char *folder;     /* an empty folder in memory, for this device */
	unsigned queues, depth; /* depth: requests per queue; 0 for the defaults */
	uint32_t request_bytes; /* longest request, or 0 for the default */
	unsigned spin_us;       /* how long a queue polls before it sleeps, or 0 */
	int32_t number;         /* for adopt(): number of the device */
	/* NULL, or called by start() when the kernel has made the device, which is not ready yet. From then on the
	   device outlives this process. */
	void (*made)(void *user, const struct frontend_device *device);
	void *user;
};

struct frontend;

struct frontend_ops {
	const char *name;
	bool adopts; /* the device outlives its daemon */
	/* Checks whether the front end works on this machine. Loads no module. Returns 0, or -errno with a reason
	   and the next step in @ret_why. */
	int (*probe)(char ret_why[256]);
	/* Creates the device. Returns 0 when it is ready, or -errno after one logged line; then there is no
	   device. */
	int (*start)(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend);
	/* Does the same as start() with an existing device, config->number, whose daemon has ended. Only if `adopts` is
	   true. */
	int (*adopt)(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend);
	void (*device)(const struct frontend *frontend, struct frontend_device *ret_device);
	/* Removes the device and frees @frontend. Returns 0, -EBUSY if the device is in use, or another -errno.
	   After an error nothing has changed. */
	int (*remove)(struct frontend *frontend);
	/* Ends the threads and frees @frontend. The device waits for the next daemon. Only if `adopts` is true. */
	void (*leave)(struct frontend *frontend);
	/* Removes a device whose daemon has ended. Returns 0, -EBUSY if the device is in use, -ENOENT if there is no
	   such device, or another -errno. */
	int (*clear)(int32_t number);
};

struct frontend {
	const struct frontend_ops *ops;
};

#endif
