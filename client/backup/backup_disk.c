/* backup_disk: see backup_disk.h. */
#include "client/backup/backup_disk.h"

#include "client/store.h"
#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* The mark after a file's pages: this text, then the id of the machine's boot. */
#define DISK_MARK "farpage backup 1\n"
#define DISK_MARK_SIZE 64
/* How long an adopting process waits for the last writes of a killed process, and how often it tries the file's
   lock. */
#define HELD_NS UINT64_C(30000000000)
#define HELD_LOOK_NS UINT64_C(10000000)

struct backup_disk {
	char *path;
	int fd, event;
	bool named; /* the file has a name, which backup_disk_close() removes */
	bool ring_open;
	struct io_uring ring;
};

/* --- Checks for both kinds ------------------------------------------------------------------------------------- */

/* Returns true if @device is a ublk device, which counts as far memory. @device is the backup or holds its file. */
static bool device_is_far(dev_t device)
{
	char path[64], target[256];
	const char *name;
	ssize_t length;

	format_text(path, sizeof path, "/sys/dev/block/%u:%u", major(device), minor(device));
	length = readlink(path, target, sizeof target - 1);
	if (length <= 0)
		return false;
	target[length] = '\0';
	name = strrchr(target, '/');
	return name && strncmp(name + 1, "ublkb", 5) == 0;
}

static int complain(const struct backup_disk *disk, int error, const char *text)
{
	log_error("the backup %s %s", disk->path, text);
	return error;
}

static int cannot(const struct backup_disk *disk, const char *what)
{
	int error = -errno;

	log_error("cannot %s the backup %s: %s", what, disk->path, format_errno(error));
	return error;
}

/* Called if the disk is in use. After a process was killed, its file stays open and locked until the kernel has
   completed the process's writes. So if @adopt is true, waits HELD_LOOK_NS and returns true. *@since is when the wait
   began, or 0 at first. Returns false if @adopt is false, or after HELD_NS. */
static bool held_for_now(const struct backup_disk *disk, bool adopt, uint64_t *since)
{
	const struct timespec look = {.tv_nsec = HELD_LOOK_NS};
	uint64_t now = clock_now();

	if (!adopt || (*since && now - *since > HELD_NS))
		return false;
	if (!*since)
		log_info("waiting for the last writes to the backup %s", disk->path);
	*since = *since ? *since : now;
	nanosleep(&look, NULL);
	return true;
}

static int disk_lock(const struct backup_disk *disk, bool adopt)
{
	uint64_t since = 0;

	while (flock(disk->fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return cannot(disk, "lock");
		if (!held_for_now(disk, adopt, &since))
			return complain(disk, -EBUSY, "is in use by another store: name another file");
	}
	return 0;
}

/* --- A block device --------------------------------------------------------------------------------------------- */

static int device_check(const struct backup_disk *disk, const struct stat *status, uint64_t bytes)
{
	char here[SIZE_TEXT_MAX], wanted[SIZE_TEXT_MAX];
	uint64_t size;

	if (device_is_far(status->st_rdev))
		return complain(disk, -EINVAL, "is a device of far memory: name a local disk");
	if (ioctl(disk->fd, BLKGETSIZE64, &size) < 0)
		return cannot(disk, "measure");
	if (size >= bytes)
		return 0;
	log_error("the backup %s has %s, and the store %s: name a larger device, or give a smaller size", disk->path,
		  size_format(size, here), size_format(bytes, wanted));
	return -ENOSPC;
}

static int device_open(struct backup_disk *disk, uint64_t bytes, bool adopt)
{
	struct stat status;
	uint64_t since = 0;
	int error;

	do {
		disk->fd = open(disk->path, O_RDWR | O_CLOEXEC | O_EXCL | O_DIRECT);
	} while (disk->fd < 0 && errno == EBUSY && held_for_now(disk, adopt, &since));
	if (disk->fd < 0 && errno == EBUSY)
		return complain(disk, -EBUSY, "is in use (mounted, or as swap): name one that is not");
	if (disk->fd < 0 || fstat(disk->fd, &status) < 0)
		return cannot(disk, "open");
	error = disk_lock(disk, adopt);
	return error < 0 ? error : device_check(disk, &status, bytes);
}

/* --- A file ---------------------------------------------------------------------------------------------------- */

static void mark_make(char mark[DISK_MARK_SIZE])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	memset(mark, 0, DISK_MARK_SIZE);
	strcpy(mark, DISK_MARK);
	if (fd < 0)
		return;
	if (read(fd, mark + strlen(mark), DISK_MARK_SIZE - 1 - strlen(mark)) < 0)
		log_debug("the id of this boot is unknown");
	close(fd);
}

