/*
 * fuse_queue: a thread that serves requests of the FUSE file from a disk.
 *
 * Theory of operation. Each queue has descriptors of the FUSE connection of its own (FUSE_DEV_IOC_CLONE: an answer must
 * go to the descriptor that its request came from), a libfuse session of its own over them, which decodes requests and
 * encodes answers (fuse_file.h), and a disk queue. A request is read into a slot of registered memory, which lies so
 * that what follows the headers of a WRITE begins a page; the store takes it from there, and puts there what a READ
 * answers with, so the only copies are those that the kernel makes to and from the descriptor.
 *
 * Waiting. With nothing under way only the kernel can bring news, so the thread sleeps in a read of its blocking
 * descriptor: no system calls beyond the two that a request needs, and one sleeper woken for each request. With
 * requests under way it reads the other, non-blocking descriptor and polls the disk in turn, for as long as spin.h
 * finds worth it, then sleeps on both in poll(2). What was read is submitted together.
 *
 * Memory. Nothing here allocates after the start. libfuse takes 128 bytes with calloc() for each request and frees them
 * with the answer; before it serves the thread has malloc take as many as can be needed, after which malloc asks the
 * kernel for nothing. Beside what the store does, a request is two system calls: read and writev.
 *
 * The end. When the file system is unmounted, or its connection aborted, reading fails with ENODEV; the thread waits
 * for what is under way, and ends.
 *
 * Threads. Open, connect, start, join, close: the main thread's; the rest is the queue's own thread's.
 */
#ifndef BLOCKDEV_FUSE_QUEUE_H
#define BLOCKDEV_FUSE_QUEUE_H

#include "blockdev/disk.h"
#include "blockdev/fuse/fuse_watch.h"
#include "common/spin.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#define FUSE_REQUEST_MIN (16u << 10)
#define FUSE_REQUEST_MAX (1u << 20)
#define FUSE_DEPTH_MAX 256u

struct fuse_file;
struct fuse_session;
struct fuse_req;

/* Where one request is. */
struct fuse_slot {
	struct disk_request request; /* first, so that it is the slot's address */
	struct fuse_req *reply;      /* libfuse's; NULL: not given to the disk */
	uint8_t *data;               /* a page boundary; the headers end there */
	int fd;                      /* where it came from */
};

struct fuse_queue {
	struct fuse_file *file;
	unsigned index, depth;
	uint32_t request_bytes;
	int fd, waiting_fd; /* non-blocking, of the session; blocking */
	struct fuse_session *session;
	bool muted;     /* answers go nowhere */
	int reply_fd;   /* where the answer that is being given goes */
	uint8_t *arena; /* depth * slot_bytes */
	size_t slot_bytes;
	struct store_buffer *buffer;
	struct disk_queue *disk;
	struct fuse_watch *watch;
	struct fuse_watched watched;
	bool armed;                        /* the disk was, and nothing has happened since */
	struct fuse_slot *slots, *current; /* current: what libfuse is decoding */
	unsigned free_count;
	uint16_t *free;
	struct spin spin;
	uint64_t waits_since; /* ns: since when nothing has happened while requests are under way; 0: something has */
	bool slept;           /* since then */
	bool ended;           /* no more requests will come */
	bool running;
	pthread_t thread;
	sem_t prepared;
	sem_t dismissed; /* nobody else uses its descriptors any more */
	int status;      /* of the preparation */
};

/* Memory of the queue, registered with the disk's store. @file outlives it. -ENOMEM; the store's. */
int fuse_queue_open(struct fuse_queue *queue, struct fuse_file *file, unsigned index, unsigned depth, unsigned spin_us);
/* Descriptors of the connection that @device is one of; @init: the first message of the kernel, @size bytes, which is
   answered by the queue of index 0. */
int fuse_queue_connect(struct fuse_queue *queue, int device, const void *init, size_t size);
/* Returns when the thread serves; @watch is open, and is to be told of queue->watched. -ENOMEM, the store's. */
int fuse_queue_start(struct fuse_queue *queue, const char *name, struct fuse_watch *watch);
/* The connection has been ended. */
void fuse_queue_join(struct fuse_queue *queue);
/* Takes queues of which any part is open, or none (all bytes zero). */
void fuse_queue_close(struct fuse_queue *queue);

/* For fuse_file.c: submits the slot that is being decoded; @reply is answered when it is done. */
void fuse_queue_submit(struct fuse_queue *queue, struct fuse_req *reply, enum disk_op op, uint64_t offset,
		       uint64_t length, void *data);

#endif
