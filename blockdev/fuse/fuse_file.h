/*
 * fuse_file: presents a disk as a file, through the messages of the kernel's FUSE protocol.
 *
 * Theory of operation. The root of a FUSE file system may be a regular file. Here the root is a file of the disk's
 * size, which only the user root can read and write. The file system is mounted over an empty file. The kernel opens
 * the file always for direct I/O, so the page cache has none of the file's pages. Offsets and lengths must be whole
 * sectors, as with O_DIRECT; otherwise the answer is EINVAL. The file's size is fixed.
 *
 * The kernel sends a message for each operation, and waits for an answer to most of them (linux/fuse.h, fuse(4)). A
 * message stays in the memory into which it was read, so that the data of a WRITE is not copied. Reads, writes,
 * discards and flushes become requests for the disk, and are answered when the disk has finished. All other messages
 * are answered at once. The answer to an unknown operation is ENOSYS, and the kernel then does not use the operation
 * any more. INTERRUPT counts as unknown, because a request in progress is never cancelled.
 *
 * To discard, the loop driver punches holes in the file. To write zeroes, it punches holes or zeroes ranges. Both
 * release the memory of whole pages, which then read as zeroes. The loop device's blocks are pages, so the loop driver
 * sends only whole pages.
 *
 * Threads. Any thread may call these functions. They have no state.
 */
#ifndef BLOCKDEV_FUSE_FILE_H
#define BLOCKDEV_FUSE_FILE_H

#include "blockdev/disk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUSE_FILE_HEADERS 80u /* length of the headers before a WRITE's data */

struct fuse_file {
	struct disk *disk;
	uint32_t request_bytes; /* length of the longest read or write */
	unsigned depth;         /* most requests in progress, over all queues */
};

/* A message of the kernel, and the request for the disk that the message becomes. */
struct fuse_slot {
	struct disk_request request; /* first, so that its address is the slot's, too */
	/* Page-aligned memory for the data of one request. The message begins FUSE_FILE_HEADERS bytes before. */
	uint8_t *data;
	int fd; /* the descriptor that the message was read from, and that the answer goes to */
};

/* Reads the kernel's first message from @fd, the descriptor of a new mount. Answers with the protocol version and
   limits. Returns 0, -EPROTO if the kernel has another protocol, or another -errno. */
int fuse_file_greet(const struct fuse_file *file, int fd);
/* Decodes the message of @size bytes in @slot. If the message needs the disk, sets slot->request and returns true. The
   caller then sets the request's buffer, submits the request, and calls fuse_file_answer() when the request is done. If
   the message does not need the disk, answers it and returns false; the slot is free again. */
bool fuse_file_decode(const struct fuse_file *file, struct fuse_slot *slot, size_t size);
/* Answers the message in @slot, whose request the disk has finished. */
void fuse_file_answer(const struct fuse_slot *slot);

#endif