/* Returns 0 if the file may be used, or logs one line and returns -EEXIST. The file may be used if it is empty, or if
   it is a backup that a killed process has left. After a reboot such a backup is worthless, because its store's
   memory is gone. In the same boot its store may still be adopted, so @adopt must be true. */
static int file_check(const struct backup_disk *disk, const struct stat *status, bool adopt)
{
	char mark[DISK_MARK_SIZE] = {0}, ours[DISK_MARK_SIZE];

	if (!status->st_size)
		return 0;
	mark_make(ours);
	if (status->st_size % STORE_PAGE || status->st_size <= (off_t)STORE_PAGE ||
	    pread(disk->fd, mark, sizeof mark, status->st_size - (off_t)STORE_PAGE) != sizeof mark ||
	    strncmp(mark, DISK_MARK, strlen(DISK_MARK)) != 0)
		return complain(disk, -EEXIST, "exists and is not a backup: remove it, or name another file");
	if (!adopt && memcmp(mark, ours, sizeof mark) == 0)
		return complain(disk, -EEXIST,
				"belongs to a store whose process was killed: adopt that store, remove the file, or "
				"name another one");
	return 0;
}

/* Checks that the file system has @bytes free, which is as much as donors lend. */
static int file_room(const struct backup_disk *disk, uint64_t bytes)
{
	char here[SIZE_TEXT_MAX], wanted[SIZE_TEXT_MAX];
	struct statvfs room;
	struct statfs kind;
	uint64_t size;

	if (fstatvfs(disk->fd, &room) < 0 || fstatfs(disk->fd, &kind) < 0)
		return cannot(disk, "measure");
	size = (uint64_t)room.f_bavail * room.f_frsize;
	if (size < bytes) {
		log_error(
		    "the backup %s has room for %s, and far memory has %s: name a file on a larger disk, or give a "
		    "smaller size",
		    disk->path, size_format(size, here), size_format(bytes, wanted));
		return -ENOSPC;
	}
	if (kind.f_type == TMPFS_MAGIC || kind.f_type == RAMFS_MAGIC)
		log_warning("the backup %s is in memory, not on a disk: it keeps no page after a crash", disk->path);
	return 0;
}

/* Empties the file, sets its length, and writes the mark after its pages. */
static int file_lay_out(const struct backup_disk *disk, uint64_t length, uint64_t bytes)
{
	char mark[DISK_MARK_SIZE];
	int error;

	if (ftruncate(disk->fd, 0) < 0)
		return cannot(disk, "empty");
	error = file_room(disk, bytes);
	if (error < 0)
		return error;
	if (fchmod(disk->fd, 0600) < 0 || ftruncate(disk->fd, (off_t)(length + STORE_PAGE)) < 0)
		return cannot(disk, "lay out");
	mark_make(mark);
	if (pwrite(disk->fd, mark, sizeof mark, (off_t)length) != sizeof mark)
		return cannot(disk, "write");
	return 0;
}

/* Bypasses the page cache from now on, if the file system allows it. */
static void file_go_direct(const struct backup_disk *disk)
{
	int flags = fcntl(disk->fd, F_GETFL);

	if (flags < 0 || fdatasync(disk->fd) < 0 || fcntl(disk->fd, F_SETFL, flags | O_DIRECT) < 0)
		log_info("the backup %s goes through the page cache: its file system has no direct I/O", disk->path);
}

static int file_is_here(const struct backup_disk *disk, struct stat *ret_status)
{
	if (fstat(disk->fd, ret_status) < 0)
		return cannot(disk, "open");
	if (device_is_far(ret_status->st_dev))
		return complain(disk, -EINVAL, "is itself on a device of far memory: name a file on a local disk");
	return 0;
}

static int named_open(struct backup_disk *disk, uint64_t length, uint64_t bytes, bool adopt)
{
	struct stat status;
	int error;

	disk->fd = open(disk->path, O_RDWR | O_CLOEXEC | (adopt ? 0 : O_CREAT), 0600);
	if (disk->fd < 0)
		return cannot(disk, "open");
	error = disk_lock(disk, adopt);
	if (error == 0)
		error = file_is_here(disk, &status);
	if (error == 0)
		error = file_check(disk, &status, adopt);
	if (error < 0)
		return error;
	disk->named = true;
	if (!adopt || (uint64_t)status.st_size != length + STORE_PAGE)
		error = file_lay_out(disk, length, bytes);
	return error;
}

static int nameless_open(struct backup_disk *disk, uint64_t length, uint64_t bytes)
{
	char name[PATH_MAX];
	struct stat status;
	int error;

	if (format_text(name, sizeof name, "%s.XXXXXX", disk->path) >= sizeof name)
		return complain(disk, -ENAMETOOLONG, "has too long a name");
	disk->fd = mkostemp(name, O_CLOEXEC);
	error = disk->fd < 0 ? cannot(disk, "make") : 0;
	if (error == 0)
		unlink(name);
	if (error == 0)
		error = file_is_here(disk, &status);
	return error < 0 ? error : file_lay_out(disk, length, bytes);
}

