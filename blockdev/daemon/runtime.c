#include "blockdev/daemon/runtime.h"

#include "common/clock.h"
#include "common/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RUNTIME_BASE "/run/farpage"
#define PATH_SIZE (RUNTIME_PATH_MAX + 16)
#define STATUS_AGE_S 5 /* an older status is out of date */
#define STATUS_TRIES 5
#define LOCK_FILE "/.lock" /* no device can have this name */

static const char *runtime_base(void)
{
	const char *base = secure_getenv("FARPAGE_RUNTIME");

	return base && *base ? base : RUNTIME_BASE;
}

/* Returns true if the name is one path component that stays in the parent folder. */
static bool name_is_good(const char *name)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t length = strspn(name, letters);

	return length && !name[length] && length <= RUNTIME_NAME_MAX && !strchr("._-", name[0]);
}

int runtime_check_name(const char *name)
{
	if (name_is_good(name))
		return 0;
	log_error("--name '%.64s': not a name; take up to %d letters, digits, dots, dashes and underscores, a letter "
		  "or a digit first",
		  name, RUNTIME_NAME_MAX);
	return -EINVAL;
}

int runtime_path(const char *name, const char *file, char ret_path[PATH_SIZE])
{
	int length = snprintf(ret_path, PATH_SIZE, "%s/%s", runtime_base(), name);

	if (length >= RUNTIME_PATH_MAX)
		return -ENAMETOOLONG;
	if (file)
		snprintf(ret_path + length, (size_t)(PATH_SIZE - length), "/%.14s", file);
	return 0;
}

/* Locks the parent folder. All users can open the folder itself, so the lock is on a file in it that only root can
   open. Returns a descriptor, or -errno. Closing the descriptor unlocks the folder. */
static int base_lock(bool create)
{
	const char *base = runtime_base();
	char path[RUNTIME_PATH_MAX + sizeof LOCK_FILE];
	int fd, error;

	if (snprintf(path, sizeof path, "%s" LOCK_FILE, base) >= (int)sizeof path)
		return -ENAMETOOLONG;

	if (create && mkdir(base, 0755) < 0 && errno != EEXIST)
		return -errno;
	/* All users may see which devices exist, whatever the umask is. */
	if (create && chmod(base, 0755) < 0)
		return -errno;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0) {
		if (errno == EINTR)
			continue;
		error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

/* Opens and locks `pid`. Returns the descriptor, -EBUSY if another process has the lock, or another -errno. */
static int pid_lock(const char *name, bool create)
{
	char path[PATH_SIZE];
	int status = runtime_path(name, "pid", path), fd;

	if (status < 0)
		return status;
	fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		status = errno == EWOULDBLOCK ? -EBUSY : -errno;
		close(fd);
		return status;
	}
	return fd;
}

static int pid_write(int fd)
{
	char text[16];
	int length = snprintf(text, sizeof text, "%d\n", getpid());

	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)length, 0) != length)
		return -EIO;
	return 0;
}

/* --- The folder of this process -------------------------------------------------------------------------- */

static int folder_fill(const char *name, struct runtime *runtime)
{
	char path[PATH_SIZE];
	int status;

	runtime->lock = pid_lock(name, true);
	if (runtime->lock < 0)
		return runtime->lock;
	status = pid_write(runtime->lock);
	runtime_path(name, "frontend", path);
	if (!status && mkdir(path, 0700) < 0)
		status = -errno;
	if (status < 0)
		close(runtime->lock);
	return status;
}

static int folder_make(const char *name, struct runtime *runtime)
{
	int status;

	if (mkdir(runtime->folder, 0700) < 0)
		return -errno;
	/* All users may open the public files, whose names they know. */
	if (mount("farpage", runtime->folder, "ramfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0711") < 0) {
		status = -errno;
		rmdir(runtime->folder);
		return status;
	}
	status = folder_fill(name, runtime);
	if (status < 0) {
		umount2(runtime->folder, MNT_DETACH);
		rmdir(runtime->folder);
	}
	return status;
}

