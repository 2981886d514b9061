/*
 * fuse: the front end for kernels without ublk (frontend.h): a FUSE file, and a loop device over it.
 *
 * Theory of operation. A file system with one file (fuse_file.h) is mounted at FOLDER/fuse. Queues (fuse_queue.h) serve
 * it. The loop driver gets that file, opened for direct I/O. So only the block device's requests reach the daemon, and
 * nothing is cached twice. Only the kernel records which file a loop device is over. fuse_clear() gets from it the
 * folder that a dead daemon has left.
 *
 * fuse_remove() detaches the loop device first. Then front_close() unmounts, joins the threads, and frees the memory
 * and the folder. It does the same after a failed start, for the steps already taken. Unmounting with MNT_FORCE aborts
 * the connection, which ends the queues' threads even if another process has the file open.
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
#include <linux/fuse.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FUSE_TYPE "fuse.farpage"
#define FUSE_QUEUES_MAX 16u
#define FUSE_QUEUES 4u    /* maximum of the default, which is half the number of processors */
#define FUSE_REQUESTS 64u /* default for all queues together */
#define FUSE_REQUEST_BYTES (128u << 10)
/* The kernel's first message is far shorter, but the kernel refuses reads of less than 8 KiB. */
#define FUSE_INIT_MAX 16384u

struct fuse_front {
	struct frontend base;
	struct fuse_file file;
	char name[NAME_MAX + 1];
	char mountpoint[PATH_MAX], backing[PATH_MAX];
	bool has_folder, is_mounted;
	int32_t number; /* number of the loop device */
	unsigned queue_count;
	struct fuse_queue queues[FUSE_QUEUES_MAX];
};

static const struct frontend_ops *const fuse_ops = &frontend_fuse;

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

/* --- The file system ----------------------------------------------------------------------------------------- */

/*
 * Makes the folder and mounts the file system on it. @device is an open /dev/fuse, which becomes the connection's first
 * descriptor. Returns 0, or -errno after logging the reason.
 */
static int front_mount(struct fuse_front *front, int device)
{
	char options[128];

	if (mkdir(front->mountpoint, 0700) < 0) {
		int error = -errno;

		log_error("cannot make the folder %s: %s", front->mountpoint, strerror(-error));
		return error;
	}
	front->has_folder = true;
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%u,group_id=%u,max_read=%u", device, geteuid(),
		 getegid(), front->file.request_bytes);
	if (mount("farpage", front->mountpoint, FUSE_TYPE, MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME, options) <
	    0) {
		int error = -errno;

		log_error("cannot mount a FUSE file system on %s: %s; 'modprobe fuse', and be root", front->mountpoint,
			  strerror(-error));
		return error;
	}
	front->is_mounted = true;
	return 0;
}

/*
 * Reads the kernel's first message, which names its capabilities, and passes it to the session of each queue. Returns
 * 0, or -errno after logging the reason.
 */
static int front_connect(struct fuse_front *front, int device)
{
	char message[FUSE_INIT_MAX];
	ssize_t size = read(device, message, sizeof message);
	int status = size < 0 ? -errno : 0;

	if (status == 0 && ((size_t)size < sizeof(struct fuse_in_header) ||
			    ((const struct fuse_in_header *)(const void *)message)->opcode != FUSE_INIT))
		status = -EPROTO;
	for (unsigned i = 0; i < front->queue_count && status == 0; i++)
		status = fuse_queue_connect(&front->queues[i], device, message, (size_t)size);
	if (status < 0)
		log_error("cannot talk FUSE with this kernel: %s", strerror(-status));
	return status;
}

static int front_open_queues(struct fuse_front *front, const struct frontend_config *config)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned queues = config->queues ? config->queues : fuse_limit((unsigned)processors / 2, 1, FUSE_QUEUES);
	unsigned depth;
	int status = 0;

	queues = fuse_limit(queues, 1, FUSE_QUEUES_MAX);
	depth = fuse_limit(config->depth ? config->depth : FUSE_REQUESTS / queues, 1, FUSE_DEPTH_MAX);
	front->file.depth = queues * depth;
	for (; front->queue_count < queues && status == 0; front->queue_count++)
		status = fuse_queue_open(&front->queues[front->queue_count], &front->file, front->queue_count, depth,
					 config->spin_us);
	if (status < 0)
		log_error("no memory for the requests of %u queues, %u each, of up to %u bytes: %s", queues, depth,
			  front->file.request_bytes, strerror(-status));
	return status;
}

static int front_serve(struct fuse_front *front)
{
	int status = 0;

	for (unsigned i = 0; i < front->queue_count && status == 0; i++)
		status = fuse_queue_start(&front->queues[i], front->name);
	if (status < 0)
		log_error("cannot start serving requests: %s%s", strerror(-status),
			  status == -EMFILE ? "; raise the limit with `ulimit -n 1024`" : "");
	return status;
}

