/*
 * fuse_queue: a thread that serves requests of the FUSE file from a disk.
 *
 * Theory of operation. Each queue has a disk queue, and descriptors of the FUSE connection of its own, because an answer
 * must go to the descriptor that its request came from (FUSE_DEV_IOC_CLONE). A request is read into a slot of registered
 * memory. The slot is placed so that the data after a WRITE's headers begins a page. The store reads a WRITE's data from
 * there and puts a READ's data there. So the kernel makes the only copies, to and from the descriptor. Apart from the
 * store's work, a request is two system calls: read and writev. Nothing is allocated after the start.
 *
 * Waiting. While requests are in progress, the thread alternately reads a non-blocking descriptor and polls the disk.
 * spin.h says for how long. Then it sleeps in poll(2) on that descriptor and the disk's. Requests read in one turn are
 * submitted together.
 *
 * While no request is in progress, the thread sleeps in a read of a blocking descriptor. This needs no system calls
 * beyond the two of a request, and each request wakes one thread. With the store in local memory, 4 KiB at depth 1 took
 * 9.4 us. An armed store, and an epoll_wait() over both descriptors before each read, took 12.9 us. But a store must
 * also be polled without a request, when a donor has gone away or come back. So a timer interrupts the read every
 * TICK_NS by a signal. If a tick finds no requests since the last tick, the ticks stop and the thread sleeps in
 * poll(2). The next request starts them again. Without requests, no thread runs.
 *
 * The signal may also come outside the read. So the store must accept that its system calls are interrupted.
 *
 * The end. After the file system is unmounted or its connection is aborted, reading fails with ENODEV or ECONNABORTED.
 * The thread waits for the requests in progress, and ends.
 *
 * Threads. The functions belong to the main thread. Everything else belongs to the queue's thread.
 */
#ifndef BLOCKDEV_FUSE_QUEUE_H
#define BLOCKDEV_FUSE_QUEUE_H

#include "blockdev/fuse/fuse_file.h"

#define FUSE_QUEUE_DEPTH_MAX 256u

struct fuse_queue_config {
	const char *name;      /* the device's name */
	unsigned index, depth; /* the queue's index, for its thread's name; requests at a time */
	unsigned spin_us;
	int device; /* an open descriptor of the FUSE connection */
};

struct fuse_queue;

/*
 * Starts a queue and returns when it serves. @file outlives the queue. Returns 0, -ENOMEM, an error of the store, or
 * another -errno.
 */
int fuse_queue_start(const struct fuse_file *file, const struct fuse_queue_config *config,
		     struct fuse_queue **ret_queue);
/* Waits for the end of the thread, and frees the queue. The connection has ended. */
void fuse_queue_end(struct fuse_queue *queue);

#endif
