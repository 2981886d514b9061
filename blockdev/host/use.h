/*
 * use: finds who uses a block device (swap space, mount, device mapper, RAID), from /proc and /sys. devices.h has
 * use_find().
 *
 * Threads. Any thread may call these functions.
 */
#ifndef BLOCKDEV_USE_H
#define BLOCKDEV_USE_H

#include "blockdev/devices.h"

/* Does the same as use_find(), but looks only for a loop device over the device, and for another process that has the
   device open. Returns false if there is neither. */
bool use_find_opener(const char *path, char ret_text[USE_TEXT_MAX]);
/* Opens a descriptor of the device that does not count as a use (O_PATH). The descriptor stays valid if the file at
   @path is removed or replaced. Returns the descriptor or -errno. */
int use_watch(const char *path);
/* Returns true if the device is in exclusive use: a mount, swap space, or a program that used O_EXCL. @watch is from
   use_watch(). Returns false if @watch is -1. */
bool use_is_taken(int watch);

#endif
