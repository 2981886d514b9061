/*
 * loop: a loop device over a file, with direct I/O.
 *
 * Theory of operation. LOOP_CTL_GET_FREE names a number that is free now. LOOP_CONFIGURE takes the number in one step.
 * If another process was faster, loop_attach() asks for the next number. loop_attach() keeps the device only if the
 * kernel really does direct I/O on the file. Otherwise the page cache would hold a second copy of everything. sysfs
 * names the backing file, even if the file's server is dead.
 *
 * The kernel ends a loop device when its last user closes it. So loop_detach() opens the device exclusively. This fails
 * if the device is claimed, for example by swap or a mounted file system. loop_detach() then asks for the device's end,
 * and waits a moment. If another process still has the device open, loop_detach() withdraws the request.
 *
 * A device's file in /dev may vanish although the device exists. The file is made again when needed.
 *
 * Threads. Any thread may call these functions. They keep no state.
 */
#ifndef BLOCKDEV_LOOP_H
#define BLOCKDEV_LOOP_H

#include <stddef.h>
#include <stdint.h>

#define LOOP_PATH_MAX 32 /* size of a string such as "/dev/loop0" */

void loop_path(int32_t number, char ret_path[LOOP_PATH_MAX]);

/* Writes the path of the device's backing file. Returns 0, -ENOENT if it has none, or -ENAMETOOLONG. */
int loop_backing(int32_t number, char *ret_path, size_t size);
/*
 * Makes a device with blocks of @block_bytes over the open file @file. The caller may then close @file. Writes the
 * device's number, and its backing path (see loop_backing()). losetup shows @name. Returns 0, or -errno after logging
 * the reason. -EOPNOTSUPP means that the kernel cannot make such a device.
 */
int loop_attach(int file, const char *name, uint32_t block_bytes, int32_t *ret_number, char *ret_backing, size_t size);
/*
 * Ends the device if its backing path is still @backing. Waits up to a second for other programs, such as udev, to
 * close it. Returns 0, -EBUSY if the device is in use and therefore stays, -ENOENT if it is not over @backing, or
 * another -errno.
 */
int loop_detach(int32_t number, const char *backing);

#endif