static int folder_name(const char *name, struct runtime *runtime)
{
	char path[PATH_SIZE];
	int status = runtime_path(name, NULL, path);

	if (status < 0) {
		log_error("FARPAGE_RUNTIME=%s is too long a path; give a shorter one", runtime_base());
		return status;
	}
	snprintf(runtime->name, sizeof runtime->name, "%s", name);
	memcpy(runtime->folder, path, RUNTIME_PATH_MAX);
	return 0;
}

int runtime_create(const char *name, struct runtime *ret_runtime)
{
	struct runtime runtime = {.lock = -1};
	int status = runtime_check_name(name), base;

	if (!status)
		status = folder_name(name, &runtime);
	if (status < 0)
		return status;
	base = base_lock(true);
	status = base < 0 ? base : folder_make(name, &runtime);
	if (base >= 0)
		close(base);
	if (status == -EEXIST)
		log_error("the name %s is in use: give another with --name, or see `farpage disk list`", name);
	else if (status < 0)
		log_error("cannot make %s (a ramfs): %s%s", runtime.folder, strerror(-status),
			  status == -EPERM || status == -EACCES ? "; run it as root" : "");
	else
		*ret_runtime = runtime;
	return status;
}

static int adopt_once(const char *name, struct runtime *runtime)
{
	int base = base_lock(false), status;

	if (base < 0)
		return base;
	runtime->lock = pid_lock(name, true); /* creates `pid` if the last daemon died before it had created `pid` */
	status = runtime->lock < 0 ? runtime->lock : pid_write(runtime->lock);
	close(base);
	return status;
}

int runtime_adopt(const char *name, unsigned wait_ms, struct runtime *ret_runtime)
{
	const struct timespec step = {.tv_nsec = 5000000};
	uint64_t deadline = clock_now() + (uint64_t)wait_ms * 1000000;
	struct runtime runtime = {.lock = -1};
	int status = runtime_check_name(name);

	if (!status)
		status = folder_name(name, &runtime);
	if (status < 0)
		return status;
	while ((status = adopt_once(name, &runtime)) == -EBUSY && clock_now() < deadline)
		nanosleep(&step, NULL);
	if (status == -ENOENT)
		log_error("there is no device %s: see `farpage disk list`", name);
	else if (status == -EBUSY)
		log_error("the daemon of device %s lives: see `farpage disk list`", name);
	else if (status < 0)
		log_error("cannot take over %s: %s", runtime.folder, strerror(-status));
	else
		*ret_runtime = runtime;
	return status;
}

void runtime_remove(struct runtime *runtime)
{
	char path[PATH_SIZE];
	int base = base_lock(false);

	/* MNT_DETACH, because `pid` must stay open and locked until the folder is removed. EINVAL: the last daemon
	   died before the mount. */
	if (umount2(runtime->folder, MNT_DETACH) < 0 && errno != EINVAL)
		log_warning("cannot unmount %s: %m; run: umount -l %s", runtime->folder, runtime->folder);
	if (runtime_path(runtime->name, "pid", path) == 0)
		unlink(path);
	if (rmdir(runtime->folder) < 0)
		log_warning("cannot remove %s: %m", runtime->folder);
	close(runtime->lock);
	runtime->lock = -1;
	if (base >= 0)
		close(base);
}

void runtime_leave(struct runtime *runtime)
{
	close(runtime->lock);
	runtime->lock = -1;
}

/* --- Files ----------------------------------------------------------------------------------------------- */

static int file_replace(const struct runtime *runtime, const char *file, mode_t mode, const void *data, size_t length)
{
	char path[PATH_SIZE], next[PATH_SIZE];
	int fd, status = 0;

	runtime_path(runtime->name, file, path);
	runtime_path(runtime->name, "next", next);
	fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, data, length) != (ssize_t)length)
		status = -EIO;
	else if (fchmod(fd, mode) < 0)
		status = -errno;
	close(fd);
	if (!status && rename(next, path) < 0)
		status = -errno;
	return status;
}

int runtime_write(const struct runtime *runtime, const char *file, const void *data, size_t length)
{
	return file_replace(runtime, file, 0600, data, length);
}

int runtime_public(const struct runtime *runtime)
{
	char path[PATH_SIZE];
	int fd;

	runtime_path(runtime->name, "status", path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || fchmod(fd, 0644) == 0) /* whatever the umask is */
		return fd < 0 ? -errno : fd;
	close(fd);
	return -EPERM;
}

