/*
 * ublk_device: the two device files of a ublk device, and its settings in sysfs.
 *
 * Theory of operation. If udev creates the device files, they appear a moment after the device. So the functions that
 * open a device file wait for it. ublk_device_tune() changes three settings of the block layer:
 *
 * - scheduler is "none"
 * - nr_requests is less than the number of tags
 * - io_timeout is short; when it expires, the kernel only checks whether the server lives, so a living server loses
 *   no request
 *
 * The last two settings are for Linux before 6.16, which learns of a server's death from tags that have no request. If
 * all tags have requests, Linux learns of the death only when a request times out, after 30 s by default.
 *
 * Threads. Any thread may call these functions. They have no state.
 */
#ifndef BLOCKDEV_UBLK_DEVICE_H
#define BLOCKDEV_UBLK_DEVICE_H

#include <stddef.h>
#include <stdint.h>

void ublk_device_path(uint32_t number, char *ret_path, size_t size);
/* Opens /dev/ublkcN for the server. Returns 0, -ENOENT if the file did not appear, -EBUSY if the device already has
   a server, or another -errno. */
int ublk_device_open(uint32_t number, int *ret_fd);
/* Waits for /dev/ublkbN. Returns 0, -ETIMEDOUT, or another -errno. */
int ublk_device_wait(uint32_t number);
/* Opens /dev/ublkbN exclusively. As long as the file is open, nobody can mount the disk or use it as swap space.
   Returns 0, -ENOENT if there is no such disk, or another -errno. The error is -EBUSY if the disk is already in such
   use, or another process has it open for more than a second. */
int ublk_device_hold(uint32_t number, int *ret_fd);
/* Must be called only while nobody uses the device. Changes the settings of a device with @depth tags per queue. Logs a
   warning for each setting that cannot be changed. Before a change, the kernel waits for all requests. If the server is
   killed during this wait, neither the wait nor the requests ever end. */
void ublk_device_tune(uint32_t number, unsigned depth);

#endif
