/*
 * fuse_file: presents a disk as a file system with one file, through libfuse's low-level operations.
 *
 * Theory of operation. The root directory contains one file of the disk's size. Root can read and write it. It is
 * always opened for direct I/O, so the kernel's page cache never holds any of it. As with O_DIRECT, offsets and lengths
 * must be whole sectors; otherwise the answer is EINVAL. The file cannot be truncated, extended or renamed.
 *
 * The loop driver punches holes to discard, and punches holes or zeroes ranges for write-zeroes. Both release the
 * memory of whole pages, which then read as zeroes. The loop device has blocks of a page, so it sends whole pages only.
 *
 * Threads. An operation runs in the thread of the queue that is its session's userdata. Only `init` runs in the main
 * thread, from fuse_queue_connect().
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
	uint32_t request_bytes; /* length of the longest read or write */
	unsigned depth;         /* maximum of requests in progress, over all queues */
};

/* Makes a session that serves @queue. Returns NULL if memory is short. */
struct fuse_session *fuse_file_session(struct fuse_queue *queue);
/* Answers the request in @slot, which the disk has finished. */
void fuse_file_answer(struct fuse_slot *slot);

#endif