void runtime_publish(int public, const char *text)
{
	size_t length = strlen(text);

	if (public < 0 || pwrite(public, text, length, 0) < 0 || ftruncate(public, (off_t)length) < 0)
		return; /* readers find an old status, and do not use it */
}

void runtime_unlink(const struct runtime *runtime, const char *file)
{
	char path[PATH_SIZE];

	runtime_path(runtime->name, file, path);
	unlink(path);
}

int runtime_write_device(const struct runtime *runtime, const struct runtime_device *device)
{
	char text[FRONTEND_PATH_MAX + 64];
	int length =
	    snprintf(text, sizeof text, "%s %d %s\n", device->frontend, device->device.number, device->device.path);

	return file_replace(runtime, "device", 0644, text, (size_t)length);
}

/* Opens a file of a device's folder for reading. Returns the descriptor or -errno. */
static int file_open(const char *name, const char *file)
{
	char path[PATH_SIZE];
	int fd, status = runtime_path(name, file, path);

	if (status < 0)
		return status;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

ssize_t runtime_read(const char *name, const char *file, char *ret_text, size_t size)
{
	int fd = file_open(name, file), status = 0;
	size_t have = 0;
	ssize_t got = 1;

	if (fd < 0)
		return fd;
	while (have < size && got > 0) {
		got = read(fd, ret_text + have, size - have);
		if (got > 0)
			have += (size_t)got;
		else if (got < 0 && errno == EINTR)
			got = 1;
		else if (got < 0)
			status = -errno;
	}
	close(fd);
	if (status < 0)
		return status;
	if (have == size)
		return -E2BIG;
	ret_text[have] = 0;
	return (ssize_t)have;
}

ssize_t runtime_read_status(const char *name, char *ret_text, size_t size)
{
	static char again[CONTROL_REPLY_MAX];
	ssize_t length = -EAGAIN;
	struct stat stat;
	int fd = file_open(name, "status"), status;

	if (fd < 0)
		return fd;
	status = fstat(fd, &stat);
	close(fd);
	if (status < 0 || time(NULL) - stat.st_mtime > STATUS_AGE_S)
		return -ESTALE;
	/* The daemon overwrites the file within some microseconds. So if two reads give the same text, the text is
	   whole. */
	for (unsigned tries = 0; tries < STATUS_TRIES; tries++) {
		length = runtime_read(name, "status", ret_text, size);
		if (length < 0 ||
		    (runtime_read(name, "status", again, sizeof again) == length && !strcmp(ret_text, again)))
			return length;
	}
	return -EAGAIN;
}

int runtime_read_device(const char *name, struct runtime_device *ret_device)
{
	struct runtime_device device;
	char text[FRONTEND_PATH_MAX + 64];
	ssize_t length = runtime_read(name, "device", text, sizeof text);

	_Static_assert(sizeof device.frontend == 16 && FRONTEND_PATH_MAX == 64, "what is scanned below");
	if (length < 0)
		return (int)length;
	if (sscanf(text, "%15s %d %63s", device.frontend, &device.device.number, device.device.path) != 3)
		return -EIO;
	*ret_device = device;
	return 0;
}

/* --- All folders ----------------------------------------------------------------------------------------- */

bool runtime_is_served(const char *name)
{
	int base = base_lock(false), lock;

	if (base < 0)
		return false;
	lock = pid_lock(name, false);
	if (lock >= 0)
		close(lock);
	close(base);
	return lock == -EBUSY;
}

int runtime_lock(void)
{
	return base_lock(false);
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

int runtime_list(char ret_names[][RUNTIME_NAME_MAX + 1], unsigned max)
{
	DIR *base = opendir(runtime_base());
	struct dirent *entry;
	unsigned count = 0;

	if (!base)
		return errno == ENOENT ? 0 : -errno;
	while (count < max && (entry = readdir(base)))
		if (name_is_good(entry->d_name))
			memccpy(ret_names[count++], entry->d_name, 0, RUNTIME_NAME_MAX + 1);
	closedir(base);
	qsort(ret_names, count, RUNTIME_NAME_MAX + 1, name_compare);
	return (int)count;
}
