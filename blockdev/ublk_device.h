/*
 * ublk_device: the two device files of a ublk device, and what sysfs says of its disk.
 *
 * Theory of operation. Device files may appear a moment after their device, where udev makes them. Of the block layer's
 * settings three matter: no scheduler; fewer requests at a time than there are tags; and a time after which it looks
 * for a server that died (of a living one it only asks again). The last two because Linux before 6.16 learns of a
 * server's death from those tags that it is not busy with: if it is busy with all of a queue's, not before a request
 * has timed out, which by default takes 30 s.
 *
 * Threads: any; no state.
 */
#ifndef BLOCKDEV_UBLK_DEVICE_H
#define BLOCKDEV_UBLK_DEVICE_H

#include <stddef.h>
#include <stdint.h>

void ublk_device_path(uint32_t number, char *ret_path, size_t size);
/* /dev/ublkcN, for the server. -ENOENT: it did not appear; -EBUSY: it has a server. */
int ublk_device_open(uint32_t number, int *ret_fd);
/* Until /dev/ublkbN is there. -ETIMEDOUT. */
int ublk_device_wait(uint32_t number);
/* /dev/ublkbN, so that nobody else can mount it, swap on it or hold it in such a way until it is closed. -EBUSY:
   somebody does, or keeps it open for a second. -ENOENT: there is no such disk. */
int ublk_device_hold(uint32_t number, int *ret_fd);
/* For a device with @depth tags a queue; logs a warning of what cannot be set. By the server only while nobody uses the
   device: the kernel waits for all requests first, and if the server is killed then it never ends, nor do they. */
void ublk_device_tune(uint32_t number, unsigned depth);

#endif
