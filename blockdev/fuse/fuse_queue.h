/*
 * fuse_queue: a thread that serves requests to the FUSE file from a disk.
 *
 * Theory of operation. The thread reads a request from the FUSE connection into a slot. Slots are registered with the
 * store, and placed so that a WRITE's data begins on a page. The disk writes this data to the store straight from the
 * slot, and reads a READ's data straight into the slot. So only the kernel copies data. When the disk has finished the
 * request, the thread writes the answer to the descriptor that the request was read from. Each queue has descriptors of
 * its own (FUSE_DEV_IOC_CLONE). A request takes two system calls, read and writev. Nothing is allocated after the
 * start.
 *
 * Waiting, with requests in progress. The thread alternately reads a non-blocking descriptor and polls the disk, for as
 * long as spin.h says. Then it sleeps in poll(2) on this descriptor and the disk's descriptors. The thread submits all
 * requests of one turn together.
 *
 * Waiting, without requests. The thread sleeps in a read of a blocking descriptor. This read also returns the next
 * request, and a request wakes only one thread. With the store in local memory, a single request of 4 KiB took 9.4 us.
 * The same request took 12.9 us when the thread armed the store and called epoll_wait() over both descriptors before
 * each read.
 *
 * But even without requests, the thread must poll the disk now and then, so that the store learns when a donor leaves
 * or returns. So a timer interrupts the read by a signal every TICK_NS, 20 ms. If there was no request since the last
 * tick, the thread stops the timer and sleeps in poll(2). The next request starts the timer again. So an idle device
 * causes no wake-ups.
 *
 * The signal can arrive at any moment, also in a system call of the store. So the store must accept that its system
 * calls fail with EINTR.
 *
 * The end. When the file system is unmounted or the connection is aborted, reads fail with ENODEV or ECONNABORTED.
 * The thread waits for requests in progress, and ends.
 *
 * Threads. The main thread calls these functions. All serving runs in the queue's thread.
 */
#ifndef BLOCKDEV_FUSE_QUEUE_H
#define BLOCKDEV_FUSE_QUEUE_H

#include "blockdev/fuse/fuse_file.h"

#define FUSE_QUEUE_DEPTH_MAX 256u

struct fuse_queue_config {
	const char *name;      /* the device's name */
	unsigned index, depth; /* index: for the thread's name; depth: most requests in progress */
	unsigned spin_us;
	int device; /* a descriptor of the FUSE connection */
};

struct fuse_queue;

/* Starts a queue, and returns when it serves. @file must outlive the queue. Returns 0, -ENOMEM, an error of the
   store, or another -errno. */
int fuse_queue_start(const struct fuse_file *file, const struct fuse_queue_config *config,
		     struct fuse_queue **ret_queue);
/* The caller has ended the FUSE connection. Waits until the thread has ended, and frees the queue. */
void fuse_queue_end(struct fuse_queue *queue);

#endif
