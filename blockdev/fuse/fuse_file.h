/*
 * fuse_file: presents a disk as a file, in the messages of the kernel's FUSE protocol.
 *
 * Theory of operation. A FUSE file system need not have a directory: here its root is a regular file of the disk's size.
 * It is mounted over a file, and root can read and write it. The file is always opened for direct I/O, so the kernel's
 * page cache never holds its pages. As with O_DIRECT, offsets and lengths must be whole sectors; otherwise the answer
 * is EINVAL. The file cannot be truncated or extended.
 *
 * The kernel sends a message for each operation, and waits for one answer to most of them (linux/fuse.h, fuse(4)). A
 * message is used where it was read, so the data of a WRITE is not copied. Reads, writes, discards and flushes become
 * requests of the disk, which are answered when the disk has finished them. All other messages are answered at once. An
 * operation that this file does not implement gets ENOSYS, and the kernel then does without it. One of these is
 * INTERRUPT: requests are never broken off.
 *
 * The loop driver punches holes to discard, and punches holes or zeroes ranges for write-zeroes. Both release the
 * memory of whole pages, which then read as zeroes. The loop device has blocks of a page, so it sends whole pages only.
 *
 * Threads. Any thread may call these functions. They keep no state.
 */
#ifndef BLOCKDEV_FUSE_FILE_H
#define BLOCKDEV_FUSE_FILE_H

#include "blockdev/disk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUSE_FILE_HEADERS 80u /* length of what lies before the data of a WRITE */

struct fuse_file {
	struct disk *disk;
	uint32_t request_bytes; /* length of the longest read or write */
	unsigned depth;         /* maximum of requests in progress, over all queues */
};

/* A message of the kernel, and the request of the disk that it becomes. */
struct fuse_slot {
	struct disk_request request; /* first, so a request's address is its slot's */
	/* A page-aligned place for the data of one request. The message begins FUSE_FILE_HEADERS bytes before it. */
	uint8_t *data;
	int fd; /* the descriptor of the message and of its answer */
};

/*
 * Reads the kernel's first message from @fd, the descriptor of a new mount, and agrees with the kernel on the protocol.
 * Returns 0, -EPROTO if the kernel has another protocol, or another -errno.
 */
int fuse_file_greet(const struct fuse_file *file, int fd);
/*
 * Decodes the message of @size bytes in @slot. Returns true if slot->request is now a request for the disk; the caller
 * sets its buffer and, when it is done, calls fuse_file_answer(). Returns false if the slot is free again.
 */
bool fuse_file_decode(const struct fuse_file *file, struct fuse_slot *slot, size_t size);
/* Answers the message in @slot, whose request the disk has finished. */
void fuse_file_answer(const struct fuse_slot *slot);

#endif
