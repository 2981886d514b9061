/*
 * ublk_device: the two device files of a ublk device, and its disk's settings in sysfs.
 *
 * Theory of operation. Device files may appear a moment after their device, if udev creates them. Three settings of the
 * block layer matter:
 *
 * - no scheduler
 * - fewer requests at a time than there are tags
 * - a short request timeout, after which the kernel looks for a dead server; a living server loses no request by it
 *
 * The last two are needed because Linux before 6.16 learns of a server's death from tags without a request. If all tags
 * of a queue have requests, it learns only when a request times out, by default after 30 s.
 *
 * Threads. Any thread may call these functions. There is no state.
 */
#ifndef BLOCKDEV_UBLK_DEVICE_H
#define BLOCKDEV_UBLK_DEVICE_H

#include <stddef.h>
#include <stdint.h>

void ublk_device_path(uint32_t number, char *ret_path, size_t size);
/*
 * Opens /dev/ublkcN for the server. Returns 0, -ENOENT if the file did not appear, -EBUSY if the device has a server,
 * or another -errno.
 */
int ublk_device_open(uint32_t number, int *ret_fd);
/* Waits for /dev/ublkbN. Returns 0, -ETIMEDOUT, or another -errno. */
int ublk_device_wait(uint32_t number);
/*
 * Opens /dev/ublkbN exclusively, so that nobody can mount it, swap on it or hold it until it is closed. Returns 0,
 * -EBUSY if it is in such use or stays open for a second, -ENOENT if there is no such disk, or another -errno.
 */
int ublk_device_hold(uint32_t number, int *ret_fd);
/*
 * Sets the settings for a device with @depth tags per queue. Logs a warning for each that cannot be set. The server may
 * call it only while nobody uses the device: the kernel first waits for all requests. If the server is killed during
 * this wait, neither the wait nor the requests ever end.
 */
void ublk_device_tune(uint32_t number, unsigned depth);

#endif
