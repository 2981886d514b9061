/*
 * use: finds the use of a block device (swap space, mount, device mapper, RAID) in /proc and /sys.
 *
 * Threads. Any thread may call these functions.
 */
#ifndef BLOCKDEV_USE_H
#define BLOCKDEV_USE_H

#include <stdbool.h>

#define USE_TEXT_MAX 160

/*
 * Writes the first use that it finds: "swap space", "mounted on /mnt", "used by dm-0", "open in process 7". @path, such
 * as "/dev/ublkb0", need not exist any more. Returns false if no use is known.
 */
bool use_find(const char *path, char ret_text[USE_TEXT_MAX]);
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
