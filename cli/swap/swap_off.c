/*
 * farpage swap off: returns the swapped pages to memory and removes the device.
 *
 * A device that is no longer swap space is only removed. So a user can repeat a command that failed after swapoff(2).
 */
#include "blockdev/devices.h"
#include "cli/disk/disk_daemon.h"
#include "cli/swap/swap.h"
#include "cli/swap/swap_space.h"
#include "cli/swap/swaps.h"
#include "common/log.h"

#include <errno.h>
#include <unistd.h>

static int device_find(const char *name, struct runtime_device *ret_device)
{
	if (runtime_check_name(name) < 0)
		return -EINVAL;
	if (runtime_read_device(name, ret_device) < 0) {
		log_error("there is no device %s: see `farpage disk list`", name);
		return -ENOENT;
	}
	if (access(ret_device->device.path, F_OK) < 0) {
		log_error("swap off: %s has vanished: make it again with `udevadm trigger`, or mknod",
			  ret_device->device.path);
		return -ENOENT;
	}
	return 0;
}

/* Removes a device that an earlier `swap off` or swapoff(8) did not remove, for example because a process had it
   open. Refuses other devices. Returns 0, or -errno after one logged line. */
static int rest_remove(const char *name, const char *path)
{
	static struct settings settings;

	if (settings_kept(name, &settings) == 0 && settings.swap)
		return disk_daemon_detach(name);
	log_error("swap off: %s is no swap space; farpage disk detach %s removes it", path, name);
	return -EINVAL;
}

int swap_off(const char *name)
{
	struct runtime_device device;
	struct swap_area area;
	int status = device_find(name, &device);

	if (status < 0)
		return status;
	if (swaps_find(device.device.path, &area) == -ENOENT)
		return rest_remove(name, device.device.path);
	return swap_space_detach(name, &area);
}
