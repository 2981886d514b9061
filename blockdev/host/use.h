/*
 * use: finds the use of a block device (swap space, mount, device mapper, RAID) in /proc and /sys. use_find() is in
 * devices.h.
 *
 * Threads. Any thread may call these functions.
 */
#ifndef BLOCKDEV_USE_H
#define BLOCKDEV_USE_H

#include "blockdev/devices.h"

/*
 * Looks only for a loop device over the device, and for another process that has it open, as far as /proc shows. Writes
 * the text of use_find(). Returns false if neither is found.
 */
bool use_find_opener(const char *path, char ret_text[USE_TEXT_MAX]);
/*
 * Opens a descriptor that names the device without opening it. The descriptor stays valid if the file at @path vanishes
 * or then names another device. Returns the descriptor or -errno.
 */
int use_watch(const char *path);
/*
 * Returns true if the device of this descriptor is in exclusive use: a mount, swap space, a program with O_EXCL.
 * Returns false if @watch is -1.
 */
bool use_is_taken(int watch);

#endif
