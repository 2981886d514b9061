/*
 * loop: a loop device over a file, with direct I/O.
 *
 * Theory of operation. LOOP_CTL_GET_FREE names a number that is free now, LOOP_CONFIGURE takes it in one step; whoever
 * loses the race for one asks for the next. The device is only kept when the kernel really does direct I/O on the file:
 * otherwise its page cache would hold a second copy of everything. What a device is over is told by sysfs, by name,
 * which works also when the file's server is dead.
 *
 * A loop device ends when its last user closes it. So detaching takes it exclusively (which a mounted file system, swap
 * or anybody else who claimed it forbids), asks for the end, and looks whether it came; while somebody has it open, the
 * wish is taken back.
 *
 * A device's file in /dev may vanish while the device lives on; it is made anew when it is needed.
 *
 * Threads: any; nothing is kept.
 */
#ifndef BLOCKDEV_LOOP_H
#define BLOCKDEV_LOOP_H

#include <stddef.h>
#include <stdint.h>

#define LOOP_PATH_MAX 32 /* of "/dev/loop0" */

void loop_path(int32_t number, char ret_path[LOOP_PATH_MAX]);

/* The path of the file that a device is over. -ENOENT: over none. -ENAMETOOLONG. */
int loop_backing(int32_t number, char *ret_path, size_t size);
/* Makes a device over @file, an open file that the caller may close afterwards, of blocks of @block_bytes; gives
   loop_backing() too. @name is what losetup shows. Logs one line. -errno; -EOPNOTSUPP: a kernel that cannot. */
int loop_attach(int file, const char *name, uint32_t block_bytes, int32_t *ret_number, char *ret_backing, size_t size);
/* -EBUSY: in use, and nothing has changed; -ENOENT: it is not over @backing, which loop_backing() told. */
int loop_detach(int32_t number, const char *backing);

#endif
