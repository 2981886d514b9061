/*
 * fuse_queue: a thread that serves requests of the FUSE file from a disk.
 *
 * Theory of operation. Each queue has its own
 * - two descriptors of the FUSE connection, because an answer must go to the descriptor that its request came from
 *   (FUSE_DEV_IOC_CLONE);
 * - libfuse session, which decodes requests and encodes answers (fuse_file.h);
 * - disk queue.
 *
 * A request is read into a slot of registered memory. The slot is placed so that the data after a WRITE's headers
 * begins a page. The store reads a WRITE's data from there and puts a READ's data there. So the kernel makes the only
 * copies, to and from the descriptor.
 *
 * Waiting. While requests are in progress, the thread takes turns reading the non-blocking descriptor and polling the
 * disk. spin.h says how long. Then it sleeps in poll(2) on that descriptor and the disk's. Requests read in one turn are
 * submitted together.
 *
 * While no request is in progress, the thread sleeps in a read of its blocking descriptor. This needs no system calls
 * beyond the two of a request, and each request wakes one thread. With the store in local memory, 4 KiB at depth 1 took
 * 9.4 us. With an armed store and an epoll_wait() over both before each read it took 12.9 us. But a store may have news
 * without a request: a donor went away or came back. So a timer interrupts the read every TICK_NS by a signal. If a tick
 * finds no requests since the last tick, the ticks stop and the thread sleeps in poll(2). They go on with the next
 * request. Without requests nothing runs.
 *
 * The signal comes while the thread does other things, too. So the store must put up with interrupted system calls.
 *
 * Memory. Nothing here allocates after the start. libfuse allocates 128 bytes with calloc() for each request and frees
 * them with the answer. Before it serves, the thread allocates and frees as many blocks as it can ever need. After that
 * malloc asks the kernel for nothing. Apart from the store's work, a request is two system calls: read and writev.
 *
 * The end. After the file system is unmounted or its connection is aborted, reading fails with ENODEV or ECONNABORTED.
 * The thread waits for the requests in progress, and ends.
 *
 * Threads. The main thread opens, connects, starts, joins and closes. Everything else belongs to the queue's thread.
 */
#ifndef BLOCKDEV_FUSE_QUEUE_H
#define BLOCKDEV_FUSE_QUEUE_H

#include "blockdev/disk.h"
#include "common/spin.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <time.h>

#define FUSE_REQUEST_MIN (16u << 10)
#define FUSE_REQUEST_MAX (1u << 20)
#define FUSE_DEPTH_MAX 256u

struct fuse_file;
struct fuse_session;
struct fuse_req;

/* Memory for one request. */
struct fuse_slot {
	struct disk_request request; /* first, so a request's address is its slot's */
	struct fuse_req *reply;      /* libfuse's request, or NULL if the disk has none */
	uint8_t *data;               /* page-aligned; the headers end here */
	int fd;                      /* descriptor that the request came from */
};

struct fuse_queue {
	struct fuse_file *file;
	unsigned index, depth;
	uint32_t request_bytes;
	int fd, waiting_fd; /* fd: non-blocking, the session's; waiting_fd: blocking */
	struct fuse_session *session;
	bool muted;     /* answers are dropped */
	int reply_fd;   /* descriptor for the answer that is being given */
	uint8_t *arena; /* depth * slot_bytes */
	size_t slot_bytes;
	struct store_buffer *buffer;
	struct disk_queue *disk;
	timer_t timer;
	bool has_timer;
	bool ticks;                        /* the timer runs */
	bool used;                         /* there was a request since the last tick */
	struct fuse_slot *slots, *current; /* current: the slot that libfuse is decoding */
	unsigned free_count;
	uint16_t *free;
	struct spin spin;
	uint64_t waits_since; /* ns; when the present wait for requests in progress began, or 0 for none */
	bool slept;           /* since waits_since */
	bool ended;           /* the kernel sends no more requests */
	bool running;
	pthread_t thread;
	sem_t prepared; /* the thread has set status */
	int status;     /* 0, or -errno of the preparation */
};

/*
 * Allocates the queue's memory and registers it with the disk's store. @file must outlive the queue. Returns 0, -ENOMEM
 * or an error of the store. After an error, the caller must still call fuse_queue_close().
 */
int fuse_queue_open(struct fuse_queue *queue, struct fuse_file *file, unsigned index, unsigned depth, unsigned spin_us);
/*
 * Opens the queue's session, and its descriptors of the connection that @device belongs to. @init is the kernel's first
 * message, of @size bytes. Only the queue with index 0 answers it. Returns 0, -ENOMEM, -EPROTO if libfuse cannot use
 * this kernel, or another -errno.
 */
int fuse_queue_connect(struct fuse_queue *queue, int device, const void *init, size_t size);
/*
 * Starts the thread and returns when it serves. Returns 0, -ENOMEM, an error of the store, or another -errno.
 */
int fuse_queue_start(struct fuse_queue *queue, const char *name);
/* Waits for the end of the thread, if it runs. The connection has ended. */
void fuse_queue_join(struct fuse_queue *queue);
/* Closes all parts of the queue that are open. Accepts a queue that was never opened (all bytes zero). */
void fuse_queue_close(struct fuse_queue *queue);

/* For fuse_file.c: submits the slot that is being decoded. @reply is answered when the disk has finished it. */
void fuse_queue_submit(struct fuse_queue *queue, struct fuse_req *reply, enum disk_op op, uint64_t offset,
		       uint64_t length, void *data);

#endif
