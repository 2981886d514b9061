#include "blockdev/fuse/loop.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define LOOP_RACES_MAX 64           /* most attempts to get a free number before another process takes it */
#define LOOP_LINGER_NS 1000000000ul /* for programs that only look at a device, such as udev */
#define LOOP_LOOK_NS 1000000

void loop_path(int32_t number, char ret_path[LOOP_PATH_MAX])
{
	snprintf(ret_path, LOOP_PATH_MAX, "/dev/loop%d", (int)number);
}

/* Creates the device's file in /dev if the file is missing. Returns 0, -ENODEV if there is no such device, or another
   -errno. */
static int loop_make_file(int32_t number, const char *path)
{
	char of_kernel[64];
	unsigned major, minor;
	FILE *numbers;
	int found;

	snprintf(of_kernel, sizeof of_kernel, "/sys/block/loop%d/dev", (int)number);
	numbers = fopen(of_kernel, "re");
	if (!numbers)
		return -ENODEV;
	found = fscanf(numbers, "%u:%u", &major, &minor);
	fclose(numbers);
	if (found != 2)
		return -ENODEV;
	return mknod(path, S_IFBLK | 0600, makedev(major, minor)) < 0 && errno != EEXIST ? -errno : 0;
}

static int loop_open(int32_t number, int flags)
{
	char path[LOOP_PATH_MAX];
	int device, error;

	loop_path(number, path);
	device = open(path, flags | O_CLOEXEC);
	if (device >= 0 || errno != ENOENT)
		return device < 0 ? -errno : device;
	error = loop_make_file(number, path);
	if (error < 0)
		return error;
	device = open(path, flags | O_CLOEXEC);
	return device < 0 ? -errno : device;
}

int loop_backing(int32_t number, char *ret_path, size_t size)
{
	char path[64], text[PATH_MAX + 1];
	ssize_t length;

	snprintf(path, sizeof path, "/sys/block/loop%d/loop/backing_file", (int)number);
	length = text_file_read(path, text, sizeof text);
	if (length <= 1)
		return -ENOENT;
	text[length - 1] = '\0'; /* the line break */
	if ((size_t)length > size)
		return -ENAMETOOLONG;
	memcpy(ret_path, text, (size_t)length);
	return 0;
}

/* --- Attaching ----------------------------------------------------------------------------------------------- */

static bool loop_is_direct(int device)
{
	struct loop_info64 info;

	return ioctl(device, LOOP_GET_STATUS64, &info) == 0 && info.lo_flags & LO_FLAGS_DIRECT_IO;
}

/* Sets up device @number over @file. Returns 0, -EBUSY if another process has taken the number meanwhile, or another
   -errno after logging the reason. */
static int loop_configure(int32_t number, int file, const char *name, uint32_t block_bytes, char *ret_backing,
			  size_t size)
{
	struct loop_config config = {
	    .fd = (uint32_t)file, .block_size = block_bytes, .info = {.lo_flags = LO_FLAGS_DIRECT_IO}};
	int device = loop_open(number, O_RDWR), status = 0;

	if (device == -ENXIO)
		return -EBUSY; /* another process has taken the number, and is releasing it */
	if (device < 0) {
		log_error("cannot open /dev/loop%d: %s; is /dev a devtmpfs, and are you root?", (int)number,
			  strerror(-device));
		return device;
	}
	snprintf((char *)config.info.lo_file_name, sizeof config.info.lo_file_name, "%s", name);
	if (ioctl(device, LOOP_CONFIGURE, &config) < 0)
		status = -errno;
	if (status == -ENOTTY || status == -EINVAL) {
		log_error(
		    "this kernel has no LOOP_CONFIGURE, or not for blocks of %u bytes: it needs Linux 5.8 or newer",
		    block_bytes);
		status = -EOPNOTSUPP;
	} else if (status < 0 && status != -EBUSY) {
		log_error("cannot set up /dev/loop%d: %s", (int)number, strerror(-status));
	} else if (status == 0 && !loop_is_direct(device)) {
		log_error(
		    "/dev/loop%d refuses direct I/O on FUSE files: it would keep a second copy of all pages; use a "
		    "newer kernel, or one with ublk",
		    (int)number);
		ioctl(device, LOOP_CLR_FD);
		status = -EOPNOTSUPP;
	} else if (status == 0) {
		status = loop_backing(number, ret_backing, size);
		if (status < 0) {
			log_error("/sys does not show the file under /dev/loop%d: mount sysfs there", (int)number);
			ioctl(device, LOOP_CLR_FD);
		}
	}
	close(device);
	return status;
}

int loop_attach(int file, const char *name, uint32_t block_bytes, int32_t *ret_number, char *ret_backing, size_t size)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), status = -EBUSY;

	if (control < 0) {
		status = -errno;
		log_error("cannot open /dev/loop-control: %s; 'modprobe loop'", strerror(errno));
		return status;
	}
	for (unsigned races = 0; races < LOOP_RACES_MAX && status == -EBUSY; races++) {
		int32_t number = ioctl(control, LOOP_CTL_GET_FREE);

		if (number < 0) {
			status = -errno;
			log_error("no free loop device: %s; 'losetup -a' lists all loop devices", strerror(errno));
			break;
		}
		status = loop_configure(number, file, name, block_bytes, ret_backing, size);
		if (status == 0)
			*ret_number = number;
	}
	if (status == -EBUSY)
		log_error("other processes take each free loop device first; try again");
	close(control);
	return status;
}

/* --- Detaching ----------------------------------------------------------------------------------------------- */

static bool loop_is_over(int32_t number, const char *backing)
{
	char path[PATH_MAX];

	return loop_backing(number, path, sizeof path) == 0 && strcmp(path, backing) == 0;
}

/* Withdraws the request to end the device, because another process has the device open. Otherwise the device would end
   when that process closes it. Returns -EBUSY if the device stays, 0 if it has ended, or another -errno. */
static int loop_keep(int32_t number)
{
	struct loop_info64 info;
	int device = loop_open(number, O_RDONLY), status = -EBUSY;

	if (device < 0)
		return device == -ENXIO ? 0 : device;
	if (ioctl(device, LOOP_GET_STATUS64, &info) == 0) {
		info.lo_flags &= ~(uint32_t)LO_FLAGS_AUTOCLEAR;
		ioctl(device, LOOP_SET_STATUS64, &info);
	} else if (errno == ENXIO) {
		status = 0; /* the device has just ended */
	}
	close(device);
	return status;
}

int loop_detach(int32_t number, const char *backing)
{
	const struct timespec look = {.tv_nsec = LOOP_LOOK_NS};
	uint64_t deadline = clock_now() + LOOP_LINGER_NS;
	int device, status = 0;

	if (!loop_is_over(number, backing))
		return -ENOENT;
	device = loop_open(number, O_RDONLY | O_EXCL);
	if (device < 0)
		return device == -ENXIO ? -ENOENT : device;
	if (!loop_is_over(number, backing)) /* another process has reused the number */
		status = -ENOENT;
	else if (ioctl(device, LOOP_CLR_FD) < 0)
		status = errno == ENXIO ? -ENOENT : -errno;
	close(device);
	if (status < 0)
		return status;
	while (loop_is_over(number, backing)) {
		if (clock_now() > deadline)
			return loop_keep(number);
		nanosleep(&look, NULL);
	}
	return 0;
}
