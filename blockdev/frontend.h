/*
 * frontend: how the kernel gets to a disk: by ublk, or by a file of FUSE under a loop device.
 *
 * Theory of operation. A front end makes a block device out of a disk (disk.h) and serves it with threads of its own,
 * one for each queue of the device. ublk's devices outlive their daemon: they wait, and a daemon started anew goes on
 * with them (`adopt`), the kernel repeating what was not answered. FUSE has nothing of the kind.
 *
 * Threads: all operations are the daemon's main thread's; they return when what they say is done.
 */
#ifndef BLOCKDEV_FRONTEND_H
#define BLOCKDEV_FRONTEND_H

#include "blockdev/disk.h"

#define FRONTEND_PATH_MAX 64

struct frontend_device {
	char path[FRONTEND_PATH_MAX]; /* "/dev/ublkb0" */
	int32_t number;               /* 0 of it; a loop device's */
};

struct frontend_config {
	const char *name;       /* of the device, for the names of threads and of the FUSE file */
	const char *folder;     /* an empty folder of the device's own, in memory */
	unsigned queues, depth; /* 0: the front end's choice; requests of each queue */
	uint32_t request_bytes; /* the longest request; 0: the front end's choice */
	unsigned spin_us;       /* how long a queue polls before it sleeps; 0: never */
	int32_t number;         /* adopt: the device's, of frontend_device */
	/* start: the kernel has a device that would outlive this process, which is not ready yet; or NULL. */
	void (*made)(void *user, const struct frontend_device *device);
	void *user;
};

struct frontend; /* opaque; begins with the table of operations below */

struct frontend_ops {
	const char *name; /* "ublk", "fuse" */
	bool adopts;      /* the device outlives its daemon */
	/* Whether this machine has it. -errno, and @ret_why (256 bytes): one line with the next step. Loads no module.
	 */
	int (*probe)(char ret_why[256]);
	/* The device can be used when it returns. After a failure nothing is left. Logs one line. */
	int (*start)(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend);
	/* The same for a device whose daemon has ended (config->number). */
	int (*adopt)(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend);
	void (*device)(const struct frontend *frontend, struct frontend_device *ret_device);
	/* Removes the device and frees @frontend. -EBUSY when it is in use; after any error nothing has changed. */
	int (*remove)(struct frontend *frontend);
	/* Ends the threads and frees @frontend; the device waits for the next daemon. Only where `adopts`. */
	void (*leave)(struct frontend *frontend);
	/* Removes the device of a daemon that has ended. -EBUSY; -ENOENT: there is none. */
	int (*clear)(int32_t number);
};

struct frontend {
	const struct frontend_ops *ops;
};

extern const struct frontend_ops frontend_ublk, frontend_fuse;

#endif
