/*
 * loop: a loop device over a file, with direct I/O.
 *
 * Theory of operation. LOOP_CTL_GET_FREE returns a free number. LOOP_CONFIGURE sets up the device with that number
 * in one step. If another process has taken this number first, loop_attach() asks for another number. The kernel may
 * refuse direct I/O on the file; loop_attach() then fails, because the page cache would have a second copy of
 * everything.
 *
 * The kernel ends a loop device only when its last user closes it. So loop_detach() first opens the device exclusively.
 * This fails if the device is mounted, swap space or in similar use. Then loop_detach() asks the kernel to end the
 * device, and waits up to a second. If another process still has the device open, loop_detach() withdraws the request.
 *
 * loop_backing() reads the backing file's path from sysfs, because this works even if the daemon that serves the file
 * is dead. If the device's file in /dev is missing, these functions create the file.
 *
 * Threads. Any thread may call these functions. They have no state.
 */
#ifndef BLOCKDEV_LOOP_H
#define BLOCKDEV_LOOP_H

#include <stddef.h>
#include <stdint.h>

#define LOOP_PATH_MAX 32 /* size of a path such as "/dev/loop0" */

void loop_path(int32_t number, char ret_path[LOOP_PATH_MAX]);

/* Writes the path of the device's backing file. Returns 0, -ENOENT if there is none, or -ENAMETOOLONG. */
int loop_backing(int32_t number, char *ret_path, size_t size);
/* Sets up a device with blocks of @block_bytes over the open file @file. The caller may then close @file. losetup shows
   @name. Writes the device's number, and its backing path as loop_backing() does. Returns 0, or -errno after logging
   the reason: -EOPNOTSUPP if the kernel cannot make such a device. */
int loop_attach(int file, const char *name, uint32_t block_bytes, int32_t *ret_number, char *ret_backing, size_t size);
/* Ends the device if its backing path is @backing. Waits up to a second for programs that only look at the device, such
   as udev. Returns 0, -EBUSY if the device is in use and therefore stays, -ENOENT if it has another backing path or
   none, or another -errno. */
int loop_detach(int32_t number, const char *backing);

#endif
