/*
 * fuse_file: the file system of one file that a disk is, as libfuse's low-level operations.
 *
 * Theory of operation. A directory, and in it one file of the disk's size, readable and writable by root, always opened
 * for direct I/O: the kernel's page cache never holds any of it. Offsets and lengths are whole sectors, as of a file
 * opened with O_DIRECT; others are EINVAL. The file cannot be made longer, shorter or renamed. Punching holes and
 * zeroing ranges is what the loop driver does for discards and write-zeroes; both make zeroes and give memory back.
 *
 * Threads. The queue's that the session belongs to (its userdata).
 */
#ifndef BLOCKDEV_FUSE_FILE_H
#define BLOCKDEV_FUSE_FILE_H

#include "blockdev/disk.h"

#include <stdint.h>

struct fuse_session;
struct fuse_queue;
struct fuse_slot;

struct fuse_file {
	struct disk *disk;
	const char *name;
	uint32_t request_bytes; /* of the longest read or write */
	unsigned depth;         /* requests that are served at a time, by all queues */
};

/* A session that answers for @queue. NULL: no memory. */
struct fuse_session *fuse_file_session(struct fuse_queue *queue);
/* Answers the request in @slot, which the disk is done with. */
void fuse_file_answer(struct fuse_slot *slot);

#endif