/* --- Opening and closing -------------------------------------------------------------------------------------- */

static int path_open(struct backup_disk *disk, uint64_t length, uint64_t bytes, bool keep, bool adopt)
{
	struct stat status;
	int found = stat(disk->path, &status), error;

	if (found < 0 && (errno != ENOENT || adopt))
		return cannot(disk, "open");
	if (found == 0 && S_ISBLK(status.st_mode))
		return device_open(disk, length, adopt);
	if (found == 0 && !S_ISREG(status.st_mode))
		return complain(disk, -EINVAL, "is neither a file nor a block device");
	error = keep ? named_open(disk, length, bytes, adopt) : nameless_open(disk, length, bytes);
	if (error < 0 && disk->fd >= 0 && keep && found < 0 && !disk->named)
		unlink(disk->path); /* this call has created it */
	if (error == 0)
		file_go_direct(disk);
	return error;
}

static int ring_set_up(struct backup_disk *disk)
{
	int error = io_uring_queue_init(DISK_DEPTH, &disk->ring, 0);

	disk->ring_open = error == 0;
	disk->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (error == 0)
		error = disk->event < 0 ? -errno : io_uring_register_eventfd(&disk->ring, disk->event);
	if (error < 0)
		log_error("cannot write the backup %s: io_uring: %s%s", disk->path, format_errno(error),
			  error == -EPERM || error == -ENOSYS ? "; `farpage doctor` says what to do" : "");
	return error;
}

int backup_disk_open(const char *path, uint64_t pages, uint64_t bytes, bool keep, bool adopt,
		     struct backup_disk **ret_disk)
{
	struct backup_disk *disk = calloc(1, sizeof *disk);
	int error = -ENOMEM;

	if (!disk)
		return error;
	disk->fd = disk->event = -1;
	disk->path = strdup(path);
	if (disk->path)
		error = path_open(disk, pages * STORE_PAGE, bytes, keep, adopt);
	if (error == 0)
		error = ring_set_up(disk);
	if (error < 0) {
		backup_disk_close(disk, adopt);
		return error;
	}
	*ret_disk = disk;
	return 0;
}

int backup_disk_check(const char *path, uint64_t bytes)
{
	struct backup_disk *disk;
	int error = backup_disk_open(path, bytes / STORE_PAGE, bytes, false, false, &disk);

	if (error == 0)
		backup_disk_close(disk, false);
	return error;
}

void backup_disk_close(struct backup_disk *disk, bool keep)
{
	if (!disk)
		return;
	if (disk->ring_open)
		io_uring_queue_exit(&disk->ring);
	if (disk->named && !keep && unlink(disk->path) < 0)
		log_warning("cannot remove the backup %s: %s", disk->path, format_errno(errno));
	if (disk->event >= 0)
		close(disk->event);
	if (disk->fd >= 0)
		close(disk->fd);
	free(disk->path);
	free(disk);
}

int backup_disk_fd(const struct backup_disk *disk)
{
	return disk->event;
}

/* --- Reading and writing ------------------------------------------------------------------------------------------ */

void backup_disk_write(struct backup_disk *disk, uint64_t page, const struct iovec *pieces, unsigned count,
		       uint64_t cookie)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(&disk->ring);

	io_uring_prep_writev(entry, disk->fd, pieces, count, page * STORE_PAGE);
	io_uring_sqe_set_data64(entry, cookie);
}

void backup_disk_read(struct backup_disk *disk, uint64_t page, void *data, uint32_t pages, uint64_t cookie)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(&disk->ring);

	io_uring_prep_read(entry, disk->fd, data, pages * STORE_PAGE, page * STORE_PAGE);
	io_uring_sqe_set_data64(entry, cookie);
}

int backup_disk_submit(struct backup_disk *disk)
{
	int error;

	if (!io_uring_sq_ready(&disk->ring))
		return 0;
	do {
		error = io_uring_submit(&disk->ring);
	} while (error == -EINTR || (error >= 0 && io_uring_sq_ready(&disk->ring)));
	return error < 0 ? error : 0;
}

unsigned backup_disk_reap(struct backup_disk *disk, struct backup_disk_done *dones, unsigned max)
{
	struct io_uring_cqe *entry;
	unsigned count = 0;
	eventfd_t value;

	eventfd_read(disk->event, &value);
	while (count < max && io_uring_peek_cqe(&disk->ring, &entry) == 0) {
		dones[count++] = (struct backup_disk_done){.cookie = entry->user_data, .result = entry->res};
		io_uring_cqe_seen(&disk->ring, entry);
	}
	return count;
}
