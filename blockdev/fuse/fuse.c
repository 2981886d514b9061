/*
 * fuse: the front end (frontend.h) for kernels without ublk: a FUSE file, and a loop device over it.
 *
 * Theory of operation. To start, this file mounts a FUSE file system that is only a file (fuse_file.h) at FOLDER/fuse.
 * Queues (fuse_queue.h) serve the FUSE file. Then this file opens the FUSE file for direct I/O and attaches a loop
 * device. So only requests of the block device reach the daemon, and pages are not cached twice.
 *
 * To remove, this file first detaches the loop device. Then front_close() unmounts the FUSE file, ends the queues, and
 * frees the memory. After a failed start, front_close() undoes the steps that were taken. MNT_FORCE aborts the FUSE
 * connection, so that the queues' threads end even if another process has the file open.
 *
 * To clear the device of a dead daemon, fuse_clear() asks the kernel for the path of the FUSE file. Nobody else knows
 * the path.
 *
 * Threads. All functions run in the daemon's main thread (frontend.h).
 */
#include "blockdev/frontend.h"
#include "blockdev/fuse/fuse_file.h"
#include "blockdev/fuse/fuse_queue.h"
#include "blockdev/fuse/loop.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FUSE_TYPE "fuse.farpage"
#define FUSE_QUEUES_MAX 16u
#define FUSE_QUEUES 4u                  /* default: half the number of processors, but at most this */
#define FUSE_REQUESTS 64u               /* default, over all queues */
#define FUSE_REQUEST_BYTES (128u << 10) /* default */
#define FUSE_REQUEST_MIN (16u << 10)
#define FUSE_REQUEST_MAX (1u << 20)

struct fuse_front {
	struct frontend base;
	struct fuse_file file;
	char path[PATH_MAX];    /* path of the FUSE file */
	char backing[PATH_MAX]; /* the same without symbolic links, as the kernel has it */
	bool is_mounted;
	int32_t number; /* number of the loop device */
	unsigned queue_count;
	struct fuse_queue *queues[FUSE_QUEUES_MAX];
};

static unsigned fuse_limit(unsigned value, unsigned least, unsigned most)
{
	return value < least ? least : value > most ? most : value;
}

/* --- Probing ------------------------------------------------------------------------------------------------- */

static int fuse_probe(char ret_why[256])
{
	static const struct {
		const char *path, *what, *module;
	} needs[] = {{"/dev/fuse", "FUSE", "fuse"}, {"/dev/loop-control", "loop devices", "loop"}};

	if (geteuid() != 0) {
		snprintf(ret_why, 256,
			 "a block device by FUSE needs root: mounting and loop devices are its own; use sudo");
		return -EPERM;
	}
	for (unsigned i = 0; i < sizeof needs / sizeof needs[0]; i++) {
		if (access(needs[i].path, R_OK | W_OK) == 0)
			continue;
		snprintf(ret_why, 256, "this machine has no %s (%s: %s); 'modprobe %s'", needs[i].what, needs[i].path,
			 strerror(errno), needs[i].module);
		return errno == ENOENT ? -ENODEV : -errno;
	}
	return 0;
}

/* --- The file ------------------------------------------------------------------------------------------------ */

/* Creates an empty file and mounts the file system over it. @device is an open /dev/fuse. Mounting makes it a
   descriptor of the FUSE connection. Logs the reason of a failure. */
static int front_mount(struct fuse_front *front, int device)
{
	int file = open(front->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), status;
	char options[128];

	if (file < 0) {
		status = -errno;
		log_error("cannot make the file %s: %s", front->path, strerror(-status));
		return status;
	}
	close(file);
	snprintf(options, sizeof options, "fd=%d,rootmode=%o,user_id=%u,group_id=%u,max_read=%u", device, S_IFREG,
		 geteuid(), getegid(), front->file.request_bytes);
	if (mount("farpage", front->path, FUSE_TYPE, MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME, options) < 0) {
		status = -errno;
		log_error("cannot mount a FUSE file system on %s: %s; 'modprobe fuse', and be root", front->path,
			  strerror(-status));
		unlink(front->path);
		return status;
	}
	front->is_mounted = true;
	return 0;
}

/* Undoes front_mount(). Logs the reason of a failure. */
static int file_unmount(const char *path)
{
	/* MNT_FORCE aborts the connection: the queues' threads end, and processes that have the file open get
	   errors, even in another mount namespace. */
	if (umount2(path, MNT_FORCE | MNT_DETACH) < 0) {
		int error = -errno;

		log_error("cannot unmount %s: %s", path, strerror(-error));
		return error;
	}
	unlink(path);
	return 0;
}

