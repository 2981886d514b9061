#include "blockdev/ublk/ublk_device.h"

#include "blockdev/host/use.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATH_SIZE 96
#define APPEAR_NS 5000000000ull
#define LOOK_NS 1000000
/* A program that only looks at a disk, such as udev, closes it within this time. */
#define LINGER_NS 1000000000ull
#define OPENER_LOOK_NS 20000000 /* not shorter, because each look reads all of /proc */
/* Not shorter, because the kernel's timers round this time up to whole seconds. */
#define SERVER_LOOK_MS 1000u

void ublk_device_path(uint32_t number, char *ret_path, size_t size)
{
	snprintf(ret_path, size, "/dev/ublkb%u", number);
}

/* Opens a device file, or waits until it appears. */
static int appearing_open(const char *path, int flags, int *ret_fd)
{
	uint64_t deadline = clock_now() + APPEAR_NS;
	int fd;

	while ((fd = open(path, flags | O_CLOEXEC)) < 0) {
		if ((errno != ENOENT && errno != ENXIO) || clock_now() > deadline)
			return -errno;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
	*ret_fd = fd;
	return 0;
}

int ublk_device_open(uint32_t number, int *ret_fd)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof path, "/dev/ublkc%u", number);
	return appearing_open(path, O_RDWR, ret_fd);
}

int ublk_device_wait(uint32_t number)
{
	char path[PATH_SIZE];
	int fd = -1, status;

	ublk_device_path(number, path, sizeof path);
	/* O_PATH, because any other open would prevent others from opening the disk exclusively. */
	status = appearing_open(path, O_PATH, &fd);
	if (status < 0)
		return status == -ENOENT ? -ETIMEDOUT : status;
	close(fd);
	return 0;
}

/* Waits until no other process has the disk open. Returns -EBUSY if a process has the disk open for too long. */
static int openers_wait(const char *path)
{
	uint64_t deadline = clock_now() + LINGER_NS;
	char use[USE_TEXT_MAX];

	while (use_find_opener(path, use)) {
		if (clock_now() > deadline)
			return -EBUSY;
		nanosleep(&(struct timespec){.tv_nsec = OPENER_LOOK_NS}, NULL);
	}
	return 0;
}

int ublk_device_hold(uint32_t number, int *ret_fd)
{
	char path[PATH_SIZE];
	int fd;

	ublk_device_path(number, path, sizeof path);
	fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (fd < 0)
		return errno == ENXIO || errno == ENODEV ? -ENOENT : -errno;
	/*
	 * Other processes may have the disk open without O_EXCL. An example is udev, which looks at a disk that was
	 * just written or swapped off. The kernel would remove the disk while such processes have it open, and then
	 * wait for them. So openers_wait() waits for them first. Nobody can mount the disk meanwhile, because this
	 * process has it open exclusively.
	 */
	if (openers_wait(path) < 0) {
		close(fd);
		return -EBUSY;
	}
	*ret_fd = fd;
	return 0;
}

static void queue_set(uint32_t number, const char *setting, const char *value)
{
	char path[PATH_SIZE];
	int status;

	snprintf(path, sizeof path, "/sys/block/ublkb%u/queue/%s", number, setting);
	status = text_file_write(path, value);
	if (status < 0)
		log_warning("%s cannot be set to %s: %s", path, value, strerror(-status));
}

void ublk_device_tune(uint32_t number, unsigned depth)
{
	char value[16];

	queue_set(number, "scheduler", "none");
	snprintf(value, sizeof value, "%u", depth - 1);
	queue_set(number, "nr_requests", value);
	snprintf(value, sizeof value, "%u", SERVER_LOOK_MS);
	queue_set(number, "io_timeout", value);
}