static int front_attach(struct fuse_front *front)
{
	char path[PATH_MAX + NAME_MAX + 2];
	int file, status;

	snprintf(path, sizeof path, "%s/%s", front->mountpoint, front->name);
	file = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (file < 0) {
		status = -errno;
		log_error("cannot open %s, which this process serves: %s", path, strerror(-status));
		return status;
	}
	status = loop_attach(file, path, STORE_PAGE, &front->number, front->backing, sizeof front->backing);
	close(file);
	return status;
}

/* --- Removing ------------------------------------------------------------------------------------------------ */

/* Ends everything but the loop device, and frees @front. The loop device was detached, or was never made. */
static void front_close(struct fuse_front *front)
{
	/*
	 * MNT_FORCE aborts the connection. So the threads end, and processes that have the file open get errors. This
	 * also holds if another mount namespace has a copy of the mount.
	 */
	if (front->is_mounted && umount2(front->mountpoint, MNT_FORCE | MNT_DETACH) < 0)
		log_error("cannot unmount %s: %s", front->mountpoint, strerror(errno));
	for (unsigned i = 0; i < front->queue_count; i++)
		fuse_queue_join(&front->queues[i]);
	for (unsigned i = 0; i < front->queue_count; i++)
		fuse_queue_close(&front->queues[i]);
	if (front->has_folder)
		rmdir(front->mountpoint);
	free(front);
}

static int fuse_remove(struct frontend *frontend)
{
	struct fuse_front *front = (struct fuse_front *)frontend;
	int status = loop_detach(front->number, front->backing);

	if (status < 0 && status != -ENOENT) /* -ENOENT: somebody else detached it */
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
	status = front_open_queues(front, config);
	if (status == 0)
		status = front_mount(front, device);
	if (status == 0)
		status = front_connect(front, device);
	close(device); /* the queues have descriptors of their own */
	if (status == 0)
		status = front_serve(front);
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
	front->base.ops = fuse_ops;
	snprintf(front->name, sizeof front->name, "%s", config->name);
	front->file = (struct fuse_file){.disk = disk, .name = front->name};
	front->file.request_bytes = fuse_limit(bytes / STORE_PAGE * STORE_PAGE, FUSE_REQUEST_MIN, FUSE_REQUEST_MAX);
	if (snprintf(front->mountpoint, sizeof front->mountpoint, "%s/fuse", config->folder) < PATH_MAX) {
		status = front_bring_up(front, config);
	} else {
		log_error("the path of the folder %.64s... is too long", config->folder);
		status = -ENAMETOOLONG;
	}
	if (status < 0) {
		front_close(front); /* attaching the loop device is the last step, so there is none */
		return status;
	}
	log_info("%s is /dev/loop%d, by FUSE and a loop device", front->name, (int)front->number);
	*ret_frontend = &front->base;
	return 0;
}

static int fuse_adopt(const struct frontend_config *config, struct disk *disk, struct frontend **ret_frontend)
{
	(void)config;
	(void)disk;
	(void)ret_frontend;
	log_error("a device by FUSE ends with its daemon; detach it");
	return -EOPNOTSUPP;
}

static void fuse_device(const struct frontend *frontend, struct frontend_device *ret_device)
{
	const struct fuse_front *front = (const struct fuse_front *)frontend;

	_Static_assert(FRONTEND_PATH_MAX >= LOOP_PATH_MAX, "a loop device's path fits");
	loop_path(front->number, ret_device->path);
	ret_device->number = front->number;
}

/* Does nothing. A FUSE device ends with its daemon, so no daemon could adopt it. */
static void fuse_leave(struct frontend *frontend)
{
	(void)frontend;
}

/* --- Remains of a dead daemon -------------------------------------------------------------------------------- */

/* Returns true if a file system of farpage is mounted at @folder. */
static bool fuse_is_mounted(const char *folder)
{
	char text[2 * PATH_MAX];
	struct mntent entry;
	bool found = false;
	FILE *mounts = setmntent("/proc/self/mounts", "re");

	if (!mounts)
		return false;
	while (!found && getmntent_r(mounts, &entry, text, sizeof text))
		found = strcmp(entry.mnt_type, FUSE_TYPE) == 0 && strcmp(entry.mnt_dir, folder) == 0;
	endmntent(mounts);
	return found;
}

static int fuse_clear(int32_t number)
{
	char backing[PATH_MAX], folder[PATH_MAX];
	char *slash;
	int status = loop_backing(number, backing, sizeof backing);

	if (status < 0)
		return status;
	memcpy(folder, backing, sizeof folder);
	slash = strrchr(folder, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	if (!fuse_is_mounted(folder))
		return -ENOENT;
	status = loop_detach(number, backing);
	if (status < 0)
		return status;
	if (umount2(folder, MNT_FORCE | MNT_DETACH) < 0) {
		status = -errno;
		log_error("cannot unmount %s: %s", folder, strerror(-status));
		return status;
	}
	rmdir(folder);
	return 0;
}

const struct frontend_ops frontend_fuse = {
    .name = "fuse",
    .adopts = false,
    .probe = fuse_probe,
    .start = fuse_start,
    .adopt = fuse_adopt,
    .device = fuse_device,
    .remove = fuse_remove,
    .leave = fuse_leave,
    .clear = fuse_clear,
};