/* Starts queues that serve the connection of @device. Logs the reason of a failure. */
static int front_serve(struct fuse_front *front, int device, const struct frontend_config *config)
{
	struct fuse_file *file = &front->file;
	unsigned processors = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	unsigned queues = fuse_limit(config->queues ? config->queues : fuse_limit(processors / 2, 1, FUSE_QUEUES), 1,
				     FUSE_QUEUES_MAX);
	unsigned depth = fuse_limit(config->depth ? config->depth : FUSE_REQUESTS / queues, 1, FUSE_QUEUE_DEPTH_MAX);
	struct fuse_queue_config queue = {
	    .name = config->name, .device = device, .depth = depth, .spin_us = config->spin_us};
	int status;

	file->depth = queues * depth;
	status = fuse_file_greet(file, device);
	if (status < 0) {
		log_error("cannot talk FUSE with this kernel: %s", strerror(-status));
		return status;
	}
	for (unsigned i = 0; i < queues && status == 0; i++) {
		queue.index = i;
		status = fuse_queue_start(file, &queue, &front->queues[i]);
		front->queue_count += status == 0;
	}
	if (status < 0)
		log_error("cannot start %u queues of %u requests of up to %u bytes: %s%s", queues, depth,
			  file->request_bytes, strerror(-status),
			  status == -EMFILE ? "; raise the limit with `ulimit -n 1024`" : "");
	return status;
}

static int front_attach(struct fuse_front *front)
{
	int file = open(front->path, O_RDWR | O_DIRECT | O_CLOEXEC), status;
	struct stat stat;

	/* fstat() makes the kernel ask the daemon for the file's size. The loop driver needs the size, but does not ask
	   for it. */
	if (file < 0 || fstat(file, &stat) < 0) {
		status = -errno;
		log_error("cannot open %s, which this process serves: %s", front->path, strerror(-status));
	} else {
		status =
		    loop_attach(file, front->path, STORE_PAGE, &front->number, front->backing, sizeof front->backing);
	}
	if (file >= 0)
		close(file);
	return status;
}

/* --- Removing ------------------------------------------------------------------------------------------------ */

/* Ends everything except the loop device, and frees @front. There must be no loop device any more. */
static void front_close(struct fuse_front *front)
{
	if (front->is_mounted)
		file_unmount(front->path);
	for (unsigned i = 0; i < front->queue_count; i++)
		fuse_queue_end(front->queues[i]);
	free(front);
}

static int fuse_remove(struct frontend *frontend)
{
	struct fuse_front *front = (struct fuse_front *)frontend;
	int status = loop_detach(front->number, front->backing);

	if (status < 0 && status != -ENOENT) /* somebody else has detached it */
		return status;
	front_close(front);
	return 0;
}

/* --- Starting ------------------------------------------------------------------------------------------------ */

static int front_bring_up(struct fuse_front *front, const struct frontend_config *config)
{
	int device = open("/dev/fuse", O_RDWR | O_CLOEXEC), status;

	if (device < 0) {
		status = -errno;
		log_error("cannot open /dev/fuse: %s; 'modprobe fuse', and be root", strerror(-status));
		return status;
	}
	status = front_mount(front, device);
	if (status == 0)
		status = front_serve(front, device, config);
	close(device); /* the queues have their own descriptors */
	if (status == 0)
		status = front_attach(front);
	return status;
}

static int fuse_start(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend)
{
	struct fuse_front *front = calloc(1, sizeof *front);
	uint32_t bytes = config->request_bytes ? config->request_bytes : FUSE_REQUEST_BYTES;
	int status;

	if (!front)
		return -ENOMEM;
	front->base.ops = &frontend_fuse;
	front->file = (struct fuse_file){.disk = disk};
	front->file.request_bytes = fuse_limit(bytes / STORE_PAGE * STORE_PAGE, FUSE_REQUEST_MIN, FUSE_REQUEST_MAX);
	if (snprintf(front->path, sizeof front->path, "%s/fuse", config->folder) < PATH_MAX) {
		status = front_bring_up(front, config);
	} else {
		log_error("the path of the folder %.64s... is too long", config->folder);
		status = -ENAMETOOLONG;
	}
	if (status < 0) {
		front_close(front); /* no loop device: attaching it is the last step */
		return status;
	}
	log_info("%s is /dev/loop%d, by FUSE and a loop device", config->name, (int)front->number);
	*ret_frontend = &front->base;
	return 0;
}

static void fuse_device(const struct frontend *frontend, struct frontend_device *ret_device)
{
	const struct fuse_front *front = (const struct fuse_front *)frontend;

	_Static_assert(FRONTEND_PATH_MAX >= LOOP_PATH_MAX, "a loop device's path fits");
	loop_path(front->number, ret_device->path);
	ret_device->number = front->number;
}

/* --- Remains of a dead daemon -------------------------------------------------------------------------------- */

static bool fuse_is_mounted(const char *path)
{
	char text[2 * PATH_MAX];
	struct mntent entry;
	bool found = false;
	FILE *mounts = setmntent("/proc/self/mounts", "re");

	if (!mounts)
		return false;
	while (!found && getmntent_r(mounts, &entry, text, sizeof text))
		found = strcmp(entry.mnt_type, FUSE_TYPE) == 0 && strcmp(entry.mnt_dir, path) == 0;
	endmntent(mounts);
	return found;
}

static int fuse_clear(int32_t number)
{
	char path[PATH_MAX];
	int status = loop_backing(number, path, sizeof path);

	if (status == 0 && !fuse_is_mounted(path))
		status = -ENOENT;
	if (status == 0)
		status = loop_detach(number, path);
	return status < 0 ? status : file_unmount(path);
}

const struct frontend_ops frontend_fuse = {
    .name = "fuse",
    .adopts = false,
    .probe = fuse_probe,
    .start = fuse_start,
    .device = fuse_device,
    .remove = fuse_remove,
    .clear = fuse_clear,
};
