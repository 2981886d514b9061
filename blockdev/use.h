/*
 * use: what a block device is used for: swap space, a mount, a device of a device mapper or RAID. Read from /proc and
 * /sys when asked.
 *
 * Threads: any.
 */
#ifndef BLOCKDEV_USE_H
#define BLOCKDEV_USE_H

#include <stdbool.h>

#define USE_TEXT_MAX 160

/* "swap space", "mounted on /mnt", "used by dm-0", "open in process 7": the first that is found; false: nothing is
   known. @path: "/dev/ublkb0", which need not be there any more. */
bool use_find(const char *path, char ret_text[USE_TEXT_MAX]);
/* The last of these alone: another process that has the device open in whatever way, as far as /proc shows it, or a
   loop device over it. */
bool use_find_opener(const char *path, char ret_text[USE_TEXT_MAX]);
/* For the time when the file at @path may have vanished, or be another's: a descriptor that names the device without
   opening it. -errno. */
int use_watch(const char *path);
/* Whether somebody has the device of use_watch()'s descriptor (-1: unknown, false) for himself: a mount, swap space, a
   program with O_EXCL. */
bool use_is_taken(int watch);

#endif
